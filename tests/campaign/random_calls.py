"""Calls of random verbs on random roots: only the output of the call itself may change."""

from __future__ import annotations

import random
import shutil
import tempfile
from functools import cache
from pathlib import Path

import numpy as np

from partition_ops.artifacts import layout
from tests.campaign.commands import Command, succeed
from tests.campaign.frame import Attempt, Case, Defect, Verdict
from tests.graphs import library
from tests.integration.test_own_roots import write_tables

CALLS = 10  # in a world, by one process
ROOTS = {  # what a root of the world holds
    "graph": "input",
    "tables": "input",
    "mine": "input",
    "out": "output",
    "out_of_tables": "output",
    "ingested": "ingested graph",
    "fetched": "fetched partitions",
    "maps": "maps of IDs",
}
BELOW = ("", "", "", "/partitions", "/ingest", "/new", "/quality", "/node_data", "/part0", "/nodes")
OWN = {layout.LOCK, layout.MARKER}
ENGINE = ("--num-parts", "2", "--engine", "random")


@cache
def world() -> Path:
    """Return a folder with roots of all kinds; each process makes it once."""
    folder = Path(tempfile.mkdtemp(prefix="campaign-world-"))
    library().write(folder / "graph")
    write_tables(folder / "tables")
    (folder / "mine").mkdir()
    (folder / "mine" / "notes.txt").write_text("mine")
    np.save(folder / "mine" / "rows.npy", np.arange(40.0))
    for words in (
        ("run", "graph", "out", *ENGINE),
        ("run", "tables/graph.yaml", "out_of_tables", *ENGINE),
        ("ingest", "tables/graph.yaml", "ingested"),
        ("fetch", "out", "--part", "0", "--to", "fetched"),
        ("idmap", "carry-over", "out", "out", "--output", "maps"),
    ):
        succeed(Command([_placed(folder, word) for word in words], folder.parent / f"{folder.name}.log"))
    return folder


def _placed(folder: Path, word: str) -> str:
    return str(folder / word) if word.split("/")[0] in ROOTS else word


def random_calls(attempt: Attempt) -> Verdict:
    """Call random verbs with random roots of a copy of the world."""
    folder = attempt.folder / "world"
    shutil.copytree(world(), folder)
    kinds, chance = dict(ROOTS), attempt.random
    refused = 0
    for call in range(CALLS):
        words, target, kind = _call(chance)
        before = _content(folder)
        command = Command([_in(folder, word) for word in words], attempt.folder / f"log{call}")
        code = command.wait()
        said = command.output()
        if code not in (0, 1, 2, 3) or "Traceback" in said or "unexpected" in said:
            raise Defect(f"{words} ended with {code}: {said}")
        lost = _lost(before, _content(folder), _own_root(target, kind, kinds))
        if lost:
            raise Defect(f"{words} ended with {code} and changed {lost[:5]}: {said}")
        refused += code != 0
        if code == 0 and kind and target not in kinds and not (folder / target).is_file():
            kinds[target] = kind
    return Verdict.REFUSED if refused == CALLS else Verdict.SAME


def _in(folder: Path, word: str) -> str:
    return word.replace("@", f"{folder}/") if "@" in word else word


def _call(chance: random.Random) -> tuple[list[str], str, str]:
    """Return the words of a call, the root or file that it writes, and what the verb makes of a root."""

    def place() -> str:
        return chance.choice([*ROOTS, "new", "new2"]) + chance.choice(BELOW)

    graph = chance.choice(["@graph", "@tables/graph.yaml", "@ingested", f"@{place()}"])
    run = f"@{chance.choice(['out', 'out_of_tables', place()])}"
    target = place()
    file = (
        f"{place()}/{chance.choice(['x.npy', 'manifest.npy', '0-0.npy', 'rows.npy', 'u.parquet', 'g.json'])}"
    )
    verb = chance.choice(
        ("run", "ingest", "ingest", "fetch", "restore", "apply", "carry-over", "schema", "stage", "previous")
    )
    if verb == "run":
        return ["run", graph, f"@{target}", *ENGINE], target, "output"
    if verb == "ingest":
        return ["ingest", "@tables/graph.yaml", f"@{target}"], target, "ingested graph"
    if verb == "previous":
        words = ["ingest", "@tables/graph.yaml", f"@{target}", "--previous", f"@{place()}"]
        return words, target, "ingested graph"
    if verb == "fetch":
        return (
            ["fetch", run, "--part", chance.choice("01"), "--to", f"@{target}"],
            target,
            "fetched partitions",
        )
    if verb in ("restore", "apply"):
        words = [
            "idmap",
            verb,
            run,
            "--node-type",
            "paper",
            "--input",
            "@mine/rows.npy",
            "--output",
            f"@{file}",
        ]
        return words, file, ""
    if verb == "carry-over":
        return ["idmap", "carry-over", run, run, "--output", f"@{target}"], target, "maps of IDs"
    if verb == "schema":
        return ["schema", graph, "--output", f"@{file}"], file, ""
    stage = chance.choice(
        [["validate"], ["partition", *ENGINE], ["idmap", "export"], ["publish"], ["quality"]]
    )
    return (
        [stage[0], *stage[1:2], graph, "--output", f"@{target}", *stage[2:]]
        if stage[0] == "idmap"
        else [stage[0], graph, "--output", f"@{target}", *stage[1:]],
        target,
        "output",
    )


def _own_root(target: str, kind: str, kinds: dict[str, str]) -> str | None:
    """Return the root or file that a call may change: of its own kind, or new."""
    root = target.split("/")[0]
    if kind and kinds.get(target) == kind:
        return target
    if not kind and root not in ("new", "new2", "mine"):
        return None if root in ROOTS else target
    return target if target not in kinds and root not in ROOTS else None


def _content(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in folder.rglob("*")
        if path.is_file() and path.name not in OWN
    }


def _lost(before: dict[str, bytes], after: dict[str, bytes], own: str | None) -> list[str]:
    """Return the files that are gone or changed, beside those of the call's own root."""
    return [
        key
        for key, data in before.items()
        if after.get(key) != data and not (own and (key == own or key.startswith(f"{own}/")))
    ]


CASES = [Case("random calls", random_calls, 100, 1)]
