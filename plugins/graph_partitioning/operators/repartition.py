"""The operators of `repartition_graph`: read the list of graphs, and look for changes in each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.alerts import check_alerts, days_of, send
from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.operators.base import LATEST_RUN
from graph_partitioning.operators.task_messages import explain_failures
from graph_partitioning.options import graph_settings_schema, is_true, run_config
from graph_partitioning.runs import graph_root
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.storage import Store

REASON = "reason"
VARIABLE = "variable:"
STARTS = "A run starts now; a message follows if it fails."
WAITS = "No run starts. If the graph should have changed, check what writes its input."
NOT_FINISHED = "{} was published, but is no longer finished"
MOST_NODES = 200_000  # values of a list of graphs


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
        with explain_failures(self.log):
            listed = read_graph_list(self.graphs, self.storage_conn_id)
            for graph in listed:
                check_alerts(graph)
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
        self._published: datetime | None = None

    def execute(self, context: Context) -> dict[str, Any]:
        changed, reason, previous = self._find_changes()
        context["ti"].xcom_push(key=REASON, value=reason)
        self.log.info("%s", reason)
        starts = changed or is_true(self.force)
        self._tell_age(context, f"{reason}. {STARTS if starts else WAITS}")
        if not starts:
            raise AirflowSkipException(reason)
        return {"previous": previous, **self.graph}

    def _tell_age(self, context: Context, reason: str) -> None:
        """Tell the alerts of the graph that it was not renewed, each once every number of its days."""
        published, before = self._published, context.get("prev_start_date_success")
        if published is None:
            return

        def times(moment: datetime) -> int:
            return int((moment.timestamp() - published.timestamp()) / 86400 // days)

        text = f"It was published last on {published:%Y-%m-%d %H:%M} UTC. {reason}"
        for days in sorted(set(days_of(self.graph))):
            if times(datetime.now(UTC)) > max(times(before) if before else 0, 0):
                send(context, self.graph, "not_renewed", text, days=days)

    def _find_changes(self) -> tuple[bool, str, str]:
        """Return whether the graph has changed, the reason, and the previous run to continue."""
        from partition_ops.artifacts.latest import latest_run
        from partition_ops.chunked.metadata import load_metadata
        from partition_ops.jobs.open_graph import open_graph

        hook = GraphStorageHook(self.graph["storage_conn_id"])
        if is_graph_file(self.graph["input_uri"]):
            with explain_failures(self.log):
                return self._find_table_changes(hook)
        config = IngestConfig(reverse_edges=self.graph.get("reverse_edges", False))
        with (
            explain_failures(self.log),
            open_graph(self.graph["input_uri"], hook.open_store, config=config) as source,
        ):
            metadata = load_metadata(source, graph_name=self.graph.get("graph_name"))
            with hook.open(graph_root(self.graph["output_uri"], metadata.graph_name)) as root:
                latest = latest_run(root)
            if latest is None:
                return True, f"{root.uri} has no published run yet", ""
            with hook.open(latest) as run:
                return self._compare(source, run)

    def _find_table_changes(self, hook: GraphStorageHook) -> tuple[bool, str, str]:
        """Return the same for a file that is ingested, such as a ``graph.yaml``."""
        from partition_ops.artifacts.latest import latest_run
        from partition_ops.errors import InvalidInputError
        from partition_ops.jobs.changes import find_table_changes
        from partition_ops.stages.ingest.graph_file import graph_name_of
        from partition_ops.storage.uris import split_uri

        uri = self.graph["input_uri"]
        folder, key = split_uri(uri)
        with hook.open(folder) as source:
            name = self.graph.get("graph_name") or graph_name_of(source, key)
        with hook.open(graph_root(self.graph["output_uri"], name)) as root:
            latest = latest_run(root)
        if latest is None:
            return True, f"{root.uri} has no published run yet", ""
        with hook.open(latest) as run:
            if not self._finished(run):
                return True, NOT_FINISHED.format(run.uri), ""
            try:
                changes = find_table_changes(uri, run, hook.open_store, wanted=run_config(self.graph))
            except InvalidInputError as error:  # of another kind of input, or tables that are gone
                return True, f"{uri} is read again: {error.problem}", LATEST_RUN
        return changes.any, f"Since {run.uri}: {changes}", LATEST_RUN

    def _compare(self, source: Store, run: Store) -> tuple[bool, str, str]:
        from partition_ops.jobs.changes import find_changes

        if not self._finished(run):
            return True, NOT_FINISHED.format(run.uri), ""
        changes = find_changes(source, run, wanted=run_config(self.graph))
        return changes.any, f"Since {run.uri}: {changes}", LATEST_RUN

    def _finished(self, run: Store) -> bool:
        """Return whether a published run is still finished, and keep when it was published."""
        from partition_ops.artifacts.layout import MANIFEST

        there = run.stat(MANIFEST)
        if there is not None:
            self._published = datetime.fromtimestamp(there.modified, tz=UTC)
        return there is not None


def read_graph_list(place: str, storage_conn_id: str | None) -> list[dict[str, Any]]:
    """Return the settings of every graph, by the names of the params of `partition_graph`.

    Args:
        place: Path or URI of a YAML file, or ``variable:NAME``.
        storage_conn_id: Airflow connection that reaches the file.

    Raises:
        InvalidInputError: There is no such list, or it violates ``schemas/graphs.schema.json`` or
            ``schemas/graph_settings.schema.json``.
    """
    from partition_ops.errors import InvalidInputError
    from partition_ops.system.json_documents import check_document

    def graphs_of(text: str | bytes) -> list[dict[str, Any]]:
        document = _parsed(text, place)
        check_document(document, "graphs", where=place)
        defaults = document.get("defaults", {})
        graphs = [{**defaults, **graph} for graph in document["graphs"]]
        for graph in graphs:
            check_document(graph, "graph_settings", where=place, definition=graph_settings_schema())
        _check_once(graphs, place)
        return graphs

    text = _read(place, storage_conn_id)
    try:
        return graphs_of(text)
    except InvalidInputError:
        if not place.startswith(VARIABLE):
            raise
    # outside of the handler: the log has no traceback with the content of the Variable
    raise InvalidInputError(
        f"The Airflow Variable {place.removeprefix(VARIABLE)!r} is not a valid list of graphs",
        found="its content is not shown, because a Variable may hold secrets",
        expected="the YAML that docs/schedule.md describes",
        remedy="To see the mistake, put the list into a file, and give the path of the file.",
    )


def _read(place: str, storage_conn_id: str | None) -> str | bytes:
    from airflow.sdk import Variable

    from partition_ops.errors import InvalidInputError
    from partition_ops.storage.uris import split_uri

    if not place.startswith(VARIABLE):
        folder, name = split_uri(place)
        with GraphStorageHook(storage_conn_id).open(folder) as store:
            return store.read_bytes(name)
    text: str | None = Variable.get(place.removeprefix(VARIABLE), default=None)
    if text is None:
        raise InvalidInputError(
            f"There is no Airflow Variable {place.removeprefix(VARIABLE)!r}",
            remedy="Add it under Admin, Variables, with the same YAML as in a file.",
        )
    return text


def _parsed(text: str | bytes, place: str) -> Any:
    import yaml

    from partition_ops.errors import InvalidInputError

    try:
        _count_nodes(yaml.compose(text, yaml.SafeLoader), {}, place)
        return yaml.safe_load(text)
    except (yaml.YAMLError, RecursionError, ValueError) as error:  # a date or a number that is none
        raise InvalidInputError(f"{place} is not valid YAML: {error}", remedy="Correct the file.") from error


def _count_nodes(node: Any, known: dict[int, int], place: str) -> int:
    """Return the number of nodes of a YAML document in which each alias counts as what it stands for.

    Raises:
        InvalidInputError: It is too large: a few aliases of aliases stand for more than fits into memory.
    """
    from partition_ops.errors import InvalidInputError

    if node is None or isinstance(node.value, str):
        return 1
    if id(node) not in known:
        known[id(node)] = MOST_NODES  # an alias of something around itself
        children = [
            child for entry in node.value for child in (entry if isinstance(entry, tuple) else [entry])
        ]
        known[id(node)] = 1 + sum(_count_nodes(child, known, place) for child in children)
    if known[id(node)] > MOST_NODES:
        raise InvalidInputError(
            f"{place} is too large",
            found="more values than that, with what its aliases stand for",
            expected=f"at most {MOST_NODES:,} values",
            remedy="Write the list without aliases of aliases; common settings belong into 'defaults'.",
        )
    return known[id(node)]


def _check_once(graphs: list[dict[str, Any]], place: str) -> None:
    """Reject two entries for the same output, because each would undo what the other did."""
    from partition_ops.errors import InvalidInputError

    seen = set()
    for graph in graphs:
        key = (graph["input_uri"], graph["output_uri"].rstrip("/"), graph.get("graph_name"))
        if key in seen:
            raise InvalidInputError(f"{place} has {key[0]} twice for the same output", found=key[1])
        seen.add(key)
