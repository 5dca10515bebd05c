"""Where verbs may write: every verb of the command line is called with places inside all kinds of roots."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.cli import main
from partition_ops.cli.verb import ListedVerb, Verb
from partition_ops.cli.verbs import VERBS
from tests.graphs import library
from tests.integration.test_own_roots import write_tables

ENGINE = "--num-parts 2 --engine random"
ROWS = "OUT --node-type paper --input ROWS --output"
# calls of every verb that is given a place, TO; calls of verbs that write nothing have their roots there
CALLS: dict[str, tuple[str, ...]] = {
    "run": (f"run IN TO {ENGINE}",),
    "ingest": ("ingest TABLES/graph.yaml TO", "ingest TABLES/graph.yaml TO --previous GRAPH"),
    "validate": ("validate IN --output TO --no-data-docs",),
    "schema": ("schema IN --output TO/", "schema IN --output TO/x.json"),
    "prepare": ("prepare IN --output TO", "prepare IN --output TO --format parmetis"),
    "partition": (f"partition IN --output TO {ENGINE}",),
    "convert": ("convert IN --output TO", "convert IN --output TO --assignment OUT/assignment"),
    "cache": ("cache IN --output TO",),
    "probe": ("probe TO", "probe OUT --cache TO --no-report"),
    "idmap export": ("idmap export IN --output TO",),
    "idmap restore": (f"idmap restore {ROWS} TO/x.npy",),
    "idmap apply": (f"idmap apply {ROWS} TO/{{part}}.npy", f"idmap apply {ROWS} TO/x.parquet"),
    "idmap carry-over": ("idmap carry-over OUT OUT --output TO",),
    "quality": ("quality IN --output TO",),
    "publish": ("publish IN --output TO",),
    "retain": ("retain TO --keep 1",),
    "copy": ("copy TABLES TO", "copy OUT TO"),
    "fetch": ("fetch OUT --part 0 --to TO", "fetch OUT --part 0 1 --to TO --format dgl"),
    "dags": ("dags --to TO",),
    "examples": ("examples --to TO",),
    "pm-dglpart": ("pm-dglpart small 2",),  # it writes into the current folder
    "convert-partition": (
        "convert-partition --input-dir TEXT --graph-name small --schema TEXT/schema.json --num-parts 2"
        " --num-node-weights 3 --output TO",
    ),
}
READS: dict[str, tuple[str, ...]] = {
    "estimate": (f"estimate IN {ENGINE} --output TO",),
    "verify": ("verify IN TO",),
    "changes": ("changes IN TO",),
}
NO_PLACE = {"compile"}  # it takes none
PLACES = (
    *("IN", "IN/new", "IN/node_data", "IN/node_data/new"),
    *("OTHER/new", "OTHER/partitions", "OTHER/partitions/part0", "OTHER/prepare/new"),
    *("BEGUN/partitions", "BEGUN/idmap/new", "BEGUN/quality", "BEGUN/validation"),
    *("GRAPH", "GRAPH/new", "GRAPH/node_data"),
    *("FETCHED/new", "FETCHED/part0", "MAPS/new", "MAPS/nodes"),
)
FILE_VERBS = ("idmap restore", "idmap apply")
BESIDE = [place for place in PLACES if place.startswith("IN")]  # a new feature may lie beside others
OUTPUT_VERBS = (
    "run",
    "validate",
    "schema",
    "prepare",
    "partition",
    "convert",
    "cache",
    "idmap export",
    "quality",
)
INSIDE = ("IN/new", "IN/node_data/new")  # an output may lie inside a graph
OWN = {
    ("ingest", "GRAPH"),
    *((name, place) for name in FILE_VERBS for place in BESIDE),
    *((name, place) for name in OUTPUT_VERBS for place in INSIDE),
}
SHARED = ("IN", "OUT", "OTHER", "BEGUN", "GRAPH", "FETCHED", "MAPS", "TABLES", "TEXT")


def all_verbs(verbs: tuple[ListedVerb, ...] = VERBS, above: str = "") -> Iterator[tuple[str, Verb]]:
    for listed in verbs:
        name, verb = f"{above}{listed.name}", listed.verb
        yield from all_verbs(verb.verbs, f"{name} ") if verb.verbs else iter([(name, verb)])


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a root of every kind; BEGUN is an output that is not finished."""
    folder = tmp_path_factory.mktemp("world")
    library().write(folder / "IN")
    write_tables(folder / "TABLES")
    np.save(folder / "ROWS.npy", np.arange(40.0))
    for words in (
        f"run IN OUT {ENGINE}",
        "prepare IN --output TEXTS --format parmetis",
        "schema IN --output TEXTS/prepare/schema.json",
        "ingest TABLES/graph.yaml GRAPH",
        "fetch OUT --part 0 --to FETCHED",
        "idmap carry-over OUT OUT --output MAPS",
        f"partition IN --output BEGUN {ENGINE}",
    ):
        assert main(placed(words, folder)) == 0
    (folder / "TEXTS" / "prepare").rename(folder / "TEXT")
    shutil.copytree(folder / "OUT", folder / "OTHER")
    return folder


def placed(words: str, folder: Path, to: str = "") -> list[str]:
    """Replace the first part of each word that is the name of a root by its path."""
    found = []
    for word in words.split():
        first, slash, rest = word.partition("/")
        first = to if first == "TO" else first
        name = {"ROWS": "ROWS.npy"}.get(first, first)
        found.append(f"{folder / name}{slash}{rest}" if first.split("/")[0].isupper() else word)
    return found


def content(folder: Path) -> dict[str, bytes]:
    return {
        f"{root}/{path.relative_to(folder / root).as_posix()}": path.read_bytes()
        for root in SHARED
        for path in (folder / root).rglob("*")
        if path.is_file()
    }


def test_every_verb_has_calls_here() -> None:
    """A new verb must be added to `CALLS`, with a call for each argument that says where it writes."""
    verbs = dict(all_verbs())
    assert {*CALLS} | {*READS} | NO_PLACE == {*verbs}
    for name in NO_PLACE:
        assert not verbs[name].options and verbs[name].add_arguments.__name__ == "_no_arguments"


@pytest.mark.parametrize("name", [name for name, _ in all_verbs() if name not in NO_PLACE])
def test_verbs_write_into_no_root_of_others(
    name: str, world: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    before = content(world)
    for place in PLACES:
        for words in chain(CALLS.get(name, ()), READS.get(name, ())):
            if name == "pm-dglpart":
                if not (world / place).is_dir():
                    continue
                monkeypatch.chdir(world / place)
            code = main(placed(words, world, place))
            said = f"{words} with {place} ended with {code}: {capsys.readouterr().err}"
            found = content(world)
            assert [key for key, data in before.items() if found.get(key) != data] == [], said
            if (name, place) in OWN:
                for key in found.keys() - before.keys():
                    (world / key).unlink()
                continue
            assert found.keys() == before.keys() and "unexpected" not in said, said
            assert name in READS or code in (2, 3), said


@pytest.mark.parametrize("place", ["BEGUN/new", "new"])
def test_fetch_accepts_new_folders(place: str, world: Path) -> None:
    """Beside the folders of a run, in an output that is not finished, there may be others."""
    words = placed("fetch OUT --part 0 --to TO", world, place) if place != "new" else []
    words = words or [*placed("fetch OUT --part 0 --to", world), str(world / place)]
    assert main(words) == 0
    shutil.rmtree(world / place)


def test_the_text_route_works_in_one_output(world: Path, tmp_path: Path) -> None:
    """`pm-dglpart` writes beside the text, in ``prepare/`` of an output."""
    from partition_ops.artifacts.write_access import check_root
    from partition_ops.storage import open_store

    assert main([*placed("prepare IN --format parmetis --output", world), str(tmp_path / "out")]) == 0
    check_root("pm-dglpart", open_store(str(tmp_path / "out" / layout.PARMETIS_TEXT)))
    assert main([*placed("schema IN --output", world), str(tmp_path / "out" / "small.json")]) == 0
