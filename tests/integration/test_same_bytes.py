"""The command line writes the bytes recorded in ``tests/golden/same_bytes.json``, and reads old outputs.

`tests.golden.make_same_bytes` has the cases, lists the fields that are not compared, and renews the digests.

partition_ops 0.1.0 wrote ``tests/golden/old_output`` with ``run old_input old_output --num-parts 2``, without
charts. Do not renew it: later versions must read it, or refuse it in a message that names both versions.
"""

from __future__ import annotations

import json
import re
import shutil
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
import torch

from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
from tests.golden.make_same_bytes import (
    CALLS,
    CASES,
    GOLDEN,
    call,
    missing_for_parmetis,
    prepare_calls,
    read_golden,
    run_case,
    versions,
)
from tests.golden.same_bytes_graphs import grown_graph, tiny_graph
from tests.train_graphs import edges_of, in_memory, same_bits

# Globs of files that newer versions add, relative to the folder of a case, such as "out/idmap/*/new.parquet".
ADDED: tuple[str, ...] = ("*/convert/book.json", "*/partition-ops.json")

RENEW = "To renew the digests: python -m tests.golden.make_same_bytes"

needs_parmetis = pytest.mark.skipif(
    missing_for_parmetis() is not None, reason=f"needs ParMETIS over MPI: {missing_for_parmetis()}"
)


@pytest.fixture(scope="module")
def golden() -> dict[str, Any]:
    return read_golden()


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[needs_parmetis] * case.parmetis) for name, case in CASES.items()]
)
def test_the_bytes_are_the_same(name: str, golden: dict[str, Any], tmp_path: Path) -> None:
    found, expected = run_case(CASES[name], tmp_path), golden["cases"][name]
    assert found["inputs"] == expected["inputs"], f"the inputs differ. {_hint(golden)}"
    assert found["exit_codes"] == expected["exit_codes"]
    problems = differences(found["files"], expected["files"])
    assert not problems, "\n".join([*problems, _hint(golden)])


def differences(found: dict[str, str], expected: dict[str, str], added: tuple[str, ...] = ADDED) -> list[str]:
    """Return a line for each file that is missing, changed, or new and not in `added`."""
    new = [key for key in found if key not in expected and not any(fnmatch(key, glob) for glob in added)]
    changed = [key for key in found if key in expected and found[key] != expected[key]]
    missing = [key for key in expected if key not in found]
    kinds = {"missing": missing, "changed": changed, "new": new}
    return [f"{kind}: {key}" for kind, keys in kinds.items() for key in keys]


def _hint(golden: dict[str, Any]) -> str:
    recorded, present = golden["versions"], versions()
    other = [
        f"{name} {present[name]} instead of {recorded[name]}"
        for name in recorded
        if present.get(name) != recorded[name]
    ]
    return f"{RENEW}. {'Other versions: ' + ', '.join(other) + '.' if other else ''}"


def test_every_case_has_digests(golden: dict[str, Any]) -> None:
    assert [*golden["cases"]] == [*CASES], RENEW
    assert [*golden["calls"]] == [*CALLS], RENEW
    for record in golden["cases"].values():
        assert record["files"]
        assert not any(record["exit_codes"])


@pytest.mark.parametrize("name", ["stage by stage", "little memory"])
def test_the_same_options_give_the_same_bytes(name: str, golden: dict[str, Any]) -> None:
    assert CASES[name].outputs == CASES["auto"].outputs
    for key in ("inputs", "files"):
        assert golden["cases"][name][key] == golden["cases"]["auto"][key]


@pytest.mark.parametrize(
    ("found", "expected", "problems"),
    [
        ({"a": "1"}, {"a": "1"}, []),
        ({"a": "1"}, {"a": "2"}, ["changed: a"]),
        ({}, {"a": "2"}, ["missing: a"]),
        ({"a": "1", "b": "1"}, {"a": "1"}, ["new: b"]),
        ({"a": "1", "added": "1"}, {"a": "1"}, []),
    ],
)
def test_differences(found: dict[str, str], expected: dict[str, str], problems: list[str]) -> None:
    assert differences(found, expected, added=("add*",)) == problems


@pytest.fixture(scope="module")
def calls_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("calls")
    prepare_calls(folder)
    return folder


@pytest.mark.parametrize("words", CALLS)
def test_the_exit_codes_are_the_same(words: str, golden: dict[str, Any], calls_folder: Path) -> None:
    assert call(words, calls_folder) == golden["calls"][words]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    """Return a folder with copies of ``old_input`` and ``old_output``."""
    for name in ("old_input", "old_output"):
        shutil.copytree(GOLDEN.parent / name, tmp_path / name)
    return tmp_path


@pytest.fixture
def accepts(old: Path, capsys: pytest.CaptureFixture[str]) -> Any:
    """Return a function that calls a verb on the old output.

    It returns True if the verb succeeds, and False if the verb refuses the output and names both versions.
    """

    def calling(words: str) -> bool:
        code = call(words, old)
        if code == 0:
            return True
        message = capsys.readouterr().err
        assert call("run @old_input @fresh --num-parts 2 --engine random", old) == 0
        manifests = [old / name / "manifest.json" for name in ("old_output", "fresh")]
        before, now = (json.loads(path.read_text()) for path in manifests)
        pairs = (
            (before["version"], now["version"]),
            (before["versions"]["partition_ops"], now["versions"]["partition_ops"]),
        )
        assert code == 3, message
        assert any(one != other and has_words(message, one, other) for one, other in pairs), message
        return False

    return calling


def has_words(message: str, *words: object) -> bool:
    """Return whether a message has every word."""
    return all(re.search(rf"(?<![\w.]){re.escape(str(word))}(?!\w|\.\d)", message) for word in words)


def test_verify_accepts_the_old_output(accepts: Any) -> None:
    accepts("verify @old_input @old_output")


def test_the_input_of_the_old_output_is_unchanged(
    accepts: Any, old: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if accepts("changes @old_input @old_output --json"):
        assert json.loads(capsys.readouterr().out)["unchanged_since"]


def test_fetch_copies_a_partition_of_the_old_output(accepts: Any, old: Path) -> None:
    if accepts("fetch @old_output --part 1 --to @fetched"):
        partitions, fetched = old / "old_output" / "partitions", old / "fetched"
        for key in ("tiny.json", "part1/graph.dgl", "part1/node_feat.dgl", "part1/edge_feat.dgl"):
            assert (fetched / key).read_bytes() == (partitions / key).read_bytes()


@pytest.mark.parametrize(
    ("option", "name"),
    [("--node-type paper", "nodes/paper"), ("--edge-type paper:cites:paper", "edges/paper:cites:paper")],
)
def test_idmap_restores_with_the_old_maps(option: str, name: str, accepts: Any, old: Path) -> None:
    ids = pq.read_table(old / "old_output" / "idmap" / f"{name}.parquet").column("orig_id").to_numpy()
    np.save(old / "rows.npy", ids)
    if accepts(f"idmap restore @old_output {option} --input @rows.npy --output @restored.npy"):
        assert np.load(old / "restored.npy").tolist() == [*range(len(ids))]


@pytest.mark.parametrize("ids", ["new", "original"])
def test_the_old_output_is_a_graph_to_train_on(ids: Any, old: Path) -> None:
    graph = tiny_graph()
    with PartitionedGraph(str(old / "old_output"), ids=ids, cache=old / "cache") as found:
        expected = in_memory(graph, found.book if ids == "new" else None)
        everyone = {ntype: torch.arange(found.num_nodes(ntype)) for ntype in found.ntypes}
        assert edges_of(found.in_subgraph(everyone), is_block=False) == edges_of(
            import_dgl().in_subgraph(expected, everyone), is_block=False
        )
        for value in graph.node_values:
            rows = found.get_node_storage(value.name, value.type_name).fetch(everyone[value.type_name], "cpu")
            assert same_bits(rows, expected.nodes[value.type_name].data[value.name])


def test_a_run_follows_the_old_output(accepts: Any, old: Path) -> None:
    grown_graph(tiny_graph()).write(old / "grown")
    if accepts("run @grown @new --num-parts 2 --previous @old_output"):
        migration = json.loads((old / "new" / "assignment" / "migration.json").read_text())
        counts = {name: (one["old"], one["new"]) for name, one in migration["node_types"].items()}
        assert counts == {"author": (5, 0), "paper": (24, 2)}
        assert call("verify @grown @new", old) == 0


@pytest.mark.parametrize("verb", ["quality", "idmap export"])
def test_a_report_leaves_the_old_output_finished(verb: str, accepts: Any, old: Path) -> None:
    accepts(f"{verb} @old_input --output @old_output")
    assert (old / "old_output" / "manifest.json").exists()
    accepts("verify @old_input @old_output")
