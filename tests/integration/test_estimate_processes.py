"""Processes around an estimate: it imports no stage, and a killed one leaves no files."""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from partition_ops.system.temporary_folders import remove_abandoned


def test_no_code_of_a_stage_is_imported() -> None:
    names = ("validate.validate", "prepare.prepare", "partition.partition", "convert.convert", "idmap.export")
    stages = [f"partition_ops.stages.{name}" for name in names]
    code = f"import sys, partition_ops.jobs.estimate; print([m for m in {stages} if m in sys.modules])"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.strip() == "[]"


KILLED = """
import os, signal
from partition_ops.chunked import feature_formats
from partition_ops.chunked.metadata import FileFormat
feature_formats.read_csv = lambda *given: os.kill(os.getpid(), signal.SIGKILL)
feature_formats.read_csv_head(b"1", FileFormat("csv"), "")
"""


def test_the_beginning_of_a_csv_goes_with_a_killed_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", None)
    assert subprocess.run([sys.executable, "-c", KILLED]).returncode == -signal.SIGKILL
    remove_abandoned()
    assert not [*tmp_path.iterdir()]
