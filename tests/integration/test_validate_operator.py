"""The operator of ``validate``: expectations, Data Docs and the button that leads there."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException
from airflow.sdk.execution_time.context import set_current_context
from graph_partitioning.operators.validate import (
    GatherValidationOperator,
    PlanValidationOperator,
    ScatterValidationOperator,
    ValidateGraphOperator,
)
from graph_partitioning.page.lookup import FINDINGS
from graph_partitioning.runs import ESTIMATE_KEY

from partition_ops.artifacts import layout
from tests.airflow_tasks import TaskInstance
from tests.graphs import Edges, SmallGraph, library


def operator(tmp_path: Path, **options: Any) -> ValidateGraphOperator:
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    return ValidateGraphOperator(task_id="validate", **where, **options)


def docs(tmp_path: Path) -> list[str]:
    out = tmp_path / "out"
    return [path.relative_to(out).as_posix() for path in (out / "validation/data_docs").rglob("*.html")]


def test_an_expectation_of_ones_own_fails_the_task_and_leaves_data_docs(tmp_path: Path) -> None:
    suite = tmp_path / "suites" / "mine.json"
    suite.parent.mkdir()
    kwargs = {"column": "nodes", "max_value": 1}
    expectation = {"type": "expect_column_values_to_be_between", "kwargs": kwargs}
    suite.write_text(json.dumps({"name": "node_types", "expectations": [expectation]}))
    with pytest.raises(
        AirflowFailException, match=r"has nodes \d+; expected: nodes values must be less than"
    ):
        TaskInstance().run(operator(tmp_path, expectations_uri=str(suite.parent)))
    assert "validation/data_docs/index.html" in docs(tmp_path)
    assert all(FINDINGS.fullmatch(key) for key in docs(tmp_path))


def test_every_finding_is_a_line_of_the_log(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    graph = SmallGraph({"a": 3}, {"a:to:a": Edges([0, 1, 7], [1, 1, 2]), "a:of:a": Edges([0], [9])})
    where = {"input_uri": str(graph.write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    with pytest.raises(AirflowFailException) as caught:
        TaskInstance().run(ValidateGraphOperator(task_id="validate", **where))
    logged = [
        line.partition(" [airflow")[0] for line in capsys.readouterr().out.splitlines() if "error" in line
    ]
    for finding in ("source 7 of 'a'", "destination 9 of 'a'", "1 self_loop_edges of 'a:to:a'"):
        assert sum(finding in line for line in logged) == 1
    assert "\n" not in str(caught.value)
    assert "(and 2 more). Correct the input" in str(caught.value)


def test_data_docs_can_be_left_out(tmp_path: Path) -> None:
    TaskInstance().run(operator(tmp_path, expectations_uri="", data_docs=False))
    assert docs(tmp_path) == []


PLANNED = {"num_parts": "4", "engine": "metis", "num_hops": "1", "graph_formats": "coo, csc"}


def too_large(tmp_path: Path) -> Path:
    """A graph that says it has 10^12 edges."""
    folder = library().write(tmp_path / "large")
    document = json.loads((folder / "metadata.json").read_text())
    document["num_edges_per_chunk"][0] = [10**12]
    (folder / "metadata.json").write_text(json.dumps(document))
    return folder


def test_a_job_that_does_not_fit_is_refused_before_anything_is_read(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = operator(tmp_path, planned=PLANNED)
    one.input_uri = str(too_large(tmp_path))
    with pytest.raises(AirflowFailException, match="There is too little room to make 4 partitions"):
        TaskInstance().run(one)
    logged = capsys.readouterr().out
    assert "GiB of memory, for partition" in logged
    assert "'Ignore the estimate'" in logged  # the remedy
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("options", [{}, {"planned": PLANNED, "ignore_estimate": "True"}])
def test_the_estimate_can_be_ignored(tmp_path: Path, options: dict[str, Any]) -> None:
    one = operator(tmp_path, data_docs=False, **options)
    one.input_uri = str(too_large(tmp_path))
    with pytest.raises(AirflowFailException, match=r"checks? .*failed"):
        TaskInstance().run(one)
    assert (tmp_path / "out" / "validation" / "report.json").exists()


@pytest.mark.parametrize("ignore", [False, True])
@pytest.mark.parametrize(
    ("option", "words"),
    [
        ({"balance_ntypes": "nope"}, r"No node type has a feature 'nope'"),
        ({"balance_ntypes": "feat"}, r"'paper/feat' cannot be balanced by.*float32 rows of 8 values"),
        ({"num_parts": "66"}, "more partitions than nodes.*66 partitions, 65 nodes"),
    ],
    ids=["missing", "unfit", "parts"],
)
def test_options_that_do_not_fit_the_graph_are_refused_first(
    tmp_path: Path, ignore: bool, option: dict[str, str], words: str
) -> None:
    with pytest.raises(AirflowFailException, match=words):
        TaskInstance().run(operator(tmp_path, planned={**PLANNED, **option}, ignore_estimate=ignore))
    assert not (tmp_path / "out").exists()


def test_an_output_where_a_file_is_is_refused_first(tmp_path: Path) -> None:
    (tmp_path / "out").write_text("")
    with pytest.raises(AirflowFailException, match=rf"cannot be a folder: a file, {tmp_path}/out"):
        TaskInstance().run(operator(tmp_path))


def test_a_tmpdir_that_is_none_is_refused_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "nowhere"))
    with pytest.raises(AirflowFailException, match=rf"TMPDIR cannot be used: {tmp_path}/nowhere"):
        TaskInstance().run(operator(tmp_path))


def test_a_job_that_fits_is_validated_and_its_estimate_kept_for_the_page(tmp_path: Path) -> None:
    ti = TaskInstance()
    with set_current_context({"ti": ti}):  # type: ignore[typeddict-item]
        ti.run(operator(tmp_path, planned=PLANNED, data_docs=False))
    assert (tmp_path / "out" / "validation" / "report.json").exists()
    estimated = ti.xcoms[ESTIMATE_KEY]
    assert {"validate", "partition", "convert", "quality"} <= estimated.keys()
    assert all(0 < seconds < 600 for seconds in estimated.values())


def test_the_button_leads_to_the_first_page(tmp_path: Path) -> None:
    one = operator(tmp_path)
    links = {link.name: link for link in one.operator_extra_links}
    key = SimpleNamespace(dag_id="d", run_id="r 1", task_id="validate", map_index=-1)
    where = links["Artifacts"].get_link(one, ti_key=key)  # type: ignore[arg-type]
    assert where.endswith("/dags/d/runs/r%201/tasks/validate/-1")
    assert links["Data Docs"].get_link(one, ti_key=key) == f"{where}/files/validation/data_docs/index.html"  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "key",
    [
        "validation/data_docs/../report.json",
        "validation/data_docs/a/b/c.html",
        "validation/dropped/x.npy",
        "",
    ],
)
def test_no_other_keys_are_findings(key: str) -> None:
    assert not FINDINGS.fullmatch(key)


@pytest.mark.parametrize("on_defect", ["fail", "warn"])
def test_mapped_tasks_do_what_one_task_does(
    on_defect: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ends = Edges([0, 1, 0, 2], [1, 1, 1, 0])
    graph = SmallGraph({"a": 3}, {"a:to:a": ends}).write(tmp_path / "in")
    reports, messages = [], []
    for tasks in ("1", "3"):  # as templates write it
        where = {"input_uri": str(graph), "output_uri": str(tmp_path / tasks), "validation_tasks": tasks}
        where["on_defect"] = on_defect
        ti = TaskInstance()
        shares = ti.run(PlanValidationOperator(task_id="plan", **where))
        assert shares == ([] if tasks == "1" else [[0, 1, 2]])
        for numbers in shares:
            task = ScatterValidationOperator(task_id="scatter", group=numbers[:2], **where)
            assert task.label == "groups 0-1"
            assert ti.run(task)["task"] == "validate-scatter0"
            task = ScatterValidationOperator(task_id="scatter", group=2, **where)
            assert task.label == "group 2"
            assert ti.run(task)["task"] == "validate-scatter2"
            search = GatherValidationOperator(task_id="gather", range=str(numbers), **where)
            assert search.label == "ranges 0-2"
            assert ti.run(search)["task"] == "validate-gather0"
        capsys.readouterr()
        validate = ValidateGraphOperator(task_id="validate", data_docs=False, **where)
        if on_defect == "fail":
            with pytest.raises(AirflowFailException) as caught:
                ti.run(validate)
            messages.append(str(caught.value).replace(f"/{tasks}/", "/"))
        else:
            messages.append(ti.run(validate)["counters"])
        reports.append((tmp_path / tasks / layout.VALIDATION_REPORT).read_bytes())
        assert not (tmp_path / tasks / layout.SCRATCH).exists()
    assert reports[0] == reports[1]
    assert messages[0] == messages[1]


def test_a_job_that_does_not_fit_is_rejected_before_the_graph_is_read(tmp_path: Path) -> None:
    where = {"input_uri": str(too_large(tmp_path)), "output_uri": str(tmp_path / "out")}
    plan = PlanValidationOperator(task_id="plan", planned=PLANNED, validation_tasks=2, **where)
    with pytest.raises(AirflowFailException, match="too little room"):
        TaskInstance().run(plan)
