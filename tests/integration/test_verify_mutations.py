"""Verify can fail: every check names the change that breaks its invariant."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from partition_ops.config import RunConfig
from partition_ops.run import run_job
from partition_ops.storage import open_store
from partition_ops.verify import CHECKS, VerifyReport, verify_output
from tests.defects import with_defects
from tests.graphs import library
from tests.mutations import MUTATIONS


@pytest.fixture(scope="module")
def good(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with ``input`` and ``output``, and what the output has followed."""
    folder = tmp_path_factory.mktemp("good")
    smaller = open_store(str(library(papers=30).write(folder / "smaller")))
    before = open_store(str(folder / "before"))
    run_job(RunConfig(num_parts=3, engine="random", on_defect="warn"), smaller, before)
    source = open_store(str(with_defects(library()).write(folder / "input")))
    config = RunConfig(num_parts=3, engine="random", on_defect="drop")
    run_job(config, source, open_store(str(folder / "output")), previous=before)
    return folder


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


def test_the_output_was_good(good: Path) -> None:
    report = verify(good)
    assert report.passed, report.summary()
    assert [check.name for check in report.checks] == list(CHECKS)


def test_every_check_has_a_mutation() -> None:
    assert {check for check, _ in MUTATIONS.values()} == set(CHECKS)
