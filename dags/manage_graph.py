"""Publish an older run of a graph again, delete a run, or remove old runs or a whole graph.

The page **Graphs** triggers this DAG. Whoever may trigger it may do these actions; everybody else sees no
buttons for them. The task waits while a run of `partition_graph` works on the graph.
"""

from __future__ import annotations

from datetime import timedelta

from airflow.sdk import DAG, Param
from graph_partitioning.operators.manage import ManageGraphOperator
from graph_partitioning.operators.params import check_params
from graph_partitioning.options import GraphLocation, Management, Retention, form, templates

PARAMS = {**form(Management, Retention), "storage_conn_id": form(GraphLocation)["storage_conn_id"]}

with DAG(
    dag_id="manage_graph",
    dag_display_name="Manage a graph's runs",
    description="Publish an older run again, delete a run, or remove old runs or a graph",
    doc_md=__doc__,
    schedule=None,
    catchup=False,
    max_active_runs=4,
    params={name: Param(**keywords) for name, keywords in PARAMS.items()},
    tags=["dgl", "graph", "partitioning"],
    default_args={"retries": 3, "retry_delay": timedelta(seconds=10), "retry_exponential_backoff": 2},
) as dag:
    ManageGraphOperator(
        task_id="manage",
        pre_execute=check_params,
        storage_conn_id="{{ params.storage_conn_id or '' }}",
        **templates(Management, Retention),
    )
