"""The stage ``ingest``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.links import DataDocsLink
from graph_partitioning.metrics import report_metrics
from graph_partitioning.operators.base import LATEST_RUN, GraphStageOperator
from graph_partitioning.operators.task_messages import explain_failures, task_progress
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file, is_saved_graph
from partition_ops.stages.partition.options import PreviousOptions
from partition_ops.stages.publish.options import Replacement
from partition_ops.system.extras import is_installed

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class IngestTablesOperator(GraphStageOperator, options=(IngestConfig, PreviousOptions, Replacement)):
    """Makes a graph from the tables that a ``graph.yaml`` names, below ``ingest/`` of the run.

    If the tables are rejected, ``validation/`` there has the report and the Data Docs. A ``graph.bin`` that
    ``dgl.save_graphs`` has written is ingested as well.

    It comes before ``validate``, whose trigger rule must accept a skipped task: if the input is a graph, the
    task is skipped. The other operators take the same ``input_uri``, and work on the graph that was made.

    Example::

        IngestTablesOperator(
            task_id="ingest",
            input_uri="s3://warehouse/shop/graph.yaml",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        kwargs: As for `GraphStageOperator`, and the options of `IngestConfig`. ``previous`` is an earlier run
            that was made from tables: its nodes keep their IDs. ``replace_input`` is as for
            `ValidateGraphOperator`.
    """

    operator_extra_links = (*GraphStageOperator.operator_extra_links, DataDocsLink())

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.layout import INGEST
        from partition_ops.artifacts.marker import GRAPH, claimed
        from partition_ops.artifacts.write_access import check_root
        from partition_ops.system.temporary_folders import check_tmpdir

        if not is_graph_file(self.input_uri):
            raise AirflowSkipException("Skipped because the input is a graph, and no graph.yaml or graph.bin")
        hook = GraphStorageHook(self.storage_conn_id)
        with explain_failures(self.log), self.graph_file(hook) as (folder, name):
            check_tmpdir()
            with hook.open(self._table_root(folder, name)) as root:
                target = root.child(INGEST)
                self._push_run(context, target.uri)
                check_root("ingest", target, within=root)
                self.check_same_input(root)
                with claimed(target, GRAPH):
                    result = ingest_tables(self, target, task_progress(context, self.log))
                self._push_run(context, target.uri, result.record)
                report_metrics(result, target)
        return result.to_json()


def ingest_tables(operator: GraphStageOperator, destination: Store, progress: Progress) -> StageResult:
    """Make the graph of an operator that has the options of `IngestTablesOperator`, unless that is done."""
    from partition_ops.jobs.open_graph import ingest_graph_file

    with _open_earlier(operator, destination) as earlier:
        return ingest_graph_file(
            operator.config(IngestConfig),
            operator.input_uri,
            destination,
            GraphStorageHook(operator.storage_conn_id).open_store,
            previous=earlier,
            data_docs=is_installed("great_expectations"),
            progress=progress,
        )


def must_ingest_again(operator: GraphStageOperator, destination: Store) -> bool:
    """Return whether tables have changed since they were ingested, or another run is to be continued now.

    Nothing tells whether rows on servers have changed. A graph that has such rows is ingested again only if
    another run is to be continued.

    Args:
        operator: One that has the options of `IngestTablesOperator`.
        destination: Root of the ingested graph.
    """
    from partition_ops.artifacts.records import read_record
    from partition_ops.jobs.changes import types_on_servers
    from partition_ops.jobs.open_graph import ingestion_of
    from partition_ops.storage.uris import split_uri

    opened, (folder, name) = (
        GraphStorageHook(operator.storage_conn_id).open_store,
        split_uri(operator.input_uri),
    )
    config = operator.config(IngestConfig)
    with opened(folder) as source, _open_earlier(operator, destination) as earlier:
        task = ingestion_of(config, source, name, destination, opened, earlier)
        if task.status().done:
            return False
        if not types_on_servers(task.options.get("graph", {})):
            return True
        known = read_record(destination, "ingest")["options"].get("previous")
        return bool(known != task.options.get("previous"))


@contextmanager
def _open_earlier(operator: GraphStageOperator, destination: Store) -> Iterator[Store | None]:
    """Open the ingested graph of the earlier run; ``latest`` means the newest published one, if there is one.

    The task ``ingest`` comes before the lock of the graph. After the lock, the run that was noted under it
    counts. `PartitionNodesOperator` checks that the nodes have the IDs of the run that it continues.
    """
    from partition_ops.artifacts.latest import latest_run, read_beginning
    from partition_ops.jobs.open_graph import ingested_graph_of

    previous = operator.config(PreviousOptions).previous or ""
    if previous == LATEST_RUN:
        beginning = read_beginning(destination.above(1))
        with operator.graph_of(destination) as graph:
            previous = (beginning["latest"] if beginning else latest_run(graph)) or ""
    with operator.open_previous(destination, previous) as run:
        yield None if run is None or is_saved_graph(operator.input_uri) else ingested_graph_of(run)
