"""Actions on the runs of a graph: publish one again, delete one, remove old ones or the whole graph."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.exceptions import AirflowFailException

from graph_partitioning.assets import PARTITIONED_GRAPHS, PUBLISHED, published_graph
from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.operators.base import OptionsOperator
from graph_partitioning.operators.lock import PATIENCE, WAIT, abandoned, wait_for_lock
from graph_partitioning.operators.publish import asset_extra
from graph_partitioning.operators.task_messages import explain_failures, fail
from graph_partitioning.options import Management, Retention
from graph_partitioning.runs import lock_holder

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.storage import Store


class ManageGraphOperator(OptionsOperator, options=(Management, Retention)):
    """Publishes an older run of a graph again, deletes a run, or removes old runs or the whole graph.

    It holds the lock of the graph meanwhile, and waits without a worker slot while another run has it. If a
    run is published again, the assets get the same events as from ``PublishRunOperator``. The run that
    ``latest.json`` names is only removed with the whole graph, which the task does not wait for: it fails if
    another run has the lock.

    Args:
        storage_conn_id: As for `GraphRunOperator`.
        kwargs: The options of `Management` and `Retention`, as values or as text from templates, and the
            arguments of a task.

    Returns:
        ``published``, the URI of the run, or ``removed``, a list of URIs.
    """

    template_fields: Sequence[str] = ("storage_conn_id",)

    def __init__(
        self, *, storage_conn_id: str | None = GraphStorageHook.default_conn_name, **kwargs: Any
    ) -> None:
        super().__init__(outlets=[PUBLISHED], **kwargs)
        self.storage_conn_id = storage_conn_id

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.lock import holding, release_lock, take_lock
        from partition_ops.artifacts.lock_document import describe_lock
        from partition_ops.jobs.retention import check_root, has_graph

        holder = lock_holder(context)
        with explain_failures(self.log):
            asked, limits = self.config(Management), self.config(Retention)
        if asked.action == "retain" and limits.keep is None:
            raise AirflowFailException("The action 'retain' needs the number of runs to keep")
        uri = asked.graph_uri.rstrip("/")
        with explain_failures(self.log), GraphStorageHook(self.storage_conn_id).open(uri) as root:
            if asked.action != "remove":
                check_root(root)  # before the lock, which would make the folder
            elif not has_graph(root):
                return {"removed": []}
            held = take_lock(root, holder, abandoned=lambda lock: abandoned(lock, context))
            if held is not None and asked.action == "remove":
                fail(f"The graph is in use and was not removed: {describe_lock(held)}")
            if held is not None:
                wait_for_lock(held, context, self.log, WAIT, PATIENCE)
            try:
                with holding(root, holder, root):
                    return self._act(asked, limits, root, context)
            finally:
                release_lock(root, holder)

    def _act(self, asked: Management, limits: Retention, root: Store, context: Context) -> dict[str, Any]:
        from partition_ops.artifacts.layout import RUNS
        from partition_ops.jobs.retention import delete_run, remove_graph, retain_runs
        from partition_ops.stages.publish.publish import publish_again

        config = limits.config()
        if asked.action == "retain" and config is not None:
            removed = retain_runs(config, root).removed
        elif asked.action == "remove":
            removed = remove_graph(root)
        elif asked.action == "delete":
            delete_run(root, str(asked.run_name))
            removed = [root.uri_of(f"{RUNS}/{asked.run_name}")]
        else:
            return self._published(publish_again(root, str(asked.run_name)), root, context)
        for uri in removed:
            self.log.info("Removed %s", uri)
        return {"removed": removed}

    def _published(self, pointer: dict[str, Any], root: Store, context: Context) -> dict[str, Any]:
        output_uri, _, folder = root.uri.rpartition("/")
        extra = asset_extra(root.child(pointer["run"].removeprefix(f"{root.uri}/")))
        events = context["outlet_events"][PUBLISHED]
        for asset in (PARTITIONED_GRAPHS, published_graph(output_uri, folder)):
            events.add(asset, extra=extra)
        self.log.info("%s is the published run again", pointer["run"])
        return {"published": pointer["run"]}
