"""The arguments of operators, which come from declared options, are arguments for Airflow too."""

from __future__ import annotations

import logging
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from graph_partitioning.operators import task_messages
from graph_partitioning.operators.convert import GatherPartitionOperator, ScatterEdgesOperator
from graph_partitioning.operators.gate import QualityGateOperator
from graph_partitioning.operators.partition import PartitionNodesOperator
from graph_partitioning.operators.task_messages import explain_failures
from graph_partitioning.operators.validate import ValidateGraphOperator
from graph_partitioning.options import COMMON, in_form_words, planned_templates

from partition_ops.errors import InvalidInputError, PartitionOpsError, TransientStorageError, UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.options.declare import options_of
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.publish.options import Gate
from partition_ops.stages.validate.options import ValidateConfig

WHERE: dict[str, Any] = {"input_uri": "in", "output_uri": "out"}


def test_a_required_option_is_a_required_argument() -> None:
    with pytest.raises(TypeError, match="missing keyword argument 'num_parts'"):
        PartitionNodesOperator(task_id="t", **WHERE)


def test_unknown_arguments_are_rejected() -> None:
    with pytest.raises(TypeError, match="num_part"):
        PartitionNodesOperator(task_id="t", num_parts=2, num_part=3, **WHERE)
    with pytest.raises(TypeError, match="engine"):
        ScatterEdgesOperator.partial(task_id="t", engine="metis", **WHERE)


def test_default_args_reach_the_options() -> None:
    with DAG("d", default_args={**WHERE, "engine": "metis", "num_parts": "3", "num_hops": 2}):
        partition = PartitionNodesOperator(task_id="p", seed="7")
        gather = GatherPartitionOperator(task_id="g", part=0)
    config = partition.config(PartitionConfig)
    assert (config.engine, config.num_parts, config.seed, config.balance) == ("metis", 3, 7, "node-types")
    assert gather.config(ConvertConfig).num_hops == 2


def test_options_can_be_mapped_over() -> None:
    with DAG("d"):
        mapped = PartitionNodesOperator.partial(task_id="p", num_parts=2, **WHERE).expand(seed=[1, 2])
    assert mapped.partial_kwargs["num_parts"] == 2
    assert "seed" in mapped.template_fields


def test_every_argument_is_a_template_field() -> None:
    for operator in (
        PartitionNodesOperator,
        ValidateGraphOperator,
        QualityGateOperator,
        ScatterEdgesOperator,
    ):
        fields = operator.template_fields
        assert len(fields) == len(set(fields))
        assert {*operator.declared} <= {*fields}
    assert {"group", "num_hops", "graph_formats", "formats"} <= {*ScatterEdgesOperator.template_fields}


def test_empty_text_means_the_default() -> None:
    empty = dict.fromkeys(("seed", "tolerance", "target_shares", "previous", "hostfile", "graph_name"), "")
    partition = PartitionNodesOperator(task_id="p", num_parts="2", **empty, **WHERE)
    assert partition.config(PartitionConfig) == PartitionConfig(num_parts=2)
    gate = QualityGateOperator(task_id="g", max_edge_cut="0", max_moved="", **WHERE)
    assert gate.config(Gate) == Gate(max_edge_cut=0.0)


def test_the_operator_of_validate_writes_data_docs_by_default() -> None:
    assert ValidateGraphOperator(task_id="v", **WHERE).config(ValidateConfig).data_docs
    assert not ValidateGraphOperator(task_id="v", data_docs=False, **WHERE).config(ValidateConfig).data_docs


def test_messages_name_params_instead_of_options() -> None:
    text = "continue with --on-defect self_loop_edges=drop|warn, --seed; --output X"
    assert in_form_words(text) == (
        "continue with 'On self-loop edges' (on_self_loop_edges)=drop|warn, 'Seed' (seed); --output X"
    )


def test_a_failed_task_names_the_param(caplog: pytest.LogCaptureFixture) -> None:
    said: list[str] = []

    class Log:
        def error(self, form: str, text: str) -> None:
            said.append(text)

    with pytest.raises(AirflowFailException, match=r"'Seed' \(seed\)"), explain_failures(Log()):  # type: ignore[arg-type]
        raise UsageError("--seed is odd", remedy="Choose --on-defect self_loop_edges=warn.")
    assert "'On self-loop edges' (on_self_loop_edges)=warn" in said[-1]


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (InvalidInputError("There is no such object", remedy="Check\n--seed."), AirflowFailException),
        (TransientStorageError("There is no such object", remedy="Check\n--seed."), TransientStorageError),
    ],
)
def test_pages_and_alerts_say_what_to_do(
    monkeypatch: pytest.MonkeyPatch, error: PartitionOpsError, raised: type[Exception]
) -> None:
    kept: dict[str, str] = {}
    monkeypatch.setattr(task_messages, "push", kept.__setitem__)
    with pytest.raises(raised), explain_failures(logging.getLogger()):  # type: ignore[arg-type]
        raise error
    assert kept == {"graph_failure": "There is no such object. Check 'Seed' (seed)."}


def test_the_dag_plans_with_the_options_of_the_job() -> None:
    """So that a job whose stages are split is not refused because one task would need too much memory."""
    planned = planned_templates()
    assert {"num_parts", "prepare_tasks", "validation_tasks", "convert_tasks", "fanouts"} <= planned.keys()
    assert "mpi_ranks" not in planned  # the worker that validates need not have MPI
    in_form = {one.form_name for one in options_of(RunConfig) if one.form is not None}
    mpi = {one.form_name for one in options_of(MpiOptions)}
    assert planned.keys() == in_form - mpi - {*COMMON}
