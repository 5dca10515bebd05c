"""Read JSON documents of a run."""

from __future__ import annotations

from typing import Any

from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document


def read_document(store: Store, key: str, schema: str) -> dict[str, Any]:
    """Return a JSON document that fulfils ``schemas/<schema>.schema.json``.

    Raises:
        InvalidInputError: It is missing, is not JSON or violates the schema.
    """
    document: dict[str, Any] = store.read_json(key)
    check_document(document, schema, where=store.uri_of(key))
    return document
