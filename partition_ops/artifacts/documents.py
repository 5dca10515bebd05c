"""Read JSON documents of a run, and files that may be missing."""

from __future__ import annotations

from typing import Any

from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.system.json_documents import check_document

ATTEMPTS = 5


def read_document(store: Store, key: str, schema: str) -> dict[str, Any]:
    """Return a JSON document that fulfils ``schemas/<schema>.schema.json``.

    Raises:
        InvalidInputError: It is missing, is not JSON or violates the schema.
    """
    document: dict[str, Any] = store.read_json(key)
    check_document(document, schema, where=store.uri_of(key))
    return document


def read_if_there(store: Store, key: str) -> bytes | None:
    """Return the content of an object, None without one, even if others remove and write it meanwhile.

    If it is there, this is one request to S3.
    """
    for _ in range(ATTEMPTS):
        try:
            return store.read_bytes(key)
        except InvalidInputError:
            if not store.exists(key):
                return None
    return store.read_bytes(key)
