"""Verify checks the partitions of every output format, also of one that has no checks of its own."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from partition_ops.formats.dgl.checks import CHECKS as DGL_CHECKS
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.verification import CHECKS, VerifyReport, verify_output
from tests.format_plugin import NAME, install, on_the_path
from tests.graphs import library

PART = f"formats/{NAME}/part1"


@pytest.fixture(scope="module", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with on_the_path(install(tmp_path_factory.mktemp("package"))):
        yield


@pytest.fixture(scope="module", params=[(NAME,), ("dgl", NAME)], ids="-".join)
def good(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("good")
    config = RunConfig(num_parts=3, engine="random", on_defect="warn", formats=request.param)
    source = open_store(str(library().write(folder / "input")))
    run_job(config, source, open_store(str(folder / "output")))
    return folder


def verify(folder: Path) -> VerifyReport:
    return verify_output(open_store(str(folder / "input")), open_store(str(folder / "output")))


def edit(name: str, change: Callable[[np.ndarray], object]) -> Callable[[Path], None]:
    """Change a column of partition 1 in place."""

    def mutate(output: Path) -> None:
        path = output / PART / f"{name}.npy"
        values = np.load(path)
        change(values)
        np.save(path, values)

    return mutate


def swap(values: np.ndarray) -> None:
    values[[0, 1]] = values[[1, 0]]


def add(values: np.ndarray) -> None:
    values[0] += 1


def cut(output: Path) -> None:
    path = output / PART / "edges/src.npy"
    path.write_bytes(path.read_bytes()[:-1])


MUTATIONS: dict[str, tuple[str, Callable[[Path], None]]] = {
    "a column is gone": ("fields", lambda output: (output / PART / "nodes/part_id.npy").unlink()),
    "a column is cut short": ("fields", cut),
    "new node IDs swapped": ("inner-nodes", edit("nodes/new_id", swap)),
    "owner of a node": ("node-owners", edit("nodes/part_id", add)),
    "original ID of a node": ("every-node-once", edit("nodes/orig_id", add)),
    "new edge IDs swapped": ("edge-ids", edit("edges/new_id", swap)),
    "a source": ("edge-ends", edit("edges/src", add)),
    "original ID of an edge": ("every-edge-once", edit("edges/orig_id", add)),
    "original IDs beside the features": ("original-ids", edit("node_orig_ids/paper", swap)),
    "a node feature": ("node-features", edit("node_features/paper/feat", add)),
    "an edge feature": ("edge-features", edit("edge_features/paper:cites:paper/year", add)),
    "a partition too many": (
        "configuration",
        lambda output: shutil.copytree(output / PART, output / f"formats/{NAME}/part9"),
    ),
}


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_damage_is_found(good: Path, tmp_path: Path, mutation: str) -> None:
    check, mutate = MUTATIONS[mutation]
    shutil.copytree(good, tmp_path / "all")
    mutate(tmp_path / "all/output")
    failed = {outcome.name: outcome.detail for outcome in verify(tmp_path / "all").failed}
    assert NAME in failed[check], failed
    assert "could not be checked" not in failed[check]
    assert not failed.keys() & {*DGL_CHECKS}


def test_the_output_was_good(good: Path) -> None:
    report = verify(good)
    assert report.passed, report.summary()
    own = [*DGL_CHECKS] if (good / "output/partitions/small.json").exists() else []
    assert [check.name for check in report.checks] == [*CHECKS, *own]
