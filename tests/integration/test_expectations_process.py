"""The child process with Great Expectations, its end, and expectations that it rejects."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.expectations import Evaluator, EvaluatorError, Suite
from partition_ops.stages.validate.metrics import METRICS

BETWEEN = "expect_column_values_to_be_between"


def suite(kind: str = BETWEEN, name: str = "node_types", **kwargs: Any) -> dict[str, Any]:
    return {"name": name, "expectations": [{"type": kind, "kwargs": kwargs}]}


REJECTED = {
    "an unknown type": (
        suite("expect_column_values_to_be_betwen", column="nodes", max_value=1),
        r"\(expect_column_values_to_be_betwen\): there is no such expectation.*one of.*to_be_between",
    ),
    "a wrong argument": (
        suite(column="nodes", maximum=1),
        r"wrong arguments:.*maximum.*extra fields not permitted",
    ),
    "an expectation in SQL": (
        suite("unexpected_rows_expectation", unexpected_rows_query="select 1"),
        r"there is no such expectation",
    ),
}


@pytest.mark.parametrize("case", REJECTED)
def test_a_broken_expectation_is_rejected_before_measuring(case: str) -> None:
    document, words = REJECTED[case]
    with (
        Evaluator([Suite("mine.json", document)]) as evaluator,
        pytest.raises(InvalidInputError, match=words) as raised,
    ):
        evaluator.wait_until_ready()
    assert str(raised.value).startswith("mine.json: expectations[0]")


def test_an_expectation_that_cannot_be_evaluated_is_rejected() -> None:
    document = suite("expect_column_values_to_be_increasing", column="name")
    row = {**dict.fromkeys(METRICS["node_types"], 0), "name": "paper"}
    with (
        Evaluator([Suite("mine.json", document)]) as evaluator,
        pytest.raises(InvalidInputError, match=r"mine\.json.*evaluated"),
    ):
        evaluator.evaluate({"node_types": [row, {**row, "name": "author"}]})


def test_the_error_says_that_the_child_was_killed() -> None:
    with Evaluator() as evaluator:
        os.kill(evaluator.pid, signal.SIGKILL)
        with pytest.raises(EvaluatorError, match=r"ended by SIGKILL") as raised:
            evaluator.evaluate({})
    assert raised.value.transient


def test_a_child_that_cannot_start_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "great_expectations.py").write_text("raise ImportError('No module named posthorn')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        Evaluator() as evaluator,
        pytest.raises(EvaluatorError, match=r"(?s)exit code 1.*No module named posthorn.*constraints"),
    ):
        evaluator.evaluate({})


def test_a_child_that_does_not_answer_is_an_error() -> None:
    with (
        Evaluator(patience=0.05) as evaluator,
        pytest.raises(EvaluatorError, match=r"has not answered for 0 s"),
    ):
        evaluator.wait_until_ready()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_the_error_says_that_the_disk_is_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]).returncode:
        pytest.skip("mounting is not permitted here")
    fills = "open('full', 'wb', buffering=0).write(bytes(1 << 20)); raise OSError(28, 'No space left')"
    (tmp_path / "great_expectations.py").write_text(fills)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    try:
        with (
            Evaluator() as evaluator,
            pytest.raises(EvaluatorError, match=rf"no space left\. .* in {disk}/.*set TMPDIR"),
        ):
            evaluator.evaluate({})
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_closing_ends_the_child_and_removes_its_files() -> None:
    with Evaluator() as evaluator:
        folder = Path(psutil.Process(evaluator.pid).cwd())
        assert folder.is_dir()
    assert not psutil.pid_exists(evaluator.pid)
    assert not folder.exists()


def test_the_child_does_not_outlive_a_parent_that_is_killed() -> None:
    code = (
        "import time; from partition_ops.stages.validate.expectations import Evaluator;"
        "evaluator = Evaluator(); print(evaluator.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as parent:
        child = int(parent.stdout.readline()) if parent.stdout else 0
        assert psutil.pid_exists(child)
        parent.kill()
    deadline = time.monotonic() + 20
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_the_child_sees_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    with Evaluator() as evaluator:
        deadline = time.monotonic() + 60
        while not (environment := psutil.Process(evaluator.pid).environ()):  # it has only just been started
            assert time.monotonic() < deadline
    assert "secret" not in environment.values()
    assert environment["GX_ANALYTICS_ENABLED"] == "false"
