"""Avro files, in the format of containers, which have their schema."""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

import pyarrow as pa

from partition_ops.stages.ingest.table_source import ROWS, FoundFile, TableSource, array_of
from partition_ops.system.extras import check_installed

PLAIN = {
    "null": pa.null(),
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    **dict.fromkeys(("string", "enum"), pa.string()),
    **dict.fromkeys(("bytes", "fixed"), pa.binary()),
}
LOGICAL = {
    "date": pa.date32(),
    "timestamp-millis": pa.timestamp("ms", "UTC"),
    "timestamp-micros": pa.timestamp("us", "UTC"),
    "local-timestamp-millis": pa.timestamp("ms"),
    "local-timestamp-micros": pa.timestamp("us"),
}


class AvroSource(TableSource):
    name, title, suffixes = "avro", "Avro (`pip install 'partition-ops[avro]'`)", (".avro",)
    errors = (ValueError, EOFError, IndexError, zlib.error)  # fastavro's

    def columns(self, file: FoundFile) -> list[str]:
        with self._opened(file) as reader:
            return [field["name"] for field in reader.writer_schema["fields"]]

    def read(self, file: FoundFile, columns: Sequence[str]) -> Path:
        with self._opened(file) as reader:
            kinds = {field["name"]: field["type"] for field in reader.writer_schema["fields"]}
            for name in columns:
                several = _alternatives(kinds[name])
                if len(several) > 1 and self.types.get(name) != "text":
                    raise self.mixed_types(name, [(str(_type(one, {})), file.name) for one in several])
            names: dict[str, pa.DataType] = {}
            types = {name: _type(kind, names) for name, kind in kinds.items()}
            schema = pa.schema([(name, types[name]) for name in columns])
            return self.write_parquet(schema, _batches(reader, schema), columns)

    @contextmanager
    def _opened(self, file: FoundFile) -> Iterator[Any]:
        check_installed(f"{self.about}{file.name}, an Avro file,", "fastavro")
        import fastavro

        with file.path.open("rb") as stream:
            yield fastavro.reader(stream)


def _alternatives(kind: Any) -> list[Any]:
    """Return the types that a value can have, without null."""
    return [one for one in kind if one != "null"] if isinstance(kind, list) else [kind]


def _type(kind: Any, names: dict[str, pa.DataType]) -> pa.DataType:
    """Return a type of Avro in Arrow's words; several alternatives are text.

    Args:
        kind: The type, as in the schema of a file.
        names: The named types so far, to which those in ``kind`` are added.
    """
    if isinstance(kind, list):
        several = _alternatives(kind)
        return pa.null() if not several else pa.string() if several[1:] else _type(several[0], names)
    if isinstance(kind, str):
        return PLAIN.get(kind) or names.get(kind.rpartition(".")[2], pa.null())
    if kind.get("logicalType") == "decimal":
        found = pa.decimal128(kind["precision"], kind.get("scale", 0))
    elif kind["type"] == "array":
        found = pa.list_(_type(kind["items"], names))
    elif kind["type"] == "map":
        found = pa.map_(pa.string(), _type(kind["values"], names))
    elif kind["type"] == "record":
        found = pa.struct([(field["name"], _type(field["type"], names)) for field in kind["fields"]])
    else:
        found = LOGICAL.get(kind.get("logicalType", "")) or _type(kind["type"], names)
    if "name" in kind:
        names[kind["name"].rpartition(".")[2]] = found
    return found


def _batches(reader: Any, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    while rows := list(islice(reader, ROWS)):
        columns = [array_of([row[field.name] for row in rows], field.type) for field in schema]
        yield pa.RecordBatch.from_arrays(columns, schema=schema)


SOURCE = AvroSource
