"""`EdgeReader`, which reads edge chunks block by block and checks every ID."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv

from partition_ops.chunked.metadata import FileFormat, GraphMetadata
from partition_ops.chunked.table_files import (
    PARQUET_BATCH,
    PlainNumbers,
    column_numbers,
    csv_layout,
    csv_options,
    first_sentence,
    number_column,
    parquet_file,
    text_lines,
)
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store
from partition_ops.system.parallel import cores

Ids = npt.NDArray[np.int64]
COLUMNS = ["src", "dst"]
BLOCK_ROWS = 1 << 20


@dataclass(frozen=True)
class EdgeBlock:
    """Consecutive edges of a chunk."""

    edge_ids: Ids  # (n,) int64, ascending type-wise IDs of the edges
    src: Ids  # (n,) int64, type-wise IDs of the sources
    dst: Ids  # (n,) int64, type-wise IDs of the destinations


@dataclass(frozen=True)
class EdgeChunk:
    """An edge file: chunk ``index`` of the edge type ``edge_type_id``."""

    edge_type_id: int
    index: int
    key: str


class EdgeReader:
    """Reader for the edges of a graph.

    Several threads can read different chunks.

    Args:
        source: The graph's root.
        metadata: Metadata of the graph.
        dropped: By edge type ID, ascending type-wise IDs of edges to leave out.
        starts: Type-wise ID of the first edge of each chunk, if another reader has found them already.

    Peak memory: 16 MiB of CSV text or a million Parquet rows for each chunk that is being read.
    """

    def __init__(
        self,
        source: Store,
        metadata: GraphMetadata,
        dropped: Mapping[int, Ids] | None = None,
        *,
        starts: Sequence[int] | None = None,
    ) -> None:
        self._source = source
        self._metadata = metadata
        self._dropped = dropped or {}
        self._starts = starts

    def chunks(self) -> list[EdgeChunk]:
        """Return all chunks, in the order of the homogeneous IDs of their edges."""
        return [
            EdgeChunk(type_id, index, key)
            for type_id, data in enumerate(self._metadata.edges)
            for index, key in enumerate(data.files)
        ]

    def blocks(self, chunk: EdgeChunk) -> Iterator[EdgeBlock]:
        """Yield the edges of a chunk, in their order.

        Raises:
            InvalidInputError: A row does not have two integers, an ID is out of range, or the number of rows
                differs from the metadata. The message has file, edge type, row and value.
        """
        first = self.chunk_starts[chunk]
        row = 0
        for src, dst in self._pairs(chunk):
            self._check_range(chunk, row, src, dst)
            yield self._kept(chunk, EdgeBlock(np.arange(first + row, first + row + len(src)), src, dst))
            row += len(src)
        self._check_count(chunk, row)

    def batches(self, chunk: EdgeChunk, *, rows: int = BLOCK_ROWS) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a chunk as two integer columns, without a check of their values.

        Args:
            chunk: Which chunk.
            rows: About how many rows to yield at a time.

        Raises:
            InvalidInputError: The file cannot be read, or a row does not have two integers.
        """
        data = self._metadata.edges[chunk.edge_type_id]
        if data.format.name == "parquet":
            path = self._source.local_copy(chunk.key)
            # if there are files for all cores, more threads would only cost time
            found = _decoded(path, self.where(chunk), rows, threads=len(self.chunks()) < cores())
        else:
            found = self._csv_batches(chunk, rows)
        return map(_reversed, found) if data.is_reversed(chunk.index) else found

    def _csv_batches(self, chunk: EdgeChunk, rows: int) -> Iterator[pa.RecordBatch]:
        """Yield rows of plain digits by our parser, and from the first other one by pyarrow's."""
        from partition_ops.chunked.plain_edges import PlainRows  # brings numba

        file_format, where = self._metadata.edges[chunk.edge_type_id].format, self.where(chunk)
        path = self._source.local_copy(chunk.key)
        columns, header = _edge_layout(path, file_format, where)
        if columns == 0:
            return
        # saves 13 % of a job's processor time at scale 0.3, see docs/decisions/tricks.md
        plain = PlainRows(path, file_format, header=header, rows=rows)
        for pair in plain:
            yield pa.RecordBatch.from_arrays([number_column(ids) for ids in pair], COLUMNS)
        if plain.complete:
            return
        skipped = plain.done
        for batch in _arrow_batches(path, file_format, header, where):
            if skipped < batch.num_rows:
                yield batch.slice(skipped)
            skipped = max(skipped - batch.num_rows, 0)

    @cached_property
    def chunk_starts(self) -> dict[EdgeChunk, int]:
        """Type-wise ID of the first edge of each chunk.

        If the metadata has no counts by chunk, this reads and counts the chunks.
        """
        if self._starts is not None:
            return dict(zip(self.chunks(), self._starts, strict=True))
        starts: dict[EdgeChunk, int] = {}
        for type_id, data in enumerate(self._metadata.edges):
            counts = self._metadata.num_edges_per_chunk[type_id]
            start = 0
            for index, key in enumerate(data.files):
                chunk = EdgeChunk(type_id, index, key)
                starts[chunk] = start
                if counts is not None:
                    start += counts[index]
                elif index + 1 < len(data.files):
                    start += sum(batch.num_rows for batch in self.batches(chunk))
        return starts

    def where(self, chunk: EdgeChunk) -> str:
        """Return file, edge type and number of a chunk, for messages."""
        edge_type = self._metadata.edge_types[chunk.edge_type_id]
        return f"{self._source.uri_of(chunk.key)} (edge type {str(edge_type)!r}, chunk {chunk.index})"

    def _pairs(self, chunk: EdgeChunk) -> Iterator[tuple[Ids, Ids]]:
        start = 0
        for batch in self.batches(chunk):
            where = self.where(chunk)
            yield _ids(batch.column(0), start, where), _ids(batch.column(1), start, where)
            start += batch.num_rows

    def _kept(self, chunk: EdgeChunk, block: EdgeBlock) -> EdgeBlock:
        dropped = self._dropped.get(chunk.edge_type_id)
        if dropped is None or len(block.edge_ids) == 0:
            return block
        first, last = block.edge_ids[[0, -1]]
        here = dropped[np.searchsorted(dropped, first) : np.searchsorted(dropped, last, side="right")]
        keep = np.ones(len(block.edge_ids), np.bool_)
        keep[here - first] = False
        return EdgeBlock(block.edge_ids[keep], block.src[keep], block.dst[keep])

    def _check_range(self, chunk: EdgeChunk, start: int, src: Ids, dst: Ids) -> None:
        edge_type = self._metadata.edge_types[chunk.edge_type_id]
        for role, node_type, ids in (
            ("source", edge_type.src, src),
            ("destination", edge_type.dst, dst),
        ):
            count = self._metadata.num_nodes[self._metadata.node_type_id(node_type)]
            if len(ids) == 0 or (ids.min() >= 0 and ids.max() < count):
                continue
            row = int(np.flatnonzero((ids < 0) | (ids >= count))[0])
            raise InvalidInputError(
                f"{self.where(chunk)}: the {role} ID of row {start + row} is outside the range of node"
                f" type {node_type!r}",
                found=f"{int(ids[row])} in the edge {int(src[row])} -> {int(dst[row])}",
                expected=f"an ID from 0 to {count - 1}" if count else "no edges: the type has no nodes",
                remedy="IDs are type-wise and start at 0. Correct the file or the counts in metadata.json.",
            )

    def _check_count(self, chunk: EdgeChunk, rows: int) -> None:
        counts = self._metadata.num_edges_per_chunk[chunk.edge_type_id]
        if counts is not None and counts[chunk.index] != rows:
            raise InvalidInputError(
                f"{self.where(chunk)}: the number of edges differs from metadata.json",
                found=f"{rows} rows",
                expected=f"{counts[chunk.index]} (num_edges_per_chunk)",
            )


def _edge_layout(path: Path, file_format: FileFormat, where: str) -> tuple[int, bool]:
    """Return the number of columns of a CSV file, 0 or 2, and whether it has a header."""
    columns, header = csv_layout(path, file_format, where)
    if columns not in (0, 2):
        raise InvalidInputError(
            f"{where}: wrong number of columns in the first line",
            found=f"{columns} with the delimiter {file_format.delimiter!r}",
            expected="2: source and destination",
            remedy="Correct the file, or the delimiter in metadata.json.",
        )
    return columns, header


def _arrow_batches(path: Path, file_format: FileFormat, header: bool, where: str) -> Iterator[pa.RecordBatch]:
    read, parse = csv_options(file_format, COLUMNS, header)
    # only an empty field is a null, so that words such as 'null' are errors
    convert = pa_csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, pa.int64()), null_values=[""])
    try:
        with (
            PlainNumbers(path, header) as file,
            pa_csv.open_csv(file, read_options=read, parse_options=parse, convert_options=convert) as reader,
        ):
            yield from reader
    except pa.ArrowInvalid as error:
        if "Empty CSV" in str(error):  # a header without rows
            return
        raise _bad_csv_row(path, file_format, header, where, error) from error


def _decoded(path: Path, where: str, rows: int, *, threads: bool) -> Iterator[pa.RecordBatch]:
    with parquet_file(path, where) as file:
        schema = file.schema_arrow
        if len(schema) != 2 or not all(pa.types.is_integer(field.type) for field in schema):
            raise InvalidInputError(
                f"{where}: these are not the columns of edges",
                found=", ".join(f"{field.name}: {field.type}" for field in schema) or "no columns",
                expected="two integer columns, source and destination",
            )
        for batch in file.iter_batches(batch_size=PARQUET_BATCH, use_threads=threads):
            for begin in range(0, batch.num_rows, rows):
                yield batch.slice(begin, rows)


def _reversed(batch: pa.RecordBatch) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([batch.column(1), batch.column(0)], batch.schema.names)


def _ids(column: pa.Array, start: int, where: str) -> Ids:
    if column.null_count:
        row = start + int(np.flatnonzero(column.is_null().to_numpy(zero_copy_only=False))[0])
        raise InvalidInputError(
            f"{where}: an ID is missing in row {row}", found="null", expected="an integer"
        )
    try:
        ids: Ids = column_numbers(column.cast(pa.int64()))
    except pa.ArrowInvalid as error:
        raise InvalidInputError(
            f"{where}: an ID in row {start} or later exceeds 64 bits: {first_sentence(error)}"
        ) from error
    return ids


def _bad_csv_row(
    path: Path, file_format: FileFormat, header: bool, where: str, error: BaseException
) -> InvalidInputError:
    """Find the line that pyarrow could not convert, and return an error that names it."""
    lines = csv.reader(text_lines(path), delimiter=file_format.delimiter)
    row = -1 - int(header)
    try:
        for fields in lines:
            if not fields:
                continue
            row += 1
            if row >= 0 and not _is_edge(fields):
                return InvalidInputError(
                    f"{where}: row {row} (line {lines.line_num}) is not an edge",
                    found=repr(file_format.delimiter.join(fields)[:100]),
                    expected=f"two integers with {file_format.delimiter!r} between them",
                )
    except csv.Error as fault:
        return InvalidInputError(f"{where} cannot be read as CSV", found=f"line {lines.line_num}: {fault}")
    return InvalidInputError(f"{where} cannot be read as CSV: {first_sentence(error)}")


def _is_edge(fields: list[str]) -> bool:
    try:
        return len(fields) == 2 and all(-(2**63) <= int(field) < 2**63 for field in fields)
    except ValueError:
        return False
