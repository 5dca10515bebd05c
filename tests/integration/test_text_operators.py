"""The operators of the text route, in the order of the example DAG, on a local folder and on S3."""

from __future__ import annotations

import os
import runpy
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from airflow.sdk import DAG
from airflow.sdk.exceptions import AirflowFailException
from graph_partitioning.assets import PARTITIONED_GRAPHS
from graph_partitioning.operators.parmetis_text import (
    ConvertPartitionOperator,
    PartitionTextOperator,
    WriteTextOperator,
)
from graph_partitioning.operators.publish import PublishRunOperator
from graph_partitioning.operators.verify import VerifyRunOperator
from graph_partitioning.runs import run_root

from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification import verify_output
from tests.airflow_tasks import TaskInstance, connect
from tests.graphs import library
from tests.mpi import needs_parmetis
from tests.uploads import upload_folder

DAG_FILE = Path(__file__).parents[2] / "examples" / "dags" / "partition_text.py"
RUN_ID = "manual__2026-01-02T03:04:05+00:00"


def read_dag() -> DAG:
    dag: DAG = runpy.run_path(str(DAG_FILE))["dag"]
    return dag


def run_dag(where: dict[str, Any], ti: TaskInstance) -> list[Any]:
    """Run the tasks of the example DAG in their order, with rendered templates, and return their results."""
    dag = read_dag()
    given = {name: value for name, value in where.items() if name != "run_id"}
    params = {name: param.value for name, param in dag.params.items()} | given | {"attributes": ["feat"]}
    results = []
    for task in dag.topological_sort():
        context = {"params": params, "run_id": where["run_id"]}
        task.render_template_fields(context, dag.get_template_env())  # type: ignore[arg-type, union-attr]
        results.append(ti.run(task))  # type: ignore[arg-type]
    return results


def run_all(where: dict[str, Any], ti: TaskInstance, ranks: str = "2") -> list[Any]:
    """Run the operators with what the templates of the DAG render to, and return their results."""
    operators = [
        WriteTextOperator(task_id="text", attributes=["feat"], **where),
        PartitionTextOperator(task_id="pm_dglpart", num_parts=4, mpi_ranks=ranks, **where),
        ConvertPartitionOperator(task_id="convert", num_parts=4, node_attr_dtype="float32", **where),
        PublishRunOperator(task_id="publish", **where),
    ]
    return [ti.run(operator) for operator in operators]


@needs_parmetis
def test_a_graph_goes_the_text_route(tmp_path: Path) -> None:
    graph = library(papers=200)
    source, out = str(graph.write(tmp_path / "in")), str(tmp_path / "out")
    where = {"input_uri": source, "output_uri": out, "run_id": RUN_ID, "storage_conn_id": ""}
    ti = TaskInstance()
    results = run_dag(where, ti)
    root = run_root(out, "small", RUN_ID)
    assert [result["skipped"] for result in results] == [False, False, False, True]  # it is published already
    assert ti.events[PARTITIONED_GRAPHS].extra["partition_config"] == f"{root}/small.json"
    assert open_store(f"{out}/small").read_json("latest.json")["run"] == root
    part, feats, *_ = import_dgl().distributed.load_partition(f"{root}/small.json", 3)
    inner = part.ndata["inner_node"].bool() & (part.ndata["_TYPE"] == 1)
    papers = part.ndata["orig_id"][inner].numpy()
    expected = next(v.array for v in graph.node_values if (v.type_name, v.name) == ("paper", "feat"))
    found = feats["paper/feat"].numpy()[:, : expected.shape[1]]
    np.testing.assert_array_equal(found, expected[papers].astype(np.float32))
    report = verify_output(open_store_text(f"{root}/prepare"), open_store(root))
    assert report.passed, report.failed
    assert all(result["skipped"] for result in run_dag(where, ti))
    _fails(where, root)


def open_store_text(uri: str) -> Any:
    from partition_ops.formats.parmetis.graph_store import as_graph

    return as_graph(open_store(uri))


def _fails(where: dict[str, Any], root: str) -> None:
    ti = TaskInstance()
    with pytest.raises(AirflowFailException, match="writes the same number of partitions"):
        ti.run(PartitionTextOperator(task_id="p", num_parts="3", mpi_ranks=2, **where))
    with pytest.raises(AirflowFailException, match="which only the text has"):
        ti.run(VerifyRunOperator(task_id="verify", **where))
    path = Path(root) / "prepare" / "small_edges.txt"
    lines = path.read_text().splitlines()
    path.write_text("\n".join([*lines[:-1], "0 x 0 0"]) + "\n")
    with pytest.raises(AirflowFailException, match=rf"line {len(lines)}: <dst_id> is not int64 but 'x'"):
        ti.run(PartitionTextOperator(task_id="p", num_parts=2, mpi_ranks=2, **where))


def connect_to(settings: StorageSettings, monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {"endpoint_url": settings.endpoint_url, "region_name": "us-east-1"}
    connect(monkeypatch, login=settings.access_key, password=settings.secret_key, extra=extra)


@needs_parmetis
def test_on_object_storage(
    tmp_path: Path, s3_root: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    connect_to(s3_settings, monkeypatch)
    with open_store(f"{s3_root}/in", s3_settings) as store:
        upload_folder(library().write(tmp_path / "in"), store)
    where = {"input_uri": f"{s3_root}/in", "output_uri": f"{s3_root}/out", "storage_conn_id": "graphs"}
    results = run_all(where, TaskInstance(), ranks="1")
    assert results[1]["counters"] == {"num_parts": 4, "nodes": 65, "edges": 285}
    with open_store(f"{s3_root}/out", s3_settings) as out:
        assert [
            key for key in ("small.json", "part3/graph.dgl", "manifest.json") if not out.exists(key)
        ] == []
        assert out.exists("prepare/p3-small_stats.txt")


STAND_IN = f"""#!{sys.executable}
import os, sys
from pathlib import Path
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from tests.parmetis import pm_dglpart
ranks, rank = (int(os.environ["OMPI_COMM_WORLD_" + name]) for name in ("SIZE", "RANK"))
if rank == 0 and not Path({{idle!r}}).exists():
    pm_dglpart(Path.cwd(), sys.argv[1], int(sys.argv[2]) * ranks)
"""


@needs_parmetis
def test_use_program_runs_the_program_on_the_path(
    tmp_path: Path, s3_root: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The program writes what that of the ParMETIS project does, but partitions at random."""
    connect_to(s3_settings, monkeypatch)
    idle, program = tmp_path / "idle", tmp_path / "bin" / "pm_dglpart"
    program.parent.mkdir()
    program.write_text(STAND_IN.format(idle=str(idle)))
    program.chmod(0o755)
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": s3_root}
    where["storage_conn_id"] = "graphs"
    partition = PartitionTextOperator(task_id="p", num_parts=4, mpi_ranks=2, use_program="True", **where)
    ti = TaskInstance()
    ti.run(WriteTextOperator(task_id="text", **where))
    with pytest.raises(AirflowFailException, match="There is no pm_dglpart on the PATH"):
        ti.run(partition)
    monkeypatch.setenv("PATH", str(program.parent), prepend=os.pathsep)
    idle.touch()
    with pytest.raises(AirflowFailException, match="has not written all partitions"):
        ti.run(partition)
    idle.unlink()
    assert [ti.run(partition)["skipped"] for _ in range(2)] == [False, True]
    with open_store(s3_root, s3_settings) as store:
        found = [entry.key for entry in store.list("prepare/p0") if entry.key.endswith("_nodes.txt")]
        assert found == [f"prepare/p00{part}-small_nodes.txt" for part in range(4)]
        assert store.read_json("records/pm-dglpart.json")["options"]["use_program"] is True


def test_the_example_dag_chains_them() -> None:
    dag = read_dag()
    assert [task.task_id for task in dag.topological_sort()] == [
        "text",
        "pm_dglpart",
        "convert_partition",
        "publish",
    ]
    partition, convert = dag.get_task("pm_dglpart"), dag.get_task("convert_partition")
    assert partition.num_parts == convert.num_parts == "{{ params.num_parts }}"
    for task in dag.tasks:
        assert {"input_uri", "num_parts"} & {*task.template_fields}
        assert task.run_id == "{{ run_id }}"
