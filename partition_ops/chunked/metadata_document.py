"""Reading ``metadata.json`` as JSON, with what JSON allows and we cannot take refused."""

from __future__ import annotations

import json
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.storage import Store
from partition_ops.system.json_documents import not_json, schema_document


def read_metadata_document(source: Store) -> Any:
    """The parsed ``metadata.json`` at the root of a graph.

    Args:
        source: The graph's root.

    Raises:
        InvalidInputError: There is none, it is no JSON, or an object in it has a name twice: of two
            features with one name, most readers take the last and say nothing.
    """
    data = source.read_bytes(layout.METADATA)
    try:
        return json.loads(data, object_pairs_hook=_object)
    except (ValueError, RecursionError) as error:
        raise not_json(source.uri_of(layout.METADATA), error) from error


def known_metadata_keys() -> set[str]:
    """Keys of ``metadata.json`` that the format has, and those that GraphStorm adds to it."""
    return {*schema_document("metadata")["properties"], "row_counts", "raw_id_mappings", "graph_info"}


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"an object has the name {twice!r} twice")
    return found
