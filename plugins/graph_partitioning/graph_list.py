"""The list of graphs that `repartition_graph` partitions: a YAML file, or an Airflow Variable."""

from __future__ import annotations

from typing import Any

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.options import graph_settings_schema

VARIABLE = "variable:"


def read_graph_list(place: str, storage_conn_id: str | None) -> list[dict[str, Any]]:
    """Return the settings of every graph, by the names of the params of `partition_graph`.

    Args:
        place: Path or URI of a YAML file, or ``variable:NAME``.
        storage_conn_id: Airflow connection that reaches the file.

    Raises:
        InvalidInputError: There is no such list, or it violates ``schemas/graphs.schema.json`` or
            ``schemas/graph_settings.schema.json``.
    """
    from partition_ops.system.json_documents import check_document

    document = _parsed(_read(place, storage_conn_id), place)
    check_document(document, "graphs", where=place)
    defaults = document.get("defaults", {})
    graphs = [{**defaults, **graph} for graph in document["graphs"]]
    for graph in graphs:
        check_document(graph, "graph_settings", where=place, definition=graph_settings_schema())
    _check_once(graphs, place)
    return graphs


def _read(place: str, storage_conn_id: str | None) -> str | bytes:
    from airflow.sdk import Variable

    from partition_ops.errors import InvalidInputError

    if not place.startswith(VARIABLE):
        folder, _, name = place.rpartition("/")
        with GraphStorageHook(storage_conn_id).open(folder or ".") as store:
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
        return yaml.safe_load(text)
    except yaml.YAMLError as error:
        raise InvalidInputError(f"{place} is not valid YAML: {error}", remedy="Correct the file.") from error


def _check_once(graphs: list[dict[str, Any]], place: str) -> None:
    """Reject two entries for the same output, because each would undo what the other did."""
    from partition_ops.errors import InvalidInputError

    seen = set()
    for graph in graphs:
        key = (graph["input_uri"], graph["output_uri"].rstrip("/"), graph.get("graph_name"))
        if key in seen:
            raise InvalidInputError(f"{place} has {key[0]} twice for the same output", found=key[1])
        seen.add(key)
