"""`FeatureReader`, which reads a feature by type-wise ID, and checks of the names and dtypes of features."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.feature_formats import (
    LONGEST_HEADER,
    RangedFile,
    Values,
    numpy_layout,
    parquet_blocks,
    parquet_layout,
    parquet_rows,
    read_csv,
    read_csv_head,
    read_numpy,
    read_parquet,
)
from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.chunked.table_files import LONGEST_LINE, PARQUET_BATCH
from partition_ops.errors import InvalidInputError, UsageError, some_of
from partition_ops.storage import Store
from partition_ops.system.memory import drop_pages

TAKE_BYTES = 1 << 20
DROP_BYTES, KEPT_BYTES = 64 << 20, 4 << 20
FEW_LINES = 64 << 10
KINDS = "biuf"  # dtypes of DGL's tensor files: booleans, integers and floating-point numbers
MOST_KEPT = 64  # mapped files of all features; each has a file handle, of which a process has 1,024
MOST_DIMENSIONS = 32  # of an array; NumPy 2 has more, but not all readers of the output
TRAINER = "trainer_id"


@dataclass(frozen=True)
class ChunkLayout:
    """Dtype, shape of a row and number of rows of a chunk."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows: int

    def __str__(self) -> str:
        return f"{self.dtype} rows of shape {self.shape}"


@dataclass(frozen=True)
class Layout:
    """Dtype, shape of a row and number of rows by chunk of a feature."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    rows_per_chunk: tuple[int, ...]


class FeatureReader:
    """Reader for the values of a feature, over all its chunks.

    NumPy chunks are memory-mapped, Parquet chunks are streamed, CSV chunks are read whole, one at a time.

    Args:
        source: The graph's root.
        feature: The feature.
        rows: Number of nodes or edges of its type.
        rows_per_chunk: The number by chunk, if the metadata has it.
        kept: Mapped chunks of all features that share it, by key of the feature and number.

    Raises:
        InvalidInputError: Any method raises it if a file cannot be read, if the number of rows differs from
            the number of nodes or edges, if dtype or shape differ between chunks, or if DGL does not support
            the dtype.
    """

    def __init__(
        self,
        source: Store,
        feature: Feature,
        rows: int,
        rows_per_chunk: tuple[int, ...] | None,
        kept: dict[tuple[str, int], _Rows] | None = None,
    ) -> None:
        self._source = source
        self._feature = feature
        self.rows = rows
        self.rows_per_chunk = rows_per_chunk
        self._kept = {} if kept is None else kept

    @cached_property
    def layout(self) -> Layout:
        """Dtype, shape of a row and rows by chunk; of NumPy and Parquet files, only headers are read."""
        layouts = [self._chunk_layout(index) for index in range(len(self._feature.data.files))]
        # the columns of an empty CSV are unknown
        known = [(i, chunk) for i, chunk in enumerate(layouts) if chunk.rows or not self._is_csv]
        for index, chunk in known:
            first = known[0][1]
            if chunk.shape != first.shape or (chunk.dtype != first.dtype and not self._is_csv):
                raise InvalidInputError(
                    f"{self.where(index)}: dtype or shape differ from those of chunk {known[0][0]}",
                    found=f"{chunk}",
                    expected=f"{first}",
                )
        counts = tuple(chunk.rows for chunk in layouts)
        self._check_counts(counts)
        if not known:
            return Layout(np.dtype(np.float32), (), counts)
        dtype = np.result_type(*(chunk.dtype for _, chunk in known))
        return Layout(dtype, known[0][1].shape, counts)

    @property
    def row_bytes(self) -> int:
        """Size of a row in the first chunk, in bytes; of a NumPy file, only the header is read."""
        if self._feature.data.format.name == "numpy":
            header = self.header()
            return 0 if header is None else _row_bytes(*header)
        first = self._chunk_layout(0)
        return _row_bytes(first.dtype, first.shape)

    def header(self) -> tuple[np.dtype[Any], tuple[int, ...]] | None:
        """Return dtype and shape of a row, from the first chunk that has rows; None if there are no rows.

        Only the header or footer of the file is downloaded. For a CSV file, the first lines are
        downloaded; the dtype of later lines may differ.
        """
        for index in range(len(self._feature.data.files) if self.rows else 0):
            dtype, shape, rows = self._chunk_header(index)
            if rows:
                return dtype, shape
        return None

    def _chunk_header(self, index: int) -> tuple[np.dtype[Any], tuple[int, ...], int]:
        """Return dtype, shape of a row and number of rows; of a CSV file, the number of rows in its head."""
        data, where = self._feature.data, self.where(index)
        key = data.files[index]
        found = self._source.stat(key)
        if found is not None and found.size == 0:  # S3 rejects range requests for empty objects
            return np.dtype(np.float64), (), 0
        if data.format.name == "numpy":
            return numpy_layout(self._source.read_range(key, 0, LONGEST_HEADER), where)
        if data.format.name == "parquet":
            with RangedFile(self._source, key) as file:
                return parquet_layout(file, where)
        head = self._source.read_range(key, 0, FEW_LINES)
        while b"\n" not in head and FEW_LINES <= len(head) < LONGEST_LINE:
            head = self._source.read_range(key, 0, 4 * len(head))
        values = read_csv_head(head, data.format, where)
        return values.dtype, values.shape[1:], len(values)

    def check_rows(self) -> None:
        """Compare the numbers of rows in headers and footers with the metadata; CSV files have none."""
        if not self._is_csv:
            chunks = range(len(self._feature.data.files))
            self._check_counts(tuple(self._chunk_header(index)[2] for index in chunks))

    def take(self, ids: npt.NDArray[np.int64]) -> Values:
        """Return the rows of some nodes or edges.

        Args:
            ids: (n,) int64, ascending type-wise IDs.

        Returns:
            (n, ...) array of the feature's dtype. Peak memory: the array, and that of `stream`.
        """
        rows = np.empty((len(ids), *self.layout.shape), self.layout.dtype)
        begin = 0
        for block in self.stream([ids]):
            rows[begin : begin + len(block)] = block
            begin += len(block)
        return rows

    def stream(self, ids: Iterable[npt.NDArray[np.int64]]) -> Iterator[Values]:
        """Yield the rows of some nodes or edges, block by block.

        Args:
            ids: Arrays of (n,) int64 type-wise IDs, ascending over all arrays.

        Yields:
            (m, ...) arrays of the feature's dtype, of about 1 MiB, in the order of the IDs.

        Peak memory: two such arrays, and a row group of a Parquet chunk or a whole CSV chunk.
        """
        ends = np.cumsum(self.layout.rows_per_chunk, dtype=np.int64)
        step = max(1, TAKE_BYTES // max(1, _row_bytes(self.layout.dtype, self.layout.shape)))
        current = -1
        rows: _Rows | _StreamedRows = _Rows(np.empty(0))
        try:
            for block in ids:
                begin = 0
                while begin < len(block):
                    index = int(np.searchsorted(ends, block[begin], side="right"))
                    if index != current:
                        rows.leave()
                        current, rows = index, self._open(index)
                    first = int(ends[index]) - self.layout.rows_per_chunk[index]
                    end = min(begin + step, int(np.searchsorted(block, ends[index])))
                    # the cast also converts the byte order
                    yield rows.take(block[begin:end] - first).astype(self.layout.dtype, copy=False)
                    begin = end
        finally:
            rows.leave()

    def chunk_blocks(self, index: int, nbytes: int) -> Iterator[Values]:
        """Yield the rows of a chunk in blocks of about ``nbytes`` bytes, without reading other chunks.

        Peak memory: a block, and a row group of a Parquet chunk or a whole CSV chunk.
        """
        if self._feature.data.format.name == "parquet":
            path, where = self._path(index), self.where(index)
            dtype, shape, rows = parquet_layout(path, where)
            self._check_dtype(index, dtype)
            if parquet_rows(path, where) == rows:
                step = max(1, nbytes // max(1, _row_bytes(dtype, shape)))
                for block in parquet_blocks(path, where, step):
                    yield block.reshape(len(block), *shape)
                return
        values = self.read_chunk(index)
        self._check_dtype(index, values.dtype)
        step = max(1, nbytes * len(values) // max(1, values.nbytes))
        for begin in range(0, len(values), step):
            yield values[begin : begin + step]

    def _open(self, index: int) -> _Rows | _StreamedRows:
        """Open a chunk to take ascending rows from it."""
        if self._feature.data.format.name == "parquet":
            path, where = self._path(index), self.where(index)
            if parquet_rows(path, where) == self.layout.rows_per_chunk[index]:
                step = max(1, TAKE_BYTES // max(1, int(np.prod(self.layout.shape)) * 8))
                return _StreamedRows(parquet_blocks(path, where, step), self.layout.shape)
        key = self._feature.key, index
        rows = self._kept.get(key)  # opening them for each of 64 partitions is a tenth of gathering
        if rows is None:
            rows = _Rows(self.read_chunk(index))
            if self._feature.data.format.name == "numpy" and len(self._kept) < MOST_KEPT:
                self._kept[key] = rows
        return rows

    def where(self, index: int) -> str:
        """Return file, feature and number of a chunk, for messages."""
        file = self._source.uri_of(self._feature.data.files[index])
        return f"{file} (feature {self._feature.name!r} of {self._feature.type_name!r}, chunk {index})"

    def _path(self, index: int) -> Path:
        return self._source.local_copy(self._feature.data.files[index])

    @property
    def _is_csv(self) -> bool:
        return self._feature.data.format.name == "csv"

    def _chunk_layout(self, index: int) -> ChunkLayout:
        if self._feature.data.format.name == "parquet":
            dtype, shape, rows = parquet_layout(self._path(index), self.where(index))
        else:
            values = self.read_chunk(index)
            dtype, shape, rows = values.dtype, values.shape[1:], len(values)
        self._check_dtype(index, dtype)
        return ChunkLayout(dtype.newbyteorder("="), shape, rows)

    def read_chunk(self, index: int) -> Values:
        """Return the values of a chunk, (rows, ...); NumPy files are memory-mapped."""
        path, file_format, where = self._path(index), self._feature.data.format, self.where(index)
        if file_format.name == "numpy":
            values = read_numpy(path, where)
        elif file_format.name == "parquet":
            values = read_parquet(path, where)
        else:
            values = read_csv(path, file_format, where)
        if values.ndim > MOST_DIMENSIONS:
            raise InvalidInputError(
                f"{where}: the array has too many dimensions",
                found=f"{values.ndim}",
                expected=f"at most {MOST_DIMENSIONS}, of which the first are the rows",
                remedy="Reshape the array.",
            )
        return values

    def excess_layout(self, index: int) -> ChunkLayout | None:
        """Return the layout of a Parquet chunk that claims far more rows than it may have, otherwise None.

        A small file may claim rows that do not fit into memory. Only the footer is read.
        """
        if self._feature.data.format.name != "parquet":
            return None
        path, where, per_chunk = self._path(index), self.where(index), self.rows_per_chunk
        expected = per_chunk[index] if per_chunk and index < len(per_chunk) else self.rows
        if parquet_rows(path, where) <= expected + PARQUET_BATCH:
            return None
        dtype, shape, rows = parquet_layout(path, where)
        return None if rows <= expected else ChunkLayout(dtype.newbyteorder("="), shape, rows)

    def _check_dtype(self, index: int, dtype: np.dtype[Any]) -> None:
        if not is_supported(dtype):
            raise InvalidInputError(
                f"{self.where(index)}: DGL does not support this dtype",
                found=str(dtype),
                expected="booleans, integers or floating-point numbers of at most 64 bits",
                remedy="Encode the values as numbers before partitioning.",
            )

    def _check_counts(self, counts: tuple[int, ...]) -> None:
        expected = self.rows_per_chunk
        if expected is not None and len(counts) == len(expected):
            for index, (found, rows) in enumerate(zip(counts, expected, strict=True)):
                if found != rows:
                    raise InvalidInputError(
                        f"{self.where(index)}: the number of rows differs from metadata.json",
                        found=f"{found} rows",
                        expected=f"{rows}",
                    )
        if sum(counts) != self.rows:
            raise InvalidInputError(
                f"Feature {self._feature.name!r} of {self._feature.type_name!r} has a wrong number of rows",
                found=f"{sum(counts)} rows in {len(counts)} files",
                expected=f"{self.rows}, as many as the type has nodes or edges",
            )


class _Rows:
    """A chunk in memory or memory-mapped; several threads may take rows."""

    def __init__(self, values: Values) -> None:
        self._values = values
        self._taken = 0

    def take(self, rows: npt.NDArray[np.int64]) -> Values:
        found: Values = np.take(self._values, rows, axis=0)
        self._taken += found.nbytes
        self._drop(DROP_BYTES)  # otherwise all pages of a mapped file would become resident
        return found

    def leave(self) -> None:
        """Drop the resident pages if more than `KEPT_BYTES` were taken."""
        self._drop(KEPT_BYTES)

    def _drop(self, most: int) -> None:
        if self._taken > most:
            drop_pages(self._values)
            self._taken = 0


class _StreamedRows:
    """A chunk that is streamed."""

    def __init__(self, blocks: Iterator[Values], shape: tuple[int, ...]) -> None:
        self._blocks = blocks
        self._shape = shape
        self._block: Values = np.empty((0, *shape))
        self._begin = 0

    def leave(self) -> None:
        pass

    def take(self, rows: npt.NDArray[np.int64]) -> Values:
        """Return some rows, which must follow all those taken before."""
        found = []
        while len(rows):
            end = self._begin + len(self._block)
            here = int(np.searchsorted(rows, end))
            if here:
                found.append(self._block[rows[:here] - self._begin])
                rows = rows[here:]
            else:
                self._begin, block = end, next(self._blocks)
                self._block = block.reshape(len(block), *self._shape)
        return np.concatenate(found)


def _row_bytes(dtype: np.dtype[Any], shape: tuple[int, ...]) -> int:
    return int(np.prod(shape, dtype=np.int64)) * dtype.itemsize


def is_supported(dtype: np.dtype[Any]) -> bool:
    """Return whether DGL's tensor files support a dtype."""
    return dtype.kind in KINDS and dtype.itemsize <= 8


def feature_readers(source: Store, metadata: GraphMetadata) -> dict[str, FeatureReader]:
    """Return a reader for each feature of nodes and edges, by its key (``type/name``)."""
    kinds = (
        (metadata.node_features, metadata.node_type_id, metadata.num_nodes, metadata.num_nodes_per_chunk),
        (metadata.edge_features, metadata.edge_type_id, metadata.num_edges, metadata.num_edges_per_chunk),
    )
    readers: dict[str, FeatureReader] = {}
    kept: dict[tuple[str, int], _Rows] = {}
    for features, id_of, counts, per_chunk in kinds:
        for feature in features:
            type_id = id_of(feature.type_name)
            sizes = counts[type_id], per_chunk[type_id]
            readers[feature.key] = FeatureReader(source, feature, *sizes, kept)
    return readers


def types_with_feature(metadata: GraphMetadata, name: str, purpose: str) -> list[str]:
    """Return the node types that have a feature, in the order of their IDs.

    Args:
        metadata: The graph's metadata.
        name: Name of the feature.
        purpose: Purpose of the feature, for the message: ``to balance by``.

    Raises:
        UsageError: No node type has it; the message lists the features of the graph.
    """
    having = {feature.type_name for feature in metadata.node_features if feature.name == name}
    if not having:
        known = [f"{feature.name!r} ({feature.type_name})" for feature in metadata.node_features]
        nothing = "no such option: no node type of this graph has features"
        raise UsageError(
            f"No node type has a feature {name!r} {purpose}",
            expected=f"one of {some_of(known, 20)}" if known else nothing,
        )
    return [node_type for node_type in metadata.node_types if node_type in having]


def check_no_trainers(metadata: GraphMetadata) -> None:
    """Check that no feature has the name that DGL reserves for the trainers of a machine.

    Raises:
        InvalidInputError: A feature has that name.
    """
    for feature in (*metadata.node_features, *metadata.edge_features):
        if feature.name == TRAINER:
            raise InvalidInputError(
                f"The graph has a feature {feature.key!r}, a name that DGL reserves for trainers",
                remedy="Rename the feature, or partition without --num-trainers-per-machine.",
            )
