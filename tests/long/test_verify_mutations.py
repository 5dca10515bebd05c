"""Verify can fail: every check names the change that breaks its invariant."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.formats.dgl.checks import CHECKS as DGL_CHECKS
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.verification import CHECKS, VerifyReport, verify_output
from tests.defects import with_defects
from tests.graphs import library, social
from tests.mutations import MUTATIONS, WRITES


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``input`` and ``output``, and what the output has followed."""
    folder = tmp_path_factory.mktemp("good")
    smaller = open_store(str(library(papers=30).write(folder / "smaller")))
    before = open_store(str(folder / "before"))
    run_job(RunConfig(num_parts=3, engine="random", on_defect="warn"), smaller, before)
    source = open_store(str(with_defects(library()).write(folder / "input")))
    add_negatives(folder / "input")
    config = RunConfig(num_parts=3, engine="random", on_defect="drop", cache_share=0.3)
    run_job(config, source, open_store(str(folder / "output")), previous=before)
    return folder


def add_negatives(graph: Path) -> None:
    """Write pairs that are no edges beside a graph."""
    pq.write_table(pa.table({"src": [0, 1], "dst": [0, 2]}), graph / "negatives.parquet")
    document = json.loads((graph / "metadata.json").read_text())
    document["negatives"] = {WRITES: {"format": {"name": "parquet"}, "data": ["negatives.parquet"]}}
    (graph / "metadata.json").write_text(json.dumps(document))


def verify(folder: Path) -> VerifyReport:
    return verify_output(open_store(str(folder / "input")), open_store(str(folder / "output")))


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_a_broken_invariant_is_named(good: Path, tmp_path: Path, mutation: str) -> None:
    check, mutate = MUTATIONS[mutation]
    shutil.copytree(good / "input", tmp_path / "input")
    shutil.copytree(good / "output", tmp_path / "output")
    mutate(tmp_path / "output")
    failed = {outcome.name: outcome.detail for outcome in verify(tmp_path).failed}
    assert check in failed, failed
    assert "could not be checked" not in failed[check]


@pytest.mark.parametrize("change", [dict.clear, lambda manifest: manifest.update(version=99)])
def test_a_document_that_is_no_manifest_of_this_version_is_named(
    good: Path, tmp_path: Path, change: Callable[[dict[str, object]], None]
) -> None:
    shutil.copytree(good, tmp_path / "all")
    path = tmp_path / "all/output/manifest.json"
    manifest = json.loads(path.read_text())
    change(manifest)
    path.write_text(json.dumps(manifest))
    failed = {outcome.name: outcome.detail for outcome in verify(tmp_path / "all").failed}
    assert "manifest.json: " in failed["configuration"] and "version" in failed["configuration"]
    assert failed["manifest-artifacts"] == "see the check 'configuration'"
    assert not [detail for detail in failed.values() if "KeyError" in detail]


def test_the_output_was_good(good: Path) -> None:
    report = verify(good)
    assert report.passed, report.summary()
    assert [check.name for check in report.checks] == [*CHECKS, *DGL_CHECKS]


def test_every_check_has_a_mutation() -> None:
    assert {check for check, _ in MUTATIONS.values()} == {*CHECKS, *DGL_CHECKS}


def test_that_the_input_is_another_is_said_first(good: Path, tmp_path: Path) -> None:
    output = open_store(str(good / "output"))
    for number, graph in enumerate([library(seed=1), library(papers=80), social()]):
        other = open_store(str(with_defects(graph).write(tmp_path / str(number))))
        with pytest.raises(InvalidInputError, match=rf"{other.uri} is not the graph that {output.uri} was"):
            verify_output(other, output)


def test_one_changed_file_of_the_input_is_a_failed_check(good: Path, tmp_path: Path) -> None:
    shutil.copytree(good, tmp_path / "all")
    (tmp_path / "all/input/node_data/1-0.npy").write_bytes(b"")
    failed = {outcome.name for outcome in verify(tmp_path / "all").failed}
    assert "manifest-input" in failed and "edge-ends" not in failed
