"""The stage ``publish``, and the asset events that other DAGs are scheduled on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graph_partitioning.assets import PARTITIONED_GRAPHS, PUBLISHED, published_graph
from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.metrics import report_graph_metrics
from graph_partitioning.operators.base import GraphStageOperator
from partition_ops.stages.publish.options import PublishConfig

if TYPE_CHECKING:
    from contextlib import ExitStack

    from airflow.sdk import Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store


class PublishRunOperator(GraphStageOperator):
    """Writes the manifest, then ``<output_uri>/<graph>/latest.json``, and updates the assets.

    It comes after ``idmap`` and ``quality``. The asset `PARTITIONED_GRAPHS`, and the one that
    `published_graph` gives for this graph, get an event whose ``extra`` has ``graph_name``, ``num_parts``,
    ``run`` (URI of the run's root), ``partition_config`` (what ``dgl.distributed`` takes) and
    ``manifest``. Without a ``run_id`` there is no ``latest.json`` and no event for the asset of the graph.

    Example::

        PublishRunOperator(
            task_id="publish",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        outlets: Further assets that the task updates.
        kwargs: As for `GraphStageOperator`.
    """

    stage = "publish"  # the options of the gate belong to the operator of the gate

    def __init__(self, *, outlets: Sequence[Any] = (), **kwargs: Any) -> None:
        super().__init__(outlets=[PARTITIONED_GRAPHS, PUBLISHED, *outlets], **kwargs)
        self._published = ""

    def stage_config(self) -> PublishConfig:
        return replace(self.config(PublishConfig), run_id=self.run_id or None)

    def open_arguments(self, destination: Store, stack: ExitStack) -> dict[str, Any]:
        return {"latest": stack.enter_context(self.graph_of(destination)) if self.run_id else None}

    def finish(self, context: Context, result: StageResult, destination: Store) -> Any:
        self._published = destination.uri
        extra = asset_extra(destination)
        report_graph_metrics(destination, extra["graph_name"])
        events = context["outlet_events"]
        events[PARTITIONED_GRAPHS].extra = extra
        if self.run_id:
            output_uri = destination.uri.rsplit("/", 3)[0]
            events[PUBLISHED].add(published_graph(output_uri, extra["graph_name"]), extra=extra)
        return result.to_json()

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Return the lineage of the run, from its tables or its graph to the partitions.

        OpenLineage's provider calls it after the task has succeeded.
        """
        from graph_partitioning.lineage import lineage_of

        with GraphStorageHook(self.storage_conn_id).open(self._published) as run:
            return lineage_of(run, self.input_uri)


def asset_extra(run: Store) -> dict[str, Any]:
    """Return what the event of an asset says of a published run."""
    from partition_ops.artifacts.book import read_book
    from partition_ops.artifacts.layout import MANIFEST
    from partition_ops.formats.format import main_config

    book = read_book(run)
    return {
        "graph_name": book.graph_name,
        "num_parts": book.num_parts,
        "run": run.uri,
        "partition_config": run.uri_of(main_config(book)),
        "manifest": run.uri_of(MANIFEST),
    }
