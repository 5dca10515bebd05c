"""Partition graphs again when they have changed, on a schedule.

The graphs and their settings are listed in a YAML file, or in an Airflow Variable with the same text. For
each graph:

1. **changes**: compare the input with that of the newest published run. If nothing has changed, the rest is
   skipped, and the log says so.
2. **partition**: start a run of `partition_graph` with the settings of the graph, as an incremental run
   after the newest published run: nodes stay in their partitions unless moving them pays off.

Only one run at a time works on a graph, because `partition_graph` locks it.
"""

from __future__ import annotations

import os
from datetime import timedelta

from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator
from airflow.sdk import DAG, Asset, AssetAny, Param, task_group
from graph_partitioning.alerts import tell_failure
from graph_partitioning.operators.params import check_params
from graph_partitioning.operators.repartition import ListGraphsOperator, LookForChangesOperator

ASSET = "asset:"


def schedule(text: str) -> str | AssetAny | None:
    """Return Airflow's schedule for ``0 3 * * *``, ``@daily`` or ``asset:NAME``.

    An asset may be named by its URI. With several assets, separated by commas, each of them starts a run.
    """
    if not text.startswith(ASSET):
        return text or None
    names = (name.strip() for name in text.removeprefix(ASSET).split(","))
    return AssetAny(*(Asset(uri=name) if "://" in name else Asset(name) for name in names))


PARAMS = {
    "graphs": Param(
        os.environ.get("GRAPH_PARTITIONING_GRAPHS") or "variable:graphs",
        type="string",
        minLength=1,
        title="List of graphs",
        description="A YAML file, s3://bucket/key or a path on the workers; or variable:NAME, an Airflow"
        " Variable with the same text.",
    ),
    "storage_conn_id": Param(
        "aws_default",
        type=["null", "string"],
        title="Storage connection",
        description="Airflow connection of type aws for the list, and for graphs without another connection.",
    ),
    "force": Param(
        False,
        type="boolean",
        title="Even if nothing has changed",
        description="Partition every graph on the list.",
    ),
}

with DAG(
    dag_id="repartition_graph",
    dag_display_name="Partition graphs again",
    description="Partition graphs that have changed, starting from their newest published run",
    doc_md=__doc__,
    schedule=schedule(os.environ.get("GRAPH_PARTITIONING_SCHEDULE", "").strip()),
    catchup=False,
    max_active_runs=1,
    params=PARAMS,
    tags=["dgl", "graph", "partitioning"],
    default_args={"retries": 3, "retry_delay": timedelta(seconds=10), "retry_exponential_backoff": 2},
) as dag:
    graphs = ListGraphsOperator(
        task_id="graphs",
        pre_execute=check_params,
        graphs="{{ params.graphs }}",
        storage_conn_id="{{ params.storage_conn_id or '' }}",
    )

    @task_group(group_id="graph")
    def repartition(settings: dict[str, object]) -> None:
        """Look for changes in a graph, and partition it."""
        changes = LookForChangesOperator(
            task_id="changes",
            graph=settings,
            force="{{ params.force }}",
            on_failure_callback=tell_failure,
            map_index_template="{{ task.graph['input_uri'] }}",
        )
        TriggerDagRunOperator(
            task_id="partition",
            trigger_dag_id="partition_graph",
            # the pages of graphs say why: changes found, or forced
            trigger_run_id="{{ 'forced' if params.force else 'repartition' }}"
            "__{{ run_id }}__{{ ti.map_index }}",
            logical_date=None,  # graphs that are triggered at the same moment would share it
            conf=changes.output,  # type: ignore[arg-type]  # a template field
            fail_when_dag_is_paused=True,  # a run that is queued there would never start
            reset_dag_run=True,  # a cleared task continues the run that it had started
            wait_for_completion=True,
            deferrable=True,
            poke_interval=10,
            retries=0,  # the tasks of the other run have retries
            map_index_template="{{ task.conf['input_uri'] }}",
        )

    repartition.expand(settings=graphs.output)
