"""Tables in Avro; `test_ingest_sources` compares them with those of other kinds."""

from __future__ import annotations

import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import UUID

import fastavro
import numpy as np
import pytest

from partition_ops.errors import InvalidInputError, UsageError
from tests.tables import edges, feature, ingest, keys, write_csv

GRAPH = """\
graph_name: g
nodes:
  place: {table: %s, key: id, features: {%s}}
edges:
  place:road:place: {table: roads.csv, src: a, dst: b}
"""
TYPES: dict[str, Any] = {
    "id": {"type": "string", "logicalType": "uuid"},
    "size": ["null", "int"],
    "price": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
    "vector": {"type": "array", "items": "float"},
    "opened": {"type": "int", "logicalType": "date"},
    "changed": ["null", {"type": "long", "logicalType": "timestamp-millis"}],
    "kind": {"type": "enum", "name": "Kind", "symbols": ["small", "large"]},
    "before": "Kind",
    "parts": {"type": "map", "values": {"type": "record", "name": "Part", "fields": []}},
}
PLACES = [
    {
        "id": UUID(int=number),
        "size": number or None,
        "price": Decimal(number) / 4,
        "vector": [number, 0.5],
        "opened": date(1970, 1, 1 + number),
        "changed": datetime(1970, 1, 1, 0, 0, number, tzinfo=UTC),
        "kind": "large",
        "before": "small" if number else "large",
        "parts": {},
    }
    for number in range(3)
]


def write(
    folder: Path, types: dict[str, Any], rows: list[dict[str, Any]], features: str, **table: str
) -> None:
    fields = [{"name": name, "type": kind} for name, kind in types.items()]
    schema = fastavro.parse_schema({"type": "record", "name": "Place", "fields": fields})
    with (folder / "places.avro").open("wb") as stream:
        fastavro.writer(stream, schema, rows, codec="deflate")
    write_csv(folder / "roads.csv", [{"a": rows[0]["id"], "b": rows[-1]["id"]}])
    spec = f"{{path: places.avro, types: {{{', '.join(f'{k}: {v}' for k, v in table.items())}}}}}"
    (folder / "graph.yaml").write_text(GRAPH % (spec, features))


def test_types_of_avro_become_those_of_columns(tmp_path: Path) -> None:
    features = (
        "size: {missing: -1}, price: , vector: , opened: , changed: , before: {transform: one-hot},"
        " kind: {transform: one-hot}"
    )
    write(tmp_path, TYPES, PLACES, features)
    ingest(tmp_path, tmp_path / "graph")
    assert keys(tmp_path / "graph", "place") == [str(row["id"]) for row in PLACES]
    assert edges(tmp_path / "graph", "place:road:place") == [(0, 2)]
    found = {
        name: feature(tmp_path / "graph", "place", name) for name in TYPES if name not in ("id", "parts")
    }
    assert {name: rows.tolist() for name, rows in found.items()} == {
        "size": [-1, 1, 2],
        "price": [0, 0.25, 0.5],
        "vector": [[0, 0.5], [1, 0.5], [2, 0.5]],
        "opened": [0, 86400, 172800],
        "changed": [0, 1, 2],
        "kind": [[1], [1], [1]],
        "before": [[1, 0], [0, 1], [0, 1]],
    }
    assert found["vector"].dtype == np.float32


def test_a_union_of_several_types_is_rejected_or_becomes_text(tmp_path: Path) -> None:
    types = {"id": ["long", "string"], "size": "int"}
    rows = [{"id": key, "size": 1} for key in (7, "seven")]
    write(tmp_path, types, rows, "size: ")
    with pytest.raises(
        InvalidInputError, match=r"'id' of places\.avro has values of several types"
    ) as refused:
        ingest(tmp_path, tmp_path / "graph")
    assert refused.value.found == ["int64 in places.avro", "text in places.avro"]
    write(tmp_path, types, rows, "size: ", id="text")
    ingest(tmp_path, tmp_path / "graph")
    assert keys(tmp_path / "graph", "place") == ["7", "seven"]


@pytest.mark.parametrize("keep", [0, 3, 100, -9])
def test_a_damaged_file_is_rejected(tmp_path: Path, keep: int) -> None:
    write(tmp_path, TYPES, PLACES, "size: {missing: 0}")
    whole = (tmp_path / "places.avro").read_bytes()
    (tmp_path / "places.avro").write_bytes(whole[:keep])
    with pytest.raises(InvalidInputError, match=r"nodes 'place': places.avro cannot be read"):
        ingest(tmp_path, tmp_path / "graph")
    assert not (tmp_path / "graph/metadata.json").exists()


def test_without_fastavro_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(tmp_path, TYPES, PLACES, "size: ")
    monkeypatch.setitem(sys.modules, "fastavro", None)
    with pytest.raises(UsageError, match=r"Avro file, needs fastavro.*pip install 'partition-ops\[avro\]'"):
        ingest(tmp_path, tmp_path / "graph")
