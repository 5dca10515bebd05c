"""Edges and features of the input graph, read with code of our own.

``convert`` reads with `partition_ops.chunked.edges` and `partition_ops.chunked.feature_reader`: a mistake
there must not hide itself here.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pa_parquet

from partition_ops.chunked.metadata import FileFormat, FileSet, GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

Ids = npt.NDArray[np.integer[Any]]
CHANGED = (
    "Use the input that the output was made from. To find out what is wrong, run 'partition-ops validate'."
)


def read_edges(source: Store, metadata: GraphMetadata, edge_type_id: int) -> tuple[Ids, Ids]:
    """Read all edges of one type.

    Returns:
        Sources and destinations, type-wise: two arrays of shape (edges,), int32 if the IDs fit, otherwise
        int64. Peak memory: twice that, and one chunk.

    Raises:
        InvalidInputError: A file cannot be read, the number of edges differs from the metadata, or an ID is
            out of range.
    """
    edge_type, data = metadata.edge_types[edge_type_id], metadata.edges[edge_type_id]
    counts = [metadata.num_nodes[metadata.node_type_id(name)] for name in (edge_type.src, edge_type.dst)]
    dtypes = [id_dtype(count) for count in counts]
    ends: tuple[list[Ids], list[Ids]] = ([], [])
    for index, key in enumerate(data.files):
        columns = _edge_columns(source.local_copy(key), data.format, source.uri_of(key))
        if data.forward is not None and index >= data.forward:  # reverse edges
            columns = columns[::-1]
        for chunks, column, count, dtype in zip(ends, columns, counts, dtypes, strict=True):
            chunks.append(_in_range(column, count, source.uri_of(key)).astype(dtype))
    empty = [np.empty(0, dtype) for dtype in dtypes]
    src, dst = (np.concatenate([first, *chunks]) for first, chunks in zip(empty, ends, strict=True))
    if not len(src) == len(dst) == metadata.num_edges[edge_type_id]:
        raise InvalidInputError(
            f"{source.uri}: edge type {str(edge_type)!r} has another number of edges than metadata.json says",
            found=len(src),
            expected=metadata.num_edges[edge_type_id],
            remedy=CHANGED,
        )
    return src, dst


def _edge_columns(path: Path, file_format: FileFormat, where: str) -> list[Ids]:
    """Read the two columns of a file."""
    problem, expected = f"{where} cannot be read as edges", "two columns of integers"
    try:
        columns = _table(path, file_format, pa.int64()).columns
        sound = len(columns) == 2 and all(pa.types.is_integer(c.type) and not c.null_count for c in columns)
        arrays = [column.to_numpy() for column in columns]
    except (pa.ArrowException, OSError, ValueError) as error:
        found = str(error).partition("\n")[0]
        raise InvalidInputError(problem, found=found, expected=expected, remedy=CHANGED) from error
    if not sound:
        found = ", ".join(f"{column.type} with {column.null_count} missing" for column in columns)
        raise InvalidInputError(problem, found=found, expected=expected, remedy=CHANGED)
    return arrays


def _in_range(ids: Ids, count: int, where: str) -> Ids:
    wrong = np.flatnonzero((ids < 0) | (ids >= count))
    if len(wrong):
        row = int(wrong[0])
        raise InvalidInputError(
            f"{where}: row {row} has an ID outside its type's range",
            found=int(ids[row]),
            expected=f"0 to {count - 1}",
            remedy=CHANGED,
        )
    return ids


def id_dtype(count: int) -> npt.DTypeLike:
    """Return int32, or int64 if the IDs of ``count`` nodes or edges need it."""
    return np.int32 if count < 2**31 else np.int64


class FeatureTable:
    """The rows of one feature, by type-wise ID, on disk.

    NumPy files are mapped. Chunks of other formats are first written as NumPy files into a folder, one chunk
    in memory at a time, and mapped from there.

    Args:
        source: Root of the graph.
        data: The files of the feature.
        scratch: Folder for the NumPy files.

    Attributes:
        dtype: Dtype of the values; uint8 for booleans, because DGL has none.
        is_boolean: Whether the input has booleans.
        shape: Shape of one row; None if no file says what it should be, and then the dtype is unknown too.
    """

    def __init__(self, source: Store, data: FileSet, scratch: Path) -> None:
        self._chunks = [
            _mapped(source.local_copy(key), data.format, scratch / f"{index}.npy")
            for index, key in enumerate(data.files)
        ]
        # a CSV without lines says nothing about its columns
        telling = [chunk for chunk in self._chunks if len(chunk) or data.format.name != "csv"]
        dtype = np.result_type(*(chunk.dtype for chunk in telling)) if telling else np.dtype(np.float32)
        self.is_boolean = bool(dtype == np.bool_)
        self.dtype = np.dtype(np.uint8) if self.is_boolean else dtype.newbyteorder("=")
        self.shape = telling[0].shape[1:] if telling else None
        self._starts = np.cumsum([0, *(len(chunk) for chunk in self._chunks)])

    def __len__(self) -> int:
        return int(self._starts[-1])

    def take(self, ids: Ids) -> npt.NDArray[Any]:
        """Return the rows of some IDs, in their order, in native byte order."""
        rows = np.empty((len(ids), *(self.shape or ())), self.dtype)
        owner = np.searchsorted(self._starts, ids, side="right") - 1
        for index in np.unique(owner):
            mine = owner == index
            rows[mine] = self._chunks[index][ids[mine] - self._starts[index]]
        return rows


def _mapped(path: Path, file_format: FileFormat, copy: Path) -> npt.NDArray[Any]:
    if file_format.name == "numpy":
        return _load(path)
    copy.parent.mkdir(parents=True, exist_ok=True)
    np.save(copy, _matrix(_table(path, file_format, None)))
    return _load(copy)


def _load(path: Path) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = np.load(path, mmap_mode="r", allow_pickle=False)
    return values


def _matrix(table: pa.Table) -> npt.NDArray[Any]:
    """Return one column, (n,) or (n, width…) if it has fixed-size lists, or several as (n, columns)."""
    columns = [_values(column) for column in table.columns]
    if not columns:
        return np.empty(0)
    values = columns[0] if len(columns) == 1 else np.column_stack(columns)
    shape = (table.schema.metadata or {}).get(b"shape")  # DGL's writer flattens arrays and stores the shape
    if shape is None:
        return values
    return values.reshape([int(length) for length in shape.decode().strip("()[] ,").split(",")])


def _values(column: pa.ChunkedArray) -> npt.NDArray[Any]:
    array, shape = column.combine_chunks(), [len(column)]
    while pa.types.is_fixed_size_list(array.type):
        shape.append(array.type.list_size)
        array = array.flatten()
    values: npt.NDArray[Any] = array.to_numpy(zero_copy_only=False)
    return values.reshape(shape)


def _table(path: Path, file_format: FileFormat, kind: pa.DataType | None) -> pa.Table:
    """Read a whole file; ``kind`` is the type of all columns of a CSV, inferred if it is None."""
    if file_format.name == "parquet":
        return pa_parquet.ParquetFile(path).read()
    with path.open(encoding="utf-8-sig", errors="replace", newline=None) as text:
        first, more = text.readline().rstrip("\n"), any(line.strip() for line in text)
    fields = [field.strip().strip('"') for field in first.split(file_format.delimiter)] if first else []
    names = [str(index) for index in range(len(fields))]
    header = file_format.header if file_format.header is not None else not any(map(_is_value, fields))
    if not fields or (header and not more):
        return pa.table({name: pa.array([], kind or pa.float64()) for name in names or ("0", "1")})
    with path.open("rb") as stream:  # not by its name: pyarrow would decompress "edges.gz"
        return pa_csv.read_csv(
            stream,
            read_options=pa_csv.ReadOptions(
                column_names=names, skip_rows=int(header), block_size=max(1 << 20, 2 * len(first.encode()))
            ),
            parse_options=pa_csv.ParseOptions(delimiter=file_format.delimiter),
            convert_options=pa_csv.ConvertOptions(
                column_types=dict.fromkeys(names, kind) if kind else None, null_values=[""]
            ),
        )


def _is_value(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return text.lower() in ("true", "false")
    return True
