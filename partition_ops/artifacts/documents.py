"""Read JSON documents of a run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from partition_ops.errors import InvalidInputError
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


def find_document(
    store: Store,
    key: str,
    schema: str,
    damage: str,
    *,
    expected: str,
    remedy: str,
    check: Callable[[Any], None] = lambda document: None,
) -> dict[str, Any] | None:
    """Return a JSON document that fulfils ``schemas/<schema>.schema.json``, or None if there is none.

    Args:
        store: Root of the document.
        key: Its key.
        schema: Name of the schema.
        damage: What a damaged document is or means, after its URI.
        expected: What was expected instead.
        remedy: What the user can do then.
        check: Checks the parsed document before the schema does.

    Raises:
        InvalidInputError: It is not JSON or violates the schema.
    """
    data = store.read_if_there(key)
    if data is None:
        return None
    where = store.uri_of(key)
    try:
        document: dict[str, Any] = store.parse_json(key, data)
        check(document)
        check_document(document, schema, where=where)
    except InvalidInputError as error:
        found = error.found or error.problem.removeprefix(f"{where}: ")
        raise InvalidInputError(f"{where} {damage}", found=found, expected=expected, remedy=remedy) from error
    return document
