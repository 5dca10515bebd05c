"""The child process, its end, and suites that are refused."""

from __future__ import annotations

import json
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
from partition_ops.stages.validate.expectations import Judge, JudgeError, Suite, read_suites
from partition_ops.stages.validate.metrics import METRICS
from partition_ops.storage import open_store

BETWEEN = "expect_column_values_to_be_between"


def suite(kind: str = BETWEEN, name: str = "node_types", **kwargs: Any) -> dict[str, Any]:
    return {"name": name, "expectations": [{"type": kind, "kwargs": kwargs}]}


def condition(text: Any, parser: str = "great_expectations") -> dict[str, Any]:
    return suite(column="nodes", max_value=1, row_condition=text, condition_parser=parser)


REFUSED_AT_ONCE = {
    "no object": ([], r"the document violates the format"),
    "no table": ({"expectations": []}, r"'name' is a required property"),
    "an unknown table": (suite(name="nodes", column="x"), r"'nodes' is not one of.*node_types, edge_types"),
    "no expectations": ({"name": "graph"}, r"'expectations' is a required property"),
    "no type": ({"name": "graph", "expectations": [{"kwargs": {}}]}, r"expectations\[0\].*'type'"),
    "a typing error": (
        {"name": "graph", "expectations": [], "expectation": []},
        r"'expectation' was unexpected",
    ),
    "an unknown action": (
        {"name": "graph", "expectations": [{"type": BETWEEN, "kwargs": {}, "meta": {"action": "stop"}}]},
        r"meta\.action.*'stop'.*fail, warn or info",
    ),
    "an unknown column": (
        suite(column="isolated", max_value=1),
        r"expectations\[0\]\.kwargs\.column.*'node_types'.*'isolated'.*isolated_nodes, isolated_share",
    ),
    "an unknown second column": (
        suite("expect_column_pair_values_to_be_equal", column_A="nodes", column_B="edges"),
        r"kwargs\.column_B.*'edges'",
    ),
    "an unknown column in a list": (
        suite("expect_compound_columns_to_be_unique", column_list=["name", "edges"]),
        r"kwargs\.column_list.*'edges'",
    ),
    "an unknown column in a condition": (condition('col("edges") == 1'), r"row_condition.*'edges'"),
    "a condition that could run code": (
        condition("@pd.eval('1')", "pandas"),
        r"row_condition|condition_parser",
    ),
    "a quoted condition that could run code": (condition('col("name") == "x`@pd`"'), r"row_condition"),
    "a condition that is an object": (condition({"type": "pass_through"}), r"row_condition"),
    "another form of results": (
        suite(column="nodes", max_value=1, result_format="BASIC"),
        r"schema does not allow 'BASIC'",
    ),
}


@pytest.mark.parametrize("case", REFUSED_AT_ONCE)
def test_a_broken_suite_is_refused_before_anything_starts(case: str) -> None:
    document, words = REFUSED_AT_ONCE[case]
    with pytest.raises(InvalidInputError, match=words) as raised:
        Judge([Suite("s3://bucket/mine.json", document)])
    assert str(raised.value).startswith("s3://bucket/mine.json: ")


def test_a_suite_that_is_no_json_is_refused(tmp_path: Path) -> None:
    (tmp_path / "mine.json").write_text("{")
    for refused in (
        lambda: Judge([tmp_path / "mine.json"]),
        lambda: Judge(read_suites(open_store(str(tmp_path)))),
    ):
        with pytest.raises(InvalidInputError, match=r"mine\.json"):
            refused()


def test_suites_of_a_folder_are_read_in_order(tmp_path: Path) -> None:
    for name in ("b.json", "a.json", "notes.txt", "deeper/c.json"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(json.dumps(suite()))
    suites = read_suites(open_store(str(tmp_path)))
    assert [one.where.rpartition("/")[2] for one in suites] == ["a.json", "b.json"]
    with pytest.raises(InvalidInputError, match=r"holds no expectation suites"):
        read_suites(open_store(str(tmp_path / "empty")))


REFUSED_BY_GREAT_EXPECTATIONS = {
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


@pytest.mark.parametrize("case", REFUSED_BY_GREAT_EXPECTATIONS)
def test_a_broken_expectation_is_refused_before_measuring(case: str) -> None:
    document, words = REFUSED_BY_GREAT_EXPECTATIONS[case]
    with (
        Judge([Suite("mine.json", document)]) as judge,
        pytest.raises(InvalidInputError, match=words) as raised,
    ):
        judge.wait_until_ready()
    assert str(raised.value).startswith("mine.json: expectations[0]")


def test_an_expectation_that_cannot_be_evaluated_is_refused() -> None:
    document = suite("expect_column_values_to_be_increasing", column="name")
    row = {**dict.fromkeys(METRICS["node_types"], 0), "name": "paper"}
    with (
        Judge([Suite("mine.json", document)]) as judge,
        pytest.raises(InvalidInputError, match=r"mine\.json.*evaluated"),
    ):
        judge.judge({"node_types": [row, {**row, "name": "author"}]})


def test_a_child_that_is_killed_is_an_error_that_says_so() -> None:
    with Judge() as judge:
        os.kill(judge.pid, signal.SIGKILL)
        with pytest.raises(JudgeError, match=r"ended by SIGKILL") as raised:
            judge.judge({})
    assert raised.value.transient


def test_a_child_that_cannot_start_shows_the_end_of_its_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "great_expectations.py").write_text("raise ImportError('No module named posthorn')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with (
        Judge() as judge,
        pytest.raises(JudgeError, match=r"(?s)exit code 1.*No module named posthorn.*constraints"),
    ):
        judge.judge({})


def test_a_child_that_is_silent_is_given_up() -> None:
    with Judge(patience=0.05) as judge, pytest.raises(JudgeError, match=r"has not answered for 0 s"):
        judge.wait_until_ready()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_disk_is_told_from_a_defect(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]).returncode:
        pytest.skip("mounting is not permitted here")
    fills = "open('full', 'wb', buffering=0).write(bytes(1 << 20)); raise OSError(28, 'No space left')"
    (tmp_path / "great_expectations.py").write_text(fills)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setattr(tempfile, "tempdir", str(disk))
    try:
        with Judge() as judge, pytest.raises(JudgeError, match=rf"no space left\. .* in {disk}/.*set TMPDIR"):
            judge.judge({})
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_child_and_its_files_are_gone_at_the_end() -> None:
    with Judge() as judge:
        folder = Path(psutil.Process(judge.pid).cwd())
        assert folder.is_dir()
    assert not psutil.pid_exists(judge.pid)
    assert not folder.exists()


def test_the_child_does_not_outlive_a_parent_that_is_killed() -> None:
    code = (
        "import time; from partition_ops.stages.validate.expectations import Judge; judge = Judge();"
        "print(judge.pid, flush=True); time.sleep(60)"
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
    with Judge() as judge:
        environment = psutil.Process(judge.pid).environ()
    assert "secret" not in environment.values()
    assert environment["GX_ANALYTICS_ENABLED"] == "false"
