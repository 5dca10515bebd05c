"""The operators of `repartition_graph`: list the graphs, and look for changes in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.operators.base import LATEST_RUN, explain_failures
from graph_partitioning.options import is_true, run_config
from graph_partitioning.runs import graph_root

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.storage import Store

REASON = "reason"


class ListGraphsOperator(BaseOperator):
    """Reads the list of graphs, and returns their settings, to map over.

    Args:
        graphs: Path or URI of a YAML file, or ``variable:NAME`` for an Airflow Variable.
        storage_conn_id: Airflow connection that reaches the file, and graphs that do not name another one.
    """

    template_fields: Sequence[str] = ("graphs", "storage_conn_id")

    def __init__(self, *, graphs: str, storage_conn_id: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.graphs = graphs
        self.storage_conn_id = storage_conn_id

    def execute(self, context: Context) -> list[dict[str, Any]]:
        from graph_partitioning.graph_list import read_graph_list

        with explain_failures(self.log):
            listed = read_graph_list(self.graphs, self.storage_conn_id)
        return [{"storage_conn_id": self.storage_conn_id or None, **graph} for graph in listed]


class LookForChangesOperator(BaseOperator):
    """Skips the following tasks if a graph has not changed since its newest published run.

    Args:
        graph: Settings of the graph, by the names of the params of `partition_graph`.
        force: Continue even if nothing has changed; may be text such as ``"true"``.

    Returns:
        The params with which to run `partition_graph`: the settings, with ``previous``, unless they have one,
        as the run that was published last. The XCom ``reason`` says what has changed, or that nothing has.
    """

    template_fields: Sequence[str] = ("graph", "force")

    def __init__(self, *, graph: Mapping[str, Any], force: bool | str = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.graph = graph
        self.force = force

    def execute(self, context: Context) -> dict[str, Any]:
        changed, reason, previous = self._find_changes()
        context["ti"].xcom_push(key=REASON, value=reason)
        self.log.info("%s", reason)
        if not changed and not is_true(self.force):
            raise AirflowSkipException(reason)
        return {"previous": previous, **self.graph}

    def _find_changes(self) -> tuple[bool, str, str]:
        """Return whether the graph has changed, the reason, and the previous run to continue."""
        from partition_ops.artifacts.latest import latest_run
        from partition_ops.chunked.metadata import load_metadata

        hook = GraphStorageHook(self.graph["storage_conn_id"])
        with explain_failures(self.log), hook.open(self.graph["input_uri"]) as source:
            metadata = load_metadata(source, graph_name=self.graph.get("graph_name"))
            with hook.open(graph_root(self.graph["output_uri"], metadata.graph_name)) as root:
                latest = latest_run(root)
            if latest is None:
                return True, f"{root.uri} has no published run yet", ""
            with hook.open(latest) as run:
                return self._compare(source, run)

    def _compare(self, source: Store, run: Store) -> tuple[bool, str, str]:
        from partition_ops.artifacts.layout import MANIFEST
        from partition_ops.jobs.changes import find_changes

        if not run.exists(MANIFEST):
            return True, f"{run.uri} was published, but is no longer finished", ""
        changes = find_changes(source, run, wanted=run_config(self.graph))
        return changes.any, f"Since {run.uri}: {changes}", LATEST_RUN
