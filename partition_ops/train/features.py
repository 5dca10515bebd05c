"""Features of an output: their names, rows by ID, and scalar edge features as arrays by edge ID."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from partition_ops.errors import UsageError, one_of
from partition_ops.formats.columns import StoredArray
from partition_ops.train.block_cache import BlockCache
from partition_ops.train.feature_rows import (
    FeatureRows,
    FileRows,
    Locator,
    MappedRows,
    PartRows,
    RangeRows,
)
from partition_ops.train.mapped_files import NPY_HEADER, MappedFile, ResidentLimit, create_npy, map_npy
from partition_ops.train.output_files import MISSING, IdKind, Ids, OutputFiles

Access = Literal["read", "mapped", "ranges"]
KERNEL_DTYPES = ("float32", "float64", "uint8", "int8")  # of probabilities in DGL's kernels
Values = npt.NDArray[Any]


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
        self._num_ids = num_ids
        self._access = access
        self._resident = resident
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
        types = range(len(self._num_ids))
        have = [t for t in types if name in self.names(t)]
        if not have:
            raise UsageError(f"No {self._kind} type has the feature {name!r}", expected="a name in edge_data")
        dtype = _kernel_dtype([self._scalar(name, t).dtype for t in have])

        def num_bytes() -> int:
            stored = [self._stored(part, name, t) for part in self._parts for t in have]
            size = sum(self._num_ids[t] * dtype.itemsize + NPY_HEADER for t in have)
            return size + self._files.scratch_bytes(stored)

        def make(folder: Path) -> None:
            for type_id in have:
                values = create_npy(folder / f"{type_id}.npy", self._num_ids[type_id], dtype)
                for part in self._parts:
                    self._enter(values, part, name, type_id, folder)

        options = (self._kind, name, self._ids, self._num_ids)
        folder = self._files.make_once("column", self._parts, options, num_bytes, make)
        return [map_npy(folder / f"{t}.npy", self._resident) if t in have else None for t in types]

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
            return self._files.scratch_bytes(stored.values()) + sum(8 * n + NPY_HEADER for n in self._num_ids)

        def make(folder: Path) -> None:
            vectors = [create_npy(folder / f"{t}.npy", n) for t, n in enumerate(self._num_ids)]
            for vector in vectors:
                vector[:] = MISSING
            for part, arrays in stored.items():
                with self._files.mapped(arrays, folder) as originals:
                    for type_id, vector in enumerate(vectors):
                        begin, end = self._ranges.bounds(part, type_id)
                        vector[originals[self._type_name(type_id)]] = np.arange(begin, end)

        options = (self._kind, self._num_ids)
        folder = self._files.make_once("new-ids", self._parts, options, num_bytes, make)
        return [map_npy(folder / f"{t}.npy", self._resident) for t in range(len(self._num_ids))]

    def _part(self, part: int, key: str) -> PartRows | None:
        if part not in self._parts:
            return None
        array = self._arrays(part)[key]
        if self._access == "mapped":
            return MappedRows(partial(self._map, array.key), array, self._resident)
        if self._access == "read":
            path = partial(self._files.keep_local, array.key)
            return FileRows(path, array, self._files.output.uri_of(array.key))
        return RangeRows(self._blocks, self._files.size(array.key), array)

    def _map(self, key: str) -> MappedFile:
        if key not in self._mapped:
            self._mapped[key] = self._resident.watch(MappedFile(self._files.keep_local(key)))
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

    def _enter(self, values: Values, part: int, name: str, type_id: int, folder: Path) -> None:
        """Enter the values of one partition into an array by ID."""
        with self._files.mapped(self._stored(part, name, type_id), folder) as found:
            rows = found["values"].reshape(-1)
            if self._ids == "new":
                begin, end = self._ranges.bounds(part, type_id)
                values[begin:end] = rows
            else:
                values[found["ids"]] = rows


def _kernel_dtype(dtypes: list[np.dtype[Any]]) -> np.dtype[Any]:
    """Return a dtype that DGL's kernels take, the same for all types."""
    if len(set(dtypes)) == 1 and dtypes[0].name in KERNEL_DTYPES:
        return dtypes[0]
    return np.dtype(np.float64 if np.dtype(np.float64) in dtypes else np.float32)
