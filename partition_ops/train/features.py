"""Features of an output: their names, scalar edge features as arrays by edge ID, and rows by ID.

Rows are read from mapped files, by system calls, or by range requests.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import IO, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt
from numba import types
from numpy.lib.stride_tricks import sliding_window_view

from partition_ops.chunked.id_converter import InvalidIdError, check_range
from partition_ops.errors import TransientStorageError, UsageError, one_of
from partition_ops.formats.columns import StoredArray
from partition_ops.system.compilation import compiled
from partition_ops.system.mapped_files import new_npy
from partition_ops.system.parallel import map_in_threads
from partition_ops.train.cache import BlockCache
from partition_ops.train.output_files import (
    MISSING,
    NPY_HEADER,
    IdKind,
    Ids,
    MappedFile,
    OutputFiles,
    ResidentLimit,
    map_npy,
)

Access = Literal["read", "mapped", "ranges"]
KERNEL_DTYPES = ("float32", "float64", "uint8", "int8")  # of probabilities in DGL's kernels
SMALL_BYTES = 1 << 20  # below this size, several threads are slower
Values = npt.NDArray[Any]
Bytes = npt.NDArray[np.uint8]

_pread: Any = types.ExternalFunction(
    "pread", types.intp(types.int32, types.voidptr, types.uintp, types.int64)
)


class Features:
    """The features of the nodes, or of the edges, of an output.

    Args:
        files: The output.
        kind: ``node`` or ``edge``. Nodes of every partition have their rows, because neighbours may be in any
            partition; edges have them in the open partitions.
        ids: Which IDs are asked for.
        num_ids: Number of IDs of each type.
        access: ``read``: rows are read by system calls; ``mapped``: from mapped files; both fetch whole files
            into the cache if they are on S3; ``ranges``: by range requests.
        resident: Limits the resident pages.
        blocks: The blocks of range requests.
    """

    def __init__(
        self,
        files: OutputFiles,
        kind: Literal["node", "edge"],
        ids: IdKind,
        num_ids: list[int],
        access: Access,
        resident: ResidentLimit,
        blocks: BlockCache,
    ) -> None:
        self._files = files
        self._kind = kind
        self._ids = ids
        self.num_ids = num_ids
        self._access = access
        self.resident = resident
        self._blocks = blocks
        self._ranges = files.book.nodes if kind == "node" else files.book.edges
        self._parts = tuple(range(files.book.num_partitions())) if kind == "node" else files.parts
        self._mapped: dict[str, MappedFile] = {}
        self._stored_arrays: dict[int, Mapping[str, StoredArray]] = {}

    def names(self, type_id: int) -> list[str]:
        """Return the names of the features of a type."""
        prefix = f"{self._type_name(type_id)}/"
        some = self._arrays(self._parts[0])
        return sorted(key.removeprefix(prefix) for key in some if key.startswith(prefix))

    def row(self, name: str, type_id: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Return the dtype and the shape of a row of a feature.

        Raises:
            UsageError: The type has no such feature.
        """
        key = f"{self._type_name(type_id)}/{name}"
        known = self.names(type_id)
        if name not in known:
            expected = one_of(known) if known else "none: the type has no features"
            raise UsageError(f"There is no {self._kind} feature {key!r}", expected=expected)
        some = self._arrays(self._parts[0])[key]
        return some.dtype, some.shape[1:]

    def rows(self, name: str, type_id: int) -> FeatureRows:
        """Return one feature of one type.

        Raises:
            UsageError: The type has no such feature.
        """
        dtype, shape = self.row(name, type_id)
        key = f"{self._type_name(type_id)}/{name}"
        parts = [self._part(part, key) for part in range(self._files.book.num_partitions())]
        return FeatureRows(dtype, shape, self.locator(type_id), parts)

    def locator(self, type_id: int) -> Locator:
        """Return what finds the partition and the row of the nodes or edges of a type."""
        vectors = None if self._ids == "new" else self._new_ids[type_id]
        what = f"The {self._ids} ID of {self._kind} type {self._type_name(type_id)!r}"
        return Locator(self._ranges.typed_ends[:, type_id], vectors, what)

    def scalars(self, name: str) -> list[Values | None]:
        """Return a scalar feature by type ID: (IDs,) array by ID, mapped; None for a type without it.

        All types get one dtype that DGL's sampling kernels take as probabilities. Other dtypes become float32
        or, if a type has float64, float64.

        Raises:
            UsageError: No type has the feature, or it is not a scalar.

        Disk: the values, in the cache. Peak memory while it is made: a few MiB, in addition to mapped files.
        """
        types = range(len(self.num_ids))
        have = [t for t in types if name in self.names(t)]
        if not have:
            raise UsageError(f"No {self._kind} type has the feature {name!r}", expected="a name in edge_data")
        dtypes = [self._scalar(name, t).dtype for t in have]
        if len(set(dtypes)) == 1 and dtypes[0].name in KERNEL_DTYPES:
            dtype = dtypes[0]
        else:
            dtype = np.dtype(np.float64 if np.dtype(np.float64) in dtypes else np.float32)

        def num_bytes() -> int:
            stored = [self._stored(part, name, t) for part in self._parts for t in have]
            size = sum(self.num_ids[t] * dtype.itemsize + NPY_HEADER for t in have)
            return size + self._files.scratch_bytes(stored)

        def make(folder: Path) -> None:
            for type_id in have:
                values = new_npy(folder / f"{type_id}.npy", (self.num_ids[type_id],), dtype)
                for part in self._parts:
                    with self._files.mapped(self._stored(part, name, type_id), folder) as found:
                        begin, end = self._ranges.bounds(part, type_id)
                        places = slice(begin, end) if self._ids == "new" else found["ids"]
                        values[places] = found["values"].reshape(-1)

        options = (self._kind, name, self._ids, self.num_ids)
        folder = self._files.make_once("column", self._parts, options, num_bytes, make)
        return [map_npy(folder / f"{t}.npy", self.resident) if t in have else None for t in types]

    def _type_name(self, type_id: int) -> str:
        return self._ranges.names.names[type_id]

    def _arrays(self, part: int) -> Mapping[str, StoredArray]:
        """Return the stored features of a partition by ``type/name``."""
        if part not in self._stored_arrays:
            self._stored_arrays[part] = self._files.arrays(part, f"{self._kind}_features")
        return self._stored_arrays[part]

    @cached_property
    def _new_ids(self) -> list[Ids]:
        """By type ID, (IDs,) int64 type-wise new IDs by original ID, -1 if there is none; mapped.

        Disk: 8 bytes an ID. Peak memory while they are made: a few MiB, in addition to mapped files.
        """
        stored = {part: self._files.arrays(part, f"{self._kind}_orig_ids") for part in self._parts}

        def num_bytes() -> int:
            return self._files.scratch_bytes(stored.values()) + sum(8 * n + NPY_HEADER for n in self.num_ids)

        def make(folder: Path) -> None:
            vectors = [new_npy(folder / f"{t}.npy", (n,), np.int64) for t, n in enumerate(self.num_ids)]
            for vector in vectors:
                vector[:] = MISSING
            for part, arrays in stored.items():
                with self._files.mapped(arrays, folder) as originals:
                    for type_id, vector in enumerate(vectors):
                        begin, end = self._ranges.bounds(part, type_id)
                        vector[originals[self._type_name(type_id)]] = np.arange(begin, end)

        options = (self._kind, self.num_ids)
        folder = self._files.make_once("new-ids", self._parts, options, num_bytes, make)
        return [map_npy(folder / f"{t}.npy", self.resident) for t in range(len(self.num_ids))]

    def _part(self, part: int, key: str) -> PartRows | None:
        if part not in self._parts:
            return None
        array = self._arrays(part)[key]
        if self._access == "mapped":
            return MappedRows(partial(self._map, array.key), array, self.resident)
        if self._access == "read":
            path = partial(self._files.keep_local, array.key)
            return FileRows(path, array, self._files.output.uri_of(array.key))
        return RangeRows(self._blocks, self._files.size(array.key), array)

    def _map(self, key: str) -> MappedFile:
        if key not in self._mapped:
            self._mapped[key] = self.resident.watch(MappedFile(self._files.keep_local(key)))
        return self._mapped[key]

    def _scalar(self, name: str, type_id: int) -> StoredArray:
        """Return a stored scalar feature in the first partition."""
        type_name = self._type_name(type_id)
        array = self._arrays(self._parts[0])[f"{type_name}/{name}"]
        if array.shape[1:] not in ((), (1,)):
            raise UsageError(
                f"The {self._kind} feature {name!r} of {type_name!r} cannot be a probability or a mask",
                found=f"rows of shape {array.shape[1:]}",
                expected=f"one number for each {self._kind}",
            )
        return array

    def _stored(self, part: int, name: str, type_id: int) -> dict[str, StoredArray]:
        """Return the values of a feature in a partition and, for original IDs, the IDs of their rows."""
        type_name = self._type_name(type_id)
        found = {"values": self._arrays(part)[f"{type_name}/{name}"]}
        if self._ids == "original":
            found["ids"] = self._files.arrays(part, f"{self._kind}_orig_ids")[type_name]
        return found


@dataclass(frozen=True)
class Locator:
    """Finds the row of a node or an edge: the partition that owns it, and the position there."""

    ends: Ids  # (partitions,) int64, the type-wise new ID after the last one of each partition
    # (IDs,) int64, type-wise new IDs by ID, -1 if there is none; None if the IDs are new IDs
    new_ids: Ids | None
    what: str  # what the IDs are, for messages

    def find(self, ids: Ids) -> tuple[Ids, Ids]:
        """Return the partition of each ID and the row there, (n,) int64.

        Raises:
            InvalidIdError: There is no such node or edge.
        """
        check_range(ids, int(self.ends[-1]) if self.new_ids is None else len(self.new_ids), self.what)
        new = ids if self.new_ids is None else self.new_ids[ids]
        if new.size and new.min() < 0:
            wrong = int(ids[np.flatnonzero(new < 0)[0]])
            raise InvalidIdError(
                f"{self.what} {wrong} is not there: its partition is not open, or validation dropped it"
            )
        parts = np.searchsorted(self.ends, new, side="right").astype(np.int64)
        starts = np.concatenate([[0], self.ends[:-1]])
        return parts, new - starts[parts]


class PartRows(Protocol):
    """The rows of one feature in one partition."""

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows.

        Args:
            rows: (n,) int64, their positions in the partition.
            places: (n,) int64, the row of ``out`` that each goes to.
            out: (…, bytes of a row) uint8, written.
        """
        ...


@dataclass(frozen=True)
class FeatureRows:
    """A feature of a node type or edge type, by ID."""

    dtype: np.dtype[Any]  # dtype of the values
    shape: tuple[int, ...]  # shape of one row
    locator: Locator  # finds the row of an ID
    parts: Sequence[PartRows | None]  # the rows of each partition; None for a partition that is not open

    @property
    def row_bytes(self) -> int:
        """Bytes of one row."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.dtype.itemsize

    def take(self, ids: Ids) -> Values:
        """Return the rows of some IDs.

        Args:
            ids: (n,) int64, type-wise, new or original as the IDs of the graph; in any order, also repeated.

        Returns:
            (n, ...) array of the feature's dtype.

        Raises:
            InvalidIdError: There is no such ID, or its partition is not open.

        Peak memory: the result, and 48 bytes a row.
        """
        parts, rows = self.locator.find(ids)
        found = np.empty((len(ids), self.row_bytes), np.uint8)

        def read(part: int) -> None:
            places, stored = np.flatnonzero(parts == part), self.parts[part]
            if stored is None:
                raise InvalidIdError(f"{self.locator.what} is in partition {part}, which is not open")
            stored.read(rows[places], places, found)

        if found.size:
            present = np.flatnonzero(np.bincount(parts)).tolist()
            threads = found.size > SMALL_BYTES and len(present) > 1
            for _ in map_in_threads(read, present) if threads else map(read, present):
                pass
        return found.reshape(-1).view(self.dtype).reshape(len(ids), *self.shape)


@dataclass
class MappedRows:
    """Rows of an array in a mapped file."""

    file: Callable[[], MappedFile]  # returns the file; called when a row is first read
    array: StoredArray  # the array in it
    resident: ResidentLimit  # limits the resident pages
    _table: Bytes | None = None

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows; see `PartRows`."""
        if self._table is None:
            shape = (self.array.shape[0], self.array.row_bytes)
            self._table = self.file().array(self.array.offset, np.uint8, shape)
        if self.resident.limit is None:
            _copy_rows(self._table, rows, places, out)
            return
        order = np.argsort(rows)  # in the order of the file, rows share pages
        rows, places = rows[order], places[order]
        step = self.resident.scattered(self.array.row_bytes)
        for begin in range(0, len(rows), step):
            _copy_rows(self._table, rows[begin : begin + step], places[begin : begin + step], out)
            self.resident.check()


@dataclass
class FileRows:
    """Rows of an array in a file, read by system calls: no page of it stays in the process."""

    path: Callable[[], Path]  # returns the file; called when a row is first read
    array: StoredArray  # the array in it
    where: str  # its URI, for messages
    _file: IO[bytes] | None = None

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows; see `PartRows`."""
        if self._file is None:
            self._file = self.path().open("rb", buffering=0)
        file, array, order = self._file.fileno(), self.array, np.argsort(rows)
        failed = _read_rows(file, array.offset, array.row_bytes, rows[order], places[order], out)
        if failed:
            raise TransientStorageError(
                f"{self.where} cannot be read any more",
                found=f"{failed} of {len(rows)} rows missing",
                remedy="Open the graph again: the file has changed.",
            )


@dataclass
class RangeRows:
    """Rows of an array in a stored object, by range requests."""

    cache: BlockCache  # fetches blocks of objects and keeps them
    size: int  # bytes of the object
    array: StoredArray  # the array in it

    def read(self, rows: Ids, places: Ids, out: Bytes) -> None:
        """Read some rows; see `PartRows`."""
        width, block = self.array.row_bytes, self.cache.block_bytes
        different, inverse = np.unique(rows, return_inverse=True)
        starts = self.array.offset + different * width
        first, last = starts // block, (starts + width - 1) // block
        steps = range(int((last - first).max()) + 1)
        wanted = np.unique(np.concatenate([(first + step)[first + step <= last] for step in steps]))
        found = self.cache.read(self.array.key, self.size, wanted.tolist())
        # the blocks of a row follow each other here too
        joined = np.frombuffer(b"".join(found[number] for number in wanted.tolist()), np.uint8)
        begins = np.searchsorted(wanted, first) * block + starts % block
        out[places] = sliding_window_view(joined, width)[begins][inverse]


@compiled
def _read_rows(file: int, offset: int, width: int, rows: Ids, places: Ids, out: Bytes) -> int:
    """Read rows of a table in a file, and return the number of rows that could not be read completely.

    Args:
        file: Descriptor of the file.
        offset: Position of row 0.
        width: Bytes of a row.
        rows: (n,) int64, positions of the rows.
        places: (n,) int64, the row of ``out`` that each goes to.
        out: (…, width) uint8, written.
    """
    failed = 0
    for i in range(len(rows)):
        if _pread(file, out[places[i]].ctypes, width, offset + rows[i] * width) != width:
            failed += 1
    return failed


@compiled
def _copy_rows(table: Bytes, rows: Ids, places: Ids, out: Bytes) -> None:
    """Copy rows of a mapped table.

    Args:
        table: (…, width) uint8.
        rows: (n,) int64, positions of the rows.
        places: (n,) int64, the row of ``out`` that each goes to.
        out: (…, width) uint8, written.
    """
    for i in range(len(rows)):
        row, place = rows[i], places[i]
        for byte in range(table.shape[1]):
            out[place, byte] = table[row, byte]
