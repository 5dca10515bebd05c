"""The DAG file: the order of its tasks, its form, and what reaches the tasks."""

from __future__ import annotations

import copy
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import ParamValidationError

from partition_ops.options.declare import options_of
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.partition.options import PartitionConfig

DAG_FILE = Path(__file__).parents[3] / "dags" / "partition_graph.py"


@pytest.fixture(scope="module")
def read_once() -> DAG:
    with pytest.MonkeyPatch.context() as patch:
        dag: DAG = read_dag(patch)
        return dag


@pytest.fixture
def dag(read_once: DAG, monkeypatch: pytest.MonkeyPatch) -> DAG:
    """The DAG with a form of the test's own."""
    monkeypatch.setattr(read_once, "params", copy.deepcopy(read_once.params))
    return read_once


def read_dag(monkeypatch: pytest.MonkeyPatch, **environment: str) -> Any:
    for name in ("INPUT", "OUTPUT"):
        monkeypatch.delenv(f"GRAPH_PARTITIONING_{name}_URI", raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    dag = runpy.run_path(str(DAG_FILE))["dag"]
    for check in (dag.validate, dag.check_cycle):  # as Airflow does
        check()
    return dag


def test_nothing_is_written_before_validation_and_the_lock(dag: DAG) -> None:
    assert dag.roots == [dag.get_task("ingest")]
    assert dag.get_task("validate").trigger_rule == "none_failed"  # a graph needs no ingest
    reading = {f"validation.{name}" for name in ("plan", "scatter", "gather")}
    before_lock = {"ingest", *reading, "validate", "lock"}
    after_lock = dag.get_task("lock").get_flat_relative_ids(upstream=False)
    assert after_lock == {*dag.task_ids} - before_lock


def test_the_picture_of_the_docs_has_all_tasks(dag: DAG) -> None:
    picture = (DAG_FILE.parents[1] / "docs" / "images" / "dag.svg").read_text()
    drawn = re.findall(r"<text[^>]*>([a-z]+)</text>", picture)
    left_out = {"convert.partitions", "convert.remove_scratch"}  # the list of mapped tasks, and a teardown
    names = {part for task_id in {*dag.task_ids} - left_out for part in task_id.split(".")}
    assert {*drawn} == names


@pytest.mark.parametrize(
    ("task", "earlier"),
    [
        ("preparation.plan", {"lock", "revalidate", "schema"}),
        ("preparation.gather", {"preparation.scatter", "preparation.plan"}),
        ("prepare", {"preparation.gather"}),
        ("partition", {"validate", "prepare"}),
        ("convert.scatter", {"partition", "convert.plan"}),
        ("convert.gather", {"convert.scatter", "convert.partitions"}),
        ("convert.config", {"convert.gather"}),
        ("idmap", {"convert.config"}),
        ("probe", {"convert.config"}),
        ("gate", {"convert.config", "probe", "quality"}),
        ("publish", {"schema", "idmap", "gate"}),
        ("retain", {"publish"}),
        ("release", {"publish", "retain"}),
        ("convert.remove_scratch", {"convert.config"}),
    ],
)
def test_tasks_run_after_what_they_read_and_what_may_stop_them(
    dag: DAG, task: str, earlier: set[str]
) -> None:
    assert earlier <= dag.get_task(task).get_flat_relative_ids(upstream=True)


@pytest.mark.parametrize(
    ("task", "again"),
    [
        ("convert.gather", {"convert.plan", "convert.scatter", "convert.remove_scratch", "lock", "release"}),
        ("convert.config", {"convert.plan", "convert.scatter", "convert.remove_scratch", "lock", "release"}),
        ("quality", {"lock", "release"}),
        ("publish", {"lock", "release"}),
    ],
)
def test_a_task_that_is_cleared_finds_the_lock_and_the_scratch_that_it_needs(
    dag: DAG, task: str, again: set[str]
) -> None:
    cleared = set(dag.partial_subset([task], include_downstream=True, include_upstream=False).task_ids)
    around = {found.task_id for found in dag.tasks if found.is_setup or found.is_teardown}
    assert cleared & around == again
    assert {found.task_id for found in dag.tasks if found.is_teardown} == {
        "convert.remove_scratch",
        "release",
    }


def test_a_probe_that_nobody_asked_for_holds_nothing_up(dag: DAG) -> None:
    assert dag.params["probe"] is False
    later = [task for task in dag.tasks if "probe" in task.upstream_task_ids]
    assert {task.task_id for task in later} == {"cache", "idmap", "quality"}
    assert {task.trigger_rule for task in later} == {"none_failed"}


def test_every_task_is_told_where_and_tried_again_with_back_off(dag: DAG) -> None:
    for task in dag.tasks:
        where = task.partial_kwargs if task.is_mapped else vars(task)
        assert where["input_uri"] == "{{ params.input_uri }}"
        assert where["run_id"] == "{{ run_id }}"
        assert where["retries"] > 0
        assert where["retry_exponential_backoff"] > 1


def test_form_asks_for_input_and_output_only(dag: DAG) -> None:
    with pytest.raises(ParamValidationError):
        dag.params.validate()
    dag.params.update({"input_uri": "s3://graphs/g", "output_uri": "s3://out"})
    filled = dag.params.validate()
    assert (filled["num_parts"], filled["engine"], filled["graph_name"]) == (4, "auto", None)


def test_environment_fills_the_form(monkeypatch: pytest.MonkeyPatch) -> None:
    dag = read_dag(
        monkeypatch, GRAPH_PARTITIONING_INPUT_URI="s3://a/b", GRAPH_PARTITIONING_OUTPUT_URI="/tmp/out"
    )
    assert dag.params.validate()["input_uri"] == "s3://a/b"
    assert dag.params.validate()["output_uri"] == "/tmp/out"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("num_parts", 0),
        ("num_parts", "four"),
        ("engine", "magic"),
        ("balance", "weights"),
        ("on_duplicate_edges", "ignore"),
        ("on_nonfinite_values", "drop"),
        ("graph_name", "../up"),
        ("num_hops", -1),
        ("graph_formats", "coo,dense"),
        ("seed", -1),
        ("input_uri", ""),
        ("input_uri", "graphs/g"),
        ("input_uri", "s3:/graphs/g"),
        ("output_uri", "gs://bucket/x"),
        ("previous", "newest"),
        ("expectations_uri", "suites"),
        ("tolerance", 1),
        ("target_shares", "2;1"),
        ("target_shares", "two,one"),
        ("objective", "volume"),
        ("num_trainers_per_machine", 0),
        ("drift", 0.5),
        ("max_edge_cut", 2),
        ("max_imbalance", 0.9),
        ("keep", 0),
        ("grace_days", -1),
    ],
)
def test_form_refuses(dag: DAG, name: str, value: object) -> None:
    dag.params.update({"input_uri": "s3://graphs/g", "output_uri": "s3://out"})
    with pytest.raises(ParamValidationError):
        dag.params.update({name: value})
        dag.params.validate()


def test_form_accepts_every_kind_of_root(dag: DAG) -> None:
    for previous in ("latest", "", None, "s3://out/g", "/out/g"):
        dag.params.update({"input_uri": "/graphs/g", "output_uri": "s3://out", "previous": previous})
        assert dag.params.validate()["previous"] == previous


def test_every_option_of_the_form_reaches_a_task(dag: DAG) -> None:
    """Every param is in a template of a task, or is the graph's name or location."""
    texts = " ".join(str({**vars(task), **getattr(task, "partial_kwargs", {})}) for task in dag.tasks)
    assert [name for name in dag.params if f"params.{name}" not in texts] == []


def test_values_of_the_form_reach_the_task(dag: DAG) -> None:
    values: dict[str, Any] = {
        "input_uri": "/in",
        "output_uri": "file:///out",
        "num_parts": 2,
        "engine": "parmetis",
        "tolerance": 1.25,
        "target_shares": "2, 1.5",
        "balance_ntypes": "train_mask, val_mask",
        "compare_full": True,
        "mpi_ranks": 5,
    }
    dag.params.update(values)
    task = dag.get_task("partition")
    task.render_template_fields({"params": dag.params.validate(), "run_id": "run"})  # type: ignore[typeddict-item]
    assert {name: getattr(task, name) for name in values} == {
        name: str(value) for name, value in values.items()
    }
    config = task.config(PartitionConfig)  # type: ignore[attr-defined]
    assert (config.num_parts, config.tolerance, config.target_shares) == (2, 1.25, (2.0, 1.5))
    assert (config.compare_full, config.mpi.ranks) == (True, 5)
    assert config.balance_features == ("train_mask", "val_mask")


def test_every_task_reads_the_graph_with_its_reverse_edges_if_the_form_says_so(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    dag = read_dag(monkeypatch)
    assert dag.params["reverse_edges"] is False
    dag.params.update({"input_uri": "/in", "output_uri": "/out", "reverse_edges": True})
    for task in dag.tasks:
        where = task.partial_kwargs if task.is_mapped else vars(task)
        assert where["reverse_edges"] == "{{ params.reverse_edges }}"
    task = dag.get_task("ingest")
    task.render_template_fields({"params": dag.params.validate(), "run_id": "run"})  # type: ignore[typeddict-item]
    assert task.config(IngestConfig).reverse_edges  # type: ignore[attr-defined]


PLANNED = {
    **{"num_parts": 5, "engine": "metis", "num_hops": 2, "graph_formats": "csc", "probe": True},
    **{"balance_ntypes": "train_mask, val_mask", "tolerance": 1.5, "target_shares": "1,2,1,1,1"},
}


def test_what_can_be_refused_at_once_reaches_validate(dag: DAG) -> None:
    from partition_ops.jobs.options import RunConfig

    values: dict[str, Any] = {
        "input_uri": "/in",
        "output_uri": "/out",
        **PLANNED,
        "ignore_estimate": True,
        "previous": "s3://out/g",
    }
    dag.params.update(values)
    task = dag.get_task("validate")
    task.render_template_fields({"params": dag.params.validate(), "run_id": "run"})  # type: ignore[typeddict-item]
    planned = task.planned  # type: ignore[attr-defined]
    assert {name: planned[name] for name in PLANNED} == {name: str(value) for name, value in PLANNED.items()}
    assert planned.keys() <= {one.form_name for one in options_of(RunConfig)}
    assert task.ignore_estimate == "True"  # type: ignore[attr-defined]
    assert task.previous == "s3://out/g"  # type: ignore[attr-defined]


def test_examples_of_the_documentation_are_dags() -> None:
    text = (DAG_FILE.parents[1] / "docs" / "airflow.md").read_text()
    examples = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    tasks = {}
    for example in examples:
        with_name = example.replace("catchup=False):", "catchup=False) as dag:")
        names: dict[str, Any] = {}
        exec(compile(with_name, "docs/airflow.md", "exec"), names)
        tasks[names["dag"].dag_id] = names["dag"].task_ids
    assert tasks == {
        "train_on_citations": ["train"],
        "serve_citations": ["fetch0", "fetch1", "restore", "verify"],
        "partition_citations_weekly": [
            *("validate", "prepare", "partition", "plan", "partitions", "scatter", "gather", "config"),
        ],
    }
