"""The operators, run one after the other on a local folder, as a DAG of anybody's would."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException
from graph_partitioning.assets import PARTITIONED_GRAPHS, PUBLISHED, published_graph
from graph_partitioning.operators.base import GraphStageOperator
from graph_partitioning.operators.convert import (
    GatherPartitionOperator,
    ListPartitionsOperator,
    PlanConversionOperator,
    ScatterEdgesOperator,
    WritePartitionConfigOperator,
)
from graph_partitioning.operators.fetch import FetchPartitionsOperator
from graph_partitioning.operators.idmap import ExportIdMapsOperator, RestoreRowsOperator
from graph_partitioning.operators.partition import PartitionNodesOperator
from graph_partitioning.operators.prepare import (
    GatherNeighboursOperator,
    PlanPreparationOperator,
    PrepareGraphOperator,
    ScatterHalfEdgesOperator,
)
from graph_partitioning.operators.probe import ProbePartitionsOperator
from graph_partitioning.operators.publish import PublishRunOperator
from graph_partitioning.operators.quality import ReportQualityOperator
from graph_partitioning.operators.schema import WriteSchemaOperator
from graph_partitioning.operators.validate import ValidateGraphOperator
from graph_partitioning.operators.verify import VerifyRunOperator
from graph_partitioning.runs import XCOM_KEY, run_root

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError, TransientStorageError
from partition_ops.formats.format import get_format
from partition_ops.stages.convert import ranges
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification import verify_output
from tests.airflow_tasks import TaskInstance
from tests.format_plugin import NAME, install, on_the_path
from tests.graphs import library

RUN_ID = "manual__2026-01-02T03:04:05+00:00"


def run_all(
    where: dict[str, Any],
    ti: TaskInstance,
    probe: dict[str, Any] | None = None,
    previous: str = "",
    **halo: str,
) -> None:
    ti.run(ValidateGraphOperator(task_id="validate", data_docs=False, **where))
    ti.run(WriteSchemaOperator(task_id="schema", **where))
    ti.run(PrepareGraphOperator(task_id="prepare", **where))
    ti.run(PartitionNodesOperator(task_id="partition", num_parts="3", seed="7", previous=previous, **where))
    groups = ti.run(PlanConversionOperator(task_id="plan", **halo, **where))
    assert len(groups) == 1  # the graph is small
    scatter = ScatterEdgesOperator(task_id="scatter", group=groups[0], **halo, **where)
    ti.run(scatter)
    assert ti.run(ListPartitionsOperator(task_id="partitions", **halo, **where)) == [[0, 1, 2]]
    gather = GatherPartitionOperator(task_id="gather", part=[0, 1, 2], **halo, **where)
    assert (scatter.label, gather.label) == ("group 0", "parts 0-2")
    ti.run(gather)
    assert ti.xcoms[XCOM_KEY]["record"] == "records/convert-part0.json"
    assert ti.xcoms[XCOM_KEY]["others"] == ["records/convert-part1.json", "records/convert-part2.json"]
    alone = GatherPartitionOperator(task_id="alone", part="1", **halo, **where)  # as a template writes it
    assert ti.run(alone)["skipped"]
    assert alone.label == "part 1"
    ti.run(WritePartitionConfigOperator(task_id="config", **halo, **where))
    ti.run(ExportIdMapsOperator(task_id="idmap", vectors="True", part_maps="true", **where))
    if probe:
        ti.run(ProbePartitionsOperator(task_id="probe", **probe, **where))
    ti.run(ReportQualityOperator(task_id="quality", **where))
    ti.run(PublishRunOperator(task_id="publish", **where))


def test_mapped_tasks_of_prepare_do_what_one_task_does(tmp_path: Path) -> None:
    source, written = str(library().write(tmp_path / "in")), []
    for tasks in ("1", "3"):  # as templates write it
        where = {"input_uri": source, "output_uri": str(tmp_path / tasks), "prepare_tasks": tasks}
        ti = TaskInstance()
        shares = ti.run(PlanPreparationOperator(task_id="plan", **where))
        assert shares == ([] if tasks == "1" else [[0, 1, 2]])
        for numbers in shares:
            scatter = ScatterHalfEdgesOperator(task_id="scatter", group=numbers, **where)
            assert scatter.label == "groups 0-2"
            assert ti.run(scatter)["task"] == "prepare-scatter0"
            gather = GatherNeighboursOperator(task_id="gather", range=str(numbers), **where)
            assert gather.label == "ranges 0-2"
            assert ti.run(gather)["counters"]["half_edges"] > 0
            assert (
                tmp_path / tasks / layout.spread_range(layout.PREPARE_SCRATCH, 2, "neighbours.bin")
            ).exists()
        assert not ti.run(PrepareGraphOperator(task_id="prepare", **where))["skipped"]
        assert not (tmp_path / tasks / layout.SCRATCH).exists()
        written.append((tmp_path / tasks / layout.PREPARED_GRAPH).read_bytes())
    assert written[0] == written[1]


def test_the_option_bounds_the_mapped_tasks_of_convert(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "GROUP_BYTES", 1)
    source, ti = str(library().write(tmp_path / "in")), TaskInstance()
    where = {"input_uri": source, "output_uri": str(tmp_path / "out")}
    ti.run(PartitionNodesOperator(task_id="partition", num_parts="4", engine="random", **where))
    ti.run(PlanConversionOperator(task_id="plan", **where))
    assert ti.run(ListPartitionsOperator(task_id="all", **where)) == [[0], [1], [2], [3]]
    where["convert_tasks"] = "2"  # as templates write it
    assert len(ti.run(PlanConversionOperator(task_id="plan", **where))) == 2
    assert ti.run(ListPartitionsOperator(task_id="two", **where)) == [[0, 1], [2, 3]]


def test_a_run_is_whole_and_announced(tmp_path: Path) -> None:
    source, out = str(library().write(tmp_path / "in")), str(tmp_path / "out")
    ti = TaskInstance()
    where = {"input_uri": source, "output_uri": out, "run_id": RUN_ID, "graph_name": ""}
    run_all(where, ti)
    root = run_root(out, "small", RUN_ID)
    assert verify_output(open_store(source), open_store(root)).passed
    assert open_store(f"{out}/small").read_json("latest.json")["run"] == root
    extra = ti.events[PARTITIONED_GRAPHS].extra
    assert (extra["graph_name"], extra["run"], extra["num_parts"]) == ("small", root, 3)
    assert ti.events[PUBLISHED].added == [(published_graph(out, "small"), extra)]
    assert ti.xcoms[XCOM_KEY]["root"] == root
    _use_the_run(where, f"{out}/small", root, tmp_path)


def _use_the_run(where: dict[str, Any], runs: str, root: str, folder: Path) -> None:
    """Verify a published run, download a partition of it, and restore rows by its ID maps."""
    ti, output = TaskInstance(), open_store(root)
    checked = ti.run(VerifyRunOperator(task_id="verify", **where))
    assert checked["output"] == root and "edge-ends" in checked["checks"]
    fetch = FetchPartitionsOperator(
        task_id="fetch", output_uri=runs, parts="0, 2", folder=str(folder / "data"), formats=""
    )
    fetched = ti.run(fetch)
    assert fetched["parts"] == [0, 2]
    book = import_dgl().distributed.load_partition_book(fetched["partition_config"], 2)[0]
    assert book.num_partitions() == 3
    node_map = np.load(output.local_copy("idmap/nodes/paper.npy"))  # as the option vectors asks for
    assert len(np.load(output.local_copy("partitions/node_map.npy"))) == sum(library().nodes.values())
    np.save(folder / "rows.npy", node_map)
    restore = RestoreRowsOperator(
        task_id="restore",
        output_uri=runs,
        node_type="paper",
        edge_type="",
        input_files=str(folder / "rows.npy"),
        output_file=str(folder / "restored.npy"),
    )
    assert ti.run(restore)["rows"] == len(node_map)
    assert np.load(folder / "restored.npy").tolist() == [*range(len(node_map))]
    for operator, problem in (
        (FetchPartitionsOperator(task_id="f", output_uri=runs, parts="x", folder="data"), "parts"),
        (FetchPartitionsOperator(task_id="f", output_uri=runs, parts=3, folder="data"), "no such partition"),
        (RestoreRowsOperator(task_id="r", output_uri=runs, input_files="a", output_file="b"), "one type"),
    ):
        with pytest.raises(AirflowFailException, match=problem):
            ti.run(operator)
    damaged = output.local_copy("partitions/part1/node_feat.dgl")
    damaged.write_bytes(damaged.read_bytes()[:-1] + b"!")
    with pytest.raises(AirflowFailException, match=r"breaks \d+ of .* invariants"):
        ti.run(VerifyRunOperator(task_id="verify", **where))


def test_without_a_run_id_it_is_the_tree_of_the_command_line(tmp_path: Path) -> None:
    source, out = str(library().write(tmp_path / "in")), str(tmp_path / "out")
    ti = TaskInstance()
    run_all({"input_uri": source, "output_uri": out}, ti)
    assert verify_output(open_store(source), open_store(out)).passed
    assert not (tmp_path / "out" / "latest.json").exists()
    assert ti.events[PUBLISHED].added == []
    assert ti.events[PARTITIONED_GRAPHS].extra["graph_name"] == "small"


def test_a_halo_of_several_hops_formats_and_reverse_edges(tmp_path: Path) -> None:
    source, out = str(library().write(tmp_path / "in")), str(tmp_path / "out")
    where = {"input_uri": source, "output_uri": out, "reverse_edges": "True"}
    run_all(where, TaskInstance(), num_hops="2", graph_formats="csc, coo")
    assert "reverse_edges" not in open_store(source).read_json("metadata.json")
    reverses = open_store(out).read_json("convert/book.json")["reverse_edges"]
    assert len(reverses) == 2 * len(library().edges)
    TaskInstance().run(VerifyRunOperator(task_id="verify", **where))
    assert open_store(out).read_json("partitions/small.json")["halo_hops"] == 2
    options = open_store(out).read_json("records/convert-config.json")["options"]
    assert options["graph_formats"] == ["coo", "csc"]


def test_output_formats_of_other_packages(tmp_path: Path) -> None:
    (tmp_path / "package").mkdir()
    source, out = str(library().write(tmp_path / "in")), str(tmp_path / "out")
    with on_the_path(install(tmp_path / "package")):
        run_all({"input_uri": source, "output_uri": out}, TaskInstance(), formats=f"dgl, {NAME}")
        assert verify_output(open_store(source), open_store(out)).passed
        output = open_store(out)
        for part in range(3):
            expected = get_format("dgl").arrays(output, part)
            assert get_format(NAME).arrays(output, part).keys() == expected.keys()


def test_the_probe_reaches_the_report_and_leaves_nothing_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "worker"))
    (tmp_path / "worker").mkdir()
    source, out = str(library().write(tmp_path / "in")), str(tmp_path / "out")
    where = {"input_uri": source, "output_uri": out}
    run_all(where, TaskInstance(), {"fanouts": "3,2", "batch_size": "4", "batches": "2", "enabled": "True"})
    report = open_store(out).read_json("quality/report.json")
    assert report["probe"]["options"]["fanouts"] == [3, 2]
    assert [one["batches"] for one in report["probe"]["partitions"]] == [2, 2, 2]
    assert verify_output(open_store(source), open_store(out)).passed
    assert not list((tmp_path / "worker").glob("partition-ops-*"))


def test_a_probe_that_nobody_asked_for_is_skipped(tmp_path: Path) -> None:
    where = {"input_uri": str(tmp_path), "output_uri": str(tmp_path / "out")}
    with pytest.raises(AirflowSkipException, match="param 'probe' is false"):
        TaskInstance().run(ProbePartitionsOperator(task_id="probe", enabled="False", **where))
    assert not (tmp_path / "out").exists()


def test_graph_name_moves_the_run(tmp_path: Path) -> None:
    source = str(library().write(tmp_path / "in"))
    result = TaskInstance().run(
        ValidateGraphOperator(
            task_id="validate",
            input_uri=source,
            output_uri=str(tmp_path / "out"),
            graph_name="other",
            run_id=RUN_ID,
            data_docs=False,
        )
    )
    assert result["output"] == run_root(str(tmp_path / "out"), "other", RUN_ID)
    assert (Path(result["output"]) / result["record"]).exists()


@pytest.mark.parametrize("name", ["../../up", "a/b", "1", "a b"])
def test_graph_name_cannot_leave_the_output(tmp_path: Path, name: str) -> None:
    source = str(library().write(tmp_path / "in"))
    operator = ValidateGraphOperator(
        task_id="validate",
        input_uri=source,
        output_uri=str(tmp_path / "out"),
        graph_name=name,
        run_id=RUN_ID,
    )
    with pytest.raises(AirflowFailException, match="graph name"):
        TaskInstance().run(operator)
    assert not (tmp_path / "out").exists()


def test_what_a_retry_cannot_help_fails_with_the_message(tmp_path: Path) -> None:
    where = {"input_uri": str(tmp_path), "output_uri": str(tmp_path / "out"), "run_id": RUN_ID}
    with pytest.raises(AirflowFailException, match=r"metadata\.json") as caught:
        TaskInstance().run(ValidateGraphOperator(task_id="validate", **where))
    assert caught.value.__suppress_context__


BALANCE = {
    "balance_ntypes": "train_mask",
    "tolerance": "1.25",
    "objective": "vol",
    "num_trainers_per_machine": "2",
}


@pytest.mark.parametrize("target_shares", ["2,1", (2.0, 1.0)])
def test_the_balance_options_reach_the_engine(tmp_path: Path, target_shares: Any) -> None:
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    ti = TaskInstance()
    ti.run(ValidateGraphOperator(task_id="validate", data_docs=False, **where))
    ti.run(PrepareGraphOperator(task_id="prepare", **where))
    ti.run(
        PartitionNodesOperator(
            task_id="partition", num_parts="2", target_shares=target_shares, **BALANCE, **where
        )
    )
    made_by = open_store(where["output_uri"]).read_json("assignment/assignment.json")["made_by"]
    asked = {**BALANCE, "tolerance": 1.25, "num_trainers_per_machine": 2, "target_shares": [2.0, 1.0]}
    assert {name: made_by[name] for name in asked} == asked
    assert Path(where["output_uri"], "assignment/trainers/paper.npy").exists()


def test_left_alone_the_balance_is_that_of_the_command_line(tmp_path: Path) -> None:
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    empty = {"balance_ntypes": "", "tolerance": "", "target_shares": ""}
    TaskInstance().run(
        PartitionNodesOperator(task_id="partition", num_parts=2, engine="random", **empty, **where)
    )
    made_by = open_store(where["output_uri"]).read_json("assignment/assignment.json")["made_by"]
    expected = PartitionConfig(num_parts=2, engine="random").options()
    assert {**expected, "mpi": None} == {**made_by, "mpi": None}


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("num_parts", "many"),
        ("num_parts", 0),
        ("seed", "x"),
        ("tolerance", "tight"),
        ("tolerance", "0.5"),
        ("target_shares", "2,one"),
        ("target_shares", "1,1,1"),
        ("objective", "volume"),
        ("num_trainers_per_machine", "none"),
    ],
)
def test_wrong_options_fail_with_the_message(tmp_path: Path, option: str, value: object) -> None:
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    operator = PartitionNodesOperator(task_id="partition", **{"num_parts": 2, option: value}, **where)
    with pytest.raises(AirflowFailException, match=option.replace("_", ".")):
        TaskInstance().run(operator)


def test_what_a_retry_can_help_is_left_to_airflow(tmp_path: Path) -> None:
    class Unlucky(GraphStageOperator):
        def run_stage(self, source: Any, destination: Any, progress: Any) -> Any:
            raise TransientStorageError("The server is busy")

    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    with pytest.raises(TransientStorageError):
        TaskInstance().run(Unlucky(task_id="unlucky", **where))


def test_a_failed_task_still_says_where_it_was_writing(tmp_path: Path) -> None:
    class Broken(GraphStageOperator):
        def run_stage(self, source: Any, destination: Any, progress: Any) -> Any:
            raise InvalidInputError("No good")

    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    ti = TaskInstance()
    with pytest.raises(AirflowFailException, match="No good"):
        ti.run(Broken(task_id="broken", run_id=RUN_ID, **where))
    root = run_root(where["output_uri"], "small", RUN_ID)
    assert ti.xcoms[XCOM_KEY] == {"root": root, "record": None, "storage_conn_id": "aws_default"}
