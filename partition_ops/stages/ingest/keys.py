"""Keys of nodes: `key_of` a row, the columns with keys (`Ends`), and the keys with their IDs (`Numbered`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import ORIG_ID
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.graph_types import GraphFile
from partition_ops.stages.ingest.tables import ParquetTable

KEY = "key"
JOINED_ROW = 64  # bytes of a row of a hash table, without its key
NO_IDS = np.zeros(0, np.int64)
Ids = npt.NDArray[np.int64]
SEPARATOR, ESCAPES = "|", (("%", "%25"), ("|", "%7C"))


@dataclass(frozen=True)
class Ends:
    """Columns of a table with keys of a node type."""

    source: ParquetTable
    table: ibis.Table
    columns: tuple[str, ...]
    about: str
    adds: bool = False

    def keys(self, as_text: bool) -> ibis.Table:
        """Return the column ``key``, without nulls."""
        keys = self.table.select(key=key_of(self.table, self.columns, as_text))
        return keys.filter(keys.key.notnull())


@dataclass(frozen=True)
class Numbered:
    """The numbered nodes of a type."""

    keys: Path  # Parquet file with the columns ``orig_id`` and ``key``
    table: ibis.Table  # the same, for expressions
    as_text: bool  # whether keys are text; otherwise they are int64
    count: int  # number of nodes
    old: int  # how many of them are of the previous graph
    unique: bool  # whether no key is twice in the table
    isolated: Ids  # IDs of nodes that are gone and stay without edges, ascending
    left_out: Ids  # previous IDs of nodes that are gone and have no ID any more, ascending
    gone: ibis.Table | None  # keys of both; None if there are none

    @property
    def joined_bytes(self) -> int:
        """About how many bytes of memory the keys take in a join."""
        meta = pq.read_metadata(self.keys)
        groups = (meta.row_group(index) for index in range(meta.num_row_groups))
        keys = sum(int(group.column(1).total_uncompressed_size) for group in groups)
        return self.count * JOINED_ROW + keys


def key_of(table: ibis.Table, columns: Sequence[str], as_text: bool) -> Any:
    """Return the key of a row: int64 or text; several columns are joined by ``|``.

    In joined columns ``%`` and ``|`` are written as ``%25`` and ``%7C``.
    """
    if len(columns) == 1:
        return table[columns[0]].cast("string" if as_text else "int64")
    parts = []
    for name in columns:
        part = table[name].cast("string")
        for plain, escaped in ESCAPES:
            part = part.replace(plain, escaped)
        parts.append(part)
    joined = parts[0]
    for part in parts[1:]:
        joined = joined + SEPARATOR + part
    return joined


def joined_keys(columns: Sequence[pa.Array]) -> pa.Array:
    """Return the keys of rows as `key_of` does: whole numbers stay int64, all else becomes text."""
    if len(columns) == 1 and pa.types.is_integer(columns[0].type):
        return columns[0].cast(pa.int64())
    texts = [column.cast(pa.string()) for column in columns]
    for plain, escaped in ESCAPES if len(texts) > 1 else ():
        texts = [pc.replace_substring(text, plain, escaped) for text in texts]
    return pc.binary_join_element_wise(*texts, SEPARATOR) if len(texts) > 1 else texts[0]


def keys_are_text(ends: Sequence[Ends]) -> bool:
    """Return whether the keys of a node type are compared as text: if any table has them as text.

    Raises:
        InvalidInputError: A column of keys has a type that is no key.
    """
    as_text = False
    for end in ends:
        for column in end.columns:
            kind = end.source.schema.field(column).type
            text = pa.types.is_string(kind) or pa.types.is_date32(kind) or pa.types.is_boolean(kind)
            if not text and (not pa.types.is_integer(kind) or pa.types.is_uint64(kind)):
                raise InvalidInputError(
                    f"{end.about}: the column {column!r} of {end.source.name} cannot be a key",
                    found=str(kind),
                    expected="whole numbers with a sign, or text",
                    remedy=f"Set its type in graph.yaml: types: {{{column}: int64}} or {{{column}: text}}.",
                )
            as_text |= text or len(end.columns) > 1
    return as_text


def ends_of(
    graph: GraphFile, sources: Mapping[str, ParquetTable], tables: Mapping[str, ibis.Table]
) -> dict[str, list[Ends]]:
    """Return, by node type, the columns of all edge tables that name its keys."""
    found: dict[str, list[Ends]] = {node.name: [] for node in graph.nodes}
    for edge in graph.pairs:
        adds, source, table = edge.actions["absent_keys"] == "add", sources[edge.name], tables[edge.name]
        for node_type, columns in edge.ends:
            found[node_type].append(Ends(source, table, columns, edge.about, adds))
    return found


def key_schema(as_text: bool) -> pa.Schema:
    """Return the columns of a file of keys."""
    return pa.schema([(ORIG_ID, pa.int64()), (KEY, pa.string() if as_text else pa.int64())])
