"""`GraphWriter`: write a graph in the chunked format from blocks of rows, with bounded memory.

Files have the same bytes however the rows were divided into blocks. ``metadata.json`` is written last.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from partition_ops.chunked.metadata import METADATA, NEGATIVES, parse_metadata
from partition_ops.chunked.names import EdgeType
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Artifact, Store
from partition_ops.storage.store import NewObject

ROW_GROUP = 1 << 20  # most rows of a row group
GROUP_BYTES = 64 << 20  # of a row group, so that long texts do not need much memory
UNIT = 1 << 12  # rows that are counted at a time
EDGE_CHUNK = 1 << 22  # edges in a file: 64 MiB of IDs
NODE_CHUNK = 1 << 22  # most nodes in a file
CHUNK_BYTES = 128 << 20  # of the widest feature
HEADER = 128  # bytes of the header of a .npy file, whatever its shape
SRC, DST = "src", "dst"
ORIG_ID = "orig_id"


def rows_of_chunk(row_bytes: int) -> int:
    """Return how many nodes or edges go into a file: a power of two, fewer if their features are wide."""
    rows = NODE_CHUNK
    while rows > 1024 and rows * row_bytes > CHUNK_BYTES:
        rows //= 2
    return rows


@dataclass
class ChunkFiles(ABC):
    """One column in files with the same number of rows each, except the last one."""

    store: Store  # root of the graph
    prefix: str  # key of the files without ``-<number>.<suffix>``
    chunk_rows: int  # rows of a file
    wrote: Callable[[Artifact], object]  # called with every finished file
    keys: list[str] = field(default_factory=list)  # the files so far
    rows: int = 0  # rows so far
    _new: NewObject | None = None
    _context: AbstractContextManager[object] | None = None
    suffix = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is None:
            if not self.keys and self._new is None:
                self._open()  # a type without rows has one file without rows
            self._close()
        elif self._context is not None:
            self._context.__exit__(kind, error, trace)

    def append(self, block: Any) -> None:
        """Append rows; they may go over several files."""
        begin = 0
        while begin < len(block):
            if self._new is None:
                self._open()
            room = self.chunk_rows - self.rows % self.chunk_rows
            part = block[begin : begin + room]
            self._append(part)
            begin += len(part)
            self.rows += len(part)
            if self.rows % self.chunk_rows == 0:
                self._close()

    def _open(self) -> None:
        key = f"{self.prefix}-{len(self.keys)}.{self.suffix}"
        with ExitStack() as stack:
            new = stack.enter_context(self.store.create(key))
            self._begin(new)
            self._new, self._context = new, stack.pop_all()
        self.keys.append(key)

    def _close(self) -> None:
        new, context = self._new, self._context
        if new is None or context is None:
            return
        self._new, self._context = None, None
        with ExitStack() as stack:
            stack.push(context)  # it explains errors, and removes the file after one
            self._end()
        self.wrote(new.get_artifact())

    @abstractmethod
    def _begin(self, new: NewObject) -> None: ...

    @abstractmethod
    def _append(self, part: Any) -> None: ...

    @abstractmethod
    def _end(self) -> None: ...


@dataclass
class NpyFiles(ChunkFiles):
    """A feature as ``.npy`` files; blocks are arrays of one dtype and shape of a row."""

    suffix = "npy"
    _like: npt.NDArray[Any] = field(default_factory=lambda: np.zeros((0,), np.float32))

    def append(self, block: npt.NDArray[Any]) -> None:
        if self.rows and block.shape[1:] != self._like.shape[1:]:
            raise InvalidInputError(
                f"{self.prefix}: the rows are not rows of one matrix",
                found=f"rows of {self._like.shape[1:]} and of {block.shape[1:]} numbers",
                expected="the same number of numbers in every row",
                remedy="Correct the table, or leave the column out of the features.",
            )
        self._like = block[:0]  # dtype and shape of a feature without rows
        super().append(block)

    def _begin(self, new: NewObject) -> None:
        self._stream = new.path.open("wb")
        self._stream.write(bytes(HEADER))
        self._count = 0

    def _append(self, part: npt.NDArray[Any]) -> None:
        self._stream.write(np.ascontiguousarray(part).data)
        self._count += len(part)

    def _end(self) -> None:
        self._stream.seek(0)
        self._stream.write(npy_header(self._like.dtype, (self._count, *self._like.shape[1:])))
        self._stream.close()


def npy_header(dtype: npt.DTypeLike, shape: tuple[int, ...]) -> bytes:
    """Return the header of a ``.npy`` file: `HEADER` bytes, whatever the number of rows."""
    descr = np.lib.format.dtype_to_descr(np.dtype(dtype))
    text = f"{{'descr': {descr!r}, 'fortran_order': False, 'shape': {shape!r}, }}".encode()
    return b"\x93NUMPY\x01\x00" + (HEADER - 10).to_bytes(2, "little") + text.ljust(HEADER - 11) + b"\n"


@dataclass
class ParquetFiles(ChunkFiles):
    """Columns of a table as Parquet files; blocks are tables of one schema."""

    suffix = "parquet"
    schema: pa.Schema | None = None

    def _begin(self, new: NewObject) -> None:
        if self.schema is None:
            raise ValueError(f"{self.prefix}: the schema must be set before the first row")
        self._writer = pq.ParquetWriter(
            new.path, self.schema, compression="zstd", compression_level=1, use_dictionary=False
        )
        self._waiting: list[pa.Table] = []
        self._count = self._bytes = 0

    def _append(self, part: pa.Table) -> None:
        """Take rows up to the next multiple of `UNIT` at a time, so that groups do not depend on blocks."""
        begin = 0
        while begin < len(part):
            unit = part.slice(begin, UNIT - self._count % UNIT)
            self._waiting.append(unit)
            self._count += len(unit)
            self._bytes += _bytes_of(unit)
            begin += len(unit)
            if self._count >= ROW_GROUP or (self._bytes >= GROUP_BYTES and self._count % UNIT == 0):
                self._write_group()

    def _write_group(self) -> None:
        if self._waiting:
            self._writer.write_table(pa.concat_tables(self._waiting), row_group_size=ROW_GROUP)
        self._waiting, self._count, self._bytes = [], 0, 0

    def _end(self) -> None:
        self._write_group()
        self._writer.close()


@dataclass
class GraphWriter:
    """Writes the files of a graph and collects its ``metadata.json``."""

    store: Store  # root of the graph
    graph_name: str  # name of the graph
    wrote: Callable[[Artifact], object]  # called with every finished file
    _nodes: dict[str, list[int]] = field(default_factory=dict)
    _edges: dict[str, list[int]] = field(default_factory=dict)
    _edge_files: dict[str, list[str]] = field(default_factory=dict)
    _features: dict[str, dict[str, dict[str, Any]]] = field(
        default_factory=lambda: {"node_data": {}, "edge_data": {}}
    )
    _more: dict[str, Any] = field(default_factory=dict)

    def add_nodes(self, node_type: str, count: int, chunk_rows: int = NODE_CHUNK) -> None:
        """Add a node type with ``count`` nodes; its features have files of ``chunk_rows`` rows."""
        self._nodes[node_type] = _chunks(count, chunk_rows)

    def edge_file(self, edge_type: EdgeType) -> ParquetFiles:
        """Return a context that takes the edges of a type as tables with the int64 columns `SRC`, `DST`."""
        schema = pa.schema([(SRC, pa.int64()), (DST, pa.int64())])
        return ParquetFiles(self.store, f"edges/{edge_type}", EDGE_CHUNK, self.wrote, schema=schema)

    def add_edges(self, edge_type: EdgeType, files: ChunkFiles) -> None:
        """Add an edge type whose files are closed."""
        self._edges[str(edge_type)] = _chunks(files.rows, EDGE_CHUNK)
        self._edge_files[str(edge_type)] = files.keys

    def feature_file(self, type_name: str, name: str, chunk_rows: int, *, edges: bool = False) -> NpyFiles:
        """Return a context that takes the rows of a feature as arrays."""
        folder = "edge_data" if edges else "node_data"
        return NpyFiles(self.store, f"{folder}/{type_name}/{name}", chunk_rows, self.wrote)

    def add_feature(self, type_name: str, name: str, files: ChunkFiles, *, edges: bool = False) -> None:
        """Add a feature whose files are closed."""
        features = self._features["edge_data" if edges else "node_data"].setdefault(type_name, {})
        features[name] = {"format": {"name": "numpy"}, "data": files.keys}

    def table_file(self, folder: str, name: str, schema: pa.Schema) -> ParquetFiles:
        """Return a context that takes other columns of a type: its keys or a text."""
        return ParquetFiles(self.store, f"{folder}/{name}", NODE_CHUNK, self.wrote, schema=schema)

    def add_column(
        self, section: str, type_name: str, files: ChunkFiles, column: str, **more: object
    ) -> None:
        """Name the files of keys under a section of the metadata, such as ``node_ids``."""
        self._more.setdefault(section, {})[type_name] = {"data": files.keys, "column": column, **more}

    def write_keys(self, node_type: str, schema: pa.Schema, blocks: Iterable[pa.Table]) -> None:
        """Write the keys of a node type, the columns `ORIG_ID` and ``key``."""
        with self.table_file("node_ids", node_type, schema) as file:
            for block in blocks:
                file.append(block)
        self.add_column("node_ids", node_type, file, "key")

    def add_text(self, type_name: str, name: str, files: ChunkFiles) -> None:
        """Name the files of a text of nodes under ``node_text``."""
        texts = self._more.setdefault("node_text", {}).setdefault(type_name, {})
        texts[name] = {"data": files.keys, "column": name}

    def negatives_file(self, edge_type: EdgeType, masks: Sequence[str]) -> ParquetFiles:
        """Return a context that takes pairs that are no edges: `SRC`, `DST`, and masks as booleans."""
        schema = pa.schema([(SRC, pa.int64()), (DST, pa.int64()), *((name, pa.bool_()) for name in masks)])
        return ParquetFiles(self.store, f"{NEGATIVES}/{edge_type}", EDGE_CHUNK, self.wrote, schema=schema)

    def add_negatives(self, edge_type: EdgeType, files: ChunkFiles) -> None:
        """Name the files of the pairs that are no edges of a type."""
        files_of = {"format": {"name": "parquet"}, "data": files.keys}
        self._more.setdefault(NEGATIVES, {})[str(edge_type)] = files_of

    def finish(self, **more: Any) -> dict[str, Any]:
        """Write ``metadata.json``, with further keys, and return it.

        Raises:
            InvalidInputError: A name of a type or a feature cannot be stored.
        """
        document = {
            "graph_name": self.graph_name,
            "node_type": list(self._nodes),
            "num_nodes_per_chunk": list(self._nodes.values()),
            "num_nodes_per_type": [sum(chunks) for chunks in self._nodes.values()],
            "edge_type": list(self._edges),
            "num_edges_per_chunk": list(self._edges.values()),
            "num_edges_per_type": [sum(chunks) for chunks in self._edges.values()],
            "edges": {
                name: {"format": {"name": "parquet"}, "data": files}
                for name, files in self._edge_files.items()
            },
            **self._features,
            **self._more,
            **more,
        }
        parse_metadata(document, where=self.store.uri_of(METADATA))
        self.wrote(self.store.write_json(METADATA, document))
        return document


def _bytes_of(table: pa.Table) -> int:
    """Return the bytes of values; unlike ``nbytes`` they do not depend on how the table was sliced."""
    texts = [column for column in table.columns if pa.types.is_string(column.type)]
    lengths = [int(pc.sum(pc.binary_length(text)).as_py() or 0) for text in texts]
    return 8 * int(table.num_rows) * int(table.num_columns) + sum(lengths)


def _chunks(count: int, chunk_rows: int) -> list[int]:
    whole, rest = divmod(count, chunk_rows)
    return [chunk_rows] * whole + ([rest] if rest or not whole else [])


def blocks_of(batches: Iterator[pa.RecordBatch], rows: int) -> Iterator[pa.Table]:
    """Yield tables of exactly ``rows`` rows, except the last one, from batches of any size."""
    waiting: list[pa.Table] = []
    count = 0
    for batch in batches:
        waiting.append(pa.Table.from_batches([batch]))
        count += batch.num_rows
        while count >= rows:
            table = pa.concat_tables(waiting)
            yield table.slice(0, rows).combine_chunks()
            count -= rows
            waiting = [table.slice(rows)]
    if count:
        yield pa.concat_tables(waiting).combine_chunks()


def matrix_of(column: pa.Array | pa.ChunkedArray, where: str) -> npt.NDArray[Any]:
    """Return a column without nulls as an array: (rows,) of numbers, or (rows, width) of lists of numbers.

    Args:
        column: Numbers, booleans, or lists of one length, fixed or not.
        where: What the column is, for the message.

    Raises:
        InvalidInputError: The lists differ in length, have nulls, or the values are not numbers.
    """
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks() if column.num_chunks != 1 else column.chunk(0)
    kind, rows = column.type, len(column)
    if pa.types.is_fixed_size_list(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        inner = column.flatten()
        width = len(inner) // rows if rows else 0
        lengths = {width}
        if not pa.types.is_fixed_size_list(kind):
            lengths = set(np.unique(np.diff(column.offsets.to_numpy())).tolist())
        if len(lengths) > 1 or inner.null_count:
            raise InvalidInputError(
                f"{where}: the lists are not rows of one matrix",
                found="nulls in lists" if inner.null_count else f"lists of {sorted(lengths)[:5]} numbers",
                expected="lists of the same number of numbers",
                remedy="Correct the table, or leave the column out of the features.",
            )
        return matrix_of(inner, where).reshape(rows, width)
    if not (pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind)):
        raise InvalidInputError(
            f"{where}: the values are not numbers",
            found=str(kind),
            expected="numbers, booleans, or lists of them",
        )
    return np.asarray(column.to_numpy(zero_copy_only=False))
