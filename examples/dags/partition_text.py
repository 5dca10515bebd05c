"""Partition a graph by the text route of the DGL guide, chapter 7.1.

1. **text** writes `<graph>_nodes.txt`, `<graph>_edges.txt` and `<graph>_stats.txt`.
2. **pm_dglpart** partitions them with ParMETIS under mpirun; the worker needs ParMETIS, OpenMPI and mpi4py.
3. **convert_partition** writes `<graph>.json` and `part<i>/`, ID maps, a quality report and a manifest.
4. **publish** writes `latest.json` and updates the asset `partitioned_graphs`.

Everything is in `<output>/<graph>/runs/<run>/`. Copy this file into the folder of your DAGs.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param
from graph_partitioning.operators.parmetis_text import (
    ConvertPartitionOperator,
    PartitionTextOperator,
    WriteTextOperator,
)
from graph_partitioning.operators.publish import PublishRunOperator

URI = {"type": "string", "minLength": 1}

with DAG(
    dag_id="partition_text",
    dag_display_name="Partition a graph by ParMETIS's text",
    description="The text route of the DGL guide: text, pm_dglpart, convert_partition",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    params={
        "input_uri": Param(title="Input", description="Folder with the graph's metadata.json.", **URI),
        "output_uri": Param(title="Output", description="Root of the graphs' runs.", **URI),
        "storage_conn_id": Param("", type=["string", "null"], title="Connection to S3"),
        "num_parts": Param(4, type="integer", minimum=1, title="Partitions"),
        "mpi_ranks": Param(2, type="integer", minimum=1, title="MPI ranks"),
        "attributes": Param([], type=["array", "null"], items={"type": "string"}, title="Features to keep"),
    },
    tags=["dgl", "graph", "partitioning"],
    render_template_as_native_obj=True,  # a list stays a list
    default_args={
        "retries": 2,
        "retry_delay": timedelta(seconds=10),
        "input_uri": "{{ params.input_uri }}",
        "output_uri": "{{ params.output_uri }}",
        "storage_conn_id": "{{ params.storage_conn_id or '' }}",
        "run_id": "{{ run_id }}",
    },
) as dag:
    text = WriteTextOperator(task_id="text", attributes="{{ params.attributes or [] }}")
    partition = PartitionTextOperator(
        task_id="pm_dglpart",
        num_parts="{{ params.num_parts }}",
        mpi_ranks="{{ params.mpi_ranks }}",
    )
    convert = ConvertPartitionOperator(
        task_id="convert_partition",
        num_parts="{{ params.num_parts }}",
        node_attr_dtype="{{ 'float32' if params.attributes else '' }}",
    )
    text >> partition >> convert >> PublishRunOperator(task_id="publish")
