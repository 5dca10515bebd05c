"""Checks of JSON documents: one library says whether they are valid, another one what is wrong."""

from __future__ import annotations

import copy
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from partition_ops.errors import InvalidInputError
from partition_ops.system.json_documents import check_document, schema_document

DIGEST = "0" * 64
MANIFEST = {
    "version": 1,
    "graph_name": "g",
    "input": {"uri": "s3://b/g", "files": [{"path": "metadata.json", "size": 12, "sha256": DIGEST}]},
    "options": {"partition": {"num_parts": 2}},
    "versions": {"numpy": "2.0"},
    "artifacts": [{"key": "partitions/part0/graph.dgl", "size": 12, "sha256": DIGEST}],
}
TABLES = {
    "graph_name": "shop",
    "nodes": {"user": {"table": "users.csv", "key": "id"}, "item": {}},
    "edges": {
        "user:buys:item": {
            "table": {"path": "buys.csv"},
            "src": "user",
            "dst": "item",
            "features": {"price": {"column": "price"}, "time": {"column": "at"}},
        }
    },
}
DOCUMENTS = {"manifest": MANIFEST, "graph_tables": TABLES}
ODD = st.sampled_from(
    [None, True, 0, -1, 1.0, 1.5, math.nan, math.inf, 2**70, "", "a/b", DIGEST, DIGEST + "\n", "é", [], {}]
)


def places(document: Any) -> list[tuple[Any, ...]]:
    """Return the paths of all values in a document, and of the document itself."""
    found: list[tuple[Any, ...]] = [()]
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for name, value in items:
        found += [(name, *rest) for rest in (places(value) if isinstance(value, dict | list) else [()])]
    return found


@st.composite
def damaged(draw: st.DrawFn, schema: str) -> Any:
    """Return a document in which values are replaced, left out or added."""
    document = copy.deepcopy(DOCUMENTS[schema])
    for _ in range(draw(st.integers(0, 2))):
        path = draw(st.sampled_from(places(document)))
        where: Any = document
        for name in path[:-1]:
            where = where[name]
        if not path:
            document[draw(st.sampled_from(["x", "version", "nodes"]))] = draw(ODD)
        elif isinstance(where, dict) and draw(st.booleans()):
            del where[path[-1]]
        else:
            where[path[-1]] = draw(ODD)
    return document


def accepted(document: Any, schema: str) -> bool:
    try:
        check_document(document, schema, where="s3://b/d.json")
    except InvalidInputError:
        return False
    return True


@pytest.mark.parametrize("schema", DOCUMENTS)
def test_the_documents_of_this_test_are_valid(schema: str) -> None:
    assert accepted(DOCUMENTS[schema], schema)


@pytest.mark.parametrize("schema", DOCUMENTS)
@given(data=st.data())
def test_both_libraries_accept_the_same_documents(schema: str, data: st.DataObject) -> None:
    document = data.draw(damaged(schema))
    assert accepted(document, schema) == Draft202012Validator(schema_document(schema)).is_valid(document)


def test_a_document_with_keys_that_json_does_not_have_is_checked_too() -> None:
    """It is not from a file; the fast library refuses to look at it."""
    assert not accepted({1: 2}, "manifest")
