"""Ranges of new IDs: by partition, and by type inside a partition."""

from __future__ import annotations

from typing import Any

import numpy as np

from partition_ops.artifacts.book import Counts
from partition_ops.chunked.id_converter import Ids, TypeNames, check_range, read_ids


class PartRanges:
    """New IDs of all nodes, or of all edges, of a partitioned graph.

    Methods take one ID or many, and return the result in the same form; see `IdValues`. Every method raises
    `InvalidIdError` for an ID outside its range.

    Args:
        names: The types.
        counts: Numbers of nodes or edges, by type and partition, as a book has them.

    Peak memory: 24 bytes for each type and partition.
    """

    def __init__(self, names: TypeNames, counts: Counts) -> None:
        self.names = names
        by_part: Ids = np.array([counts[name] for name in names.names], np.int64).T  # (partitions, types)
        self.ends: Ids = np.cumsum(by_part).reshape(by_part.shape)
        self.starts: Ids = self.ends - by_part
        self.typed_ends: Ids = np.cumsum(by_part, axis=0)
        self.typed_starts: Ids = self.typed_ends - by_part

    @property
    def num_parts(self) -> int:
        return len(self.starts)

    @property
    def total(self) -> int:
        """Number of all nodes or edges."""
        return int(self.ends[-1, -1])

    def count(self, type_name: Any) -> int:
        """Return the number of nodes or edges of one type."""
        return int(self.typed_ends[-1, self.names.id_of(type_name)])

    def part_of(self, ids: Any, type_name: Any = None) -> Any:
        """Return the partition of homogeneous new IDs, or of type-wise ones with a type; int64."""
        query = read_ids(ids, self._what(type_name))
        ends, total = self._ends(type_name)
        check_range(query.values, total, self._what(type_name))
        return query.in_same_form(np.searchsorted(ends, query.values, side="right").astype(np.int64))

    def to_typed(self, ids: Any) -> tuple[Any, Any]:
        """Return int64 type IDs and type-wise new IDs of homogeneous new IDs."""
        query = read_ids(ids, self._what(None))
        check_range(query.values, self.total, self._what(None))
        parts, type_ids = self._places(query.values)
        typed = query.values - self.starts[parts, type_ids] + self.typed_starts[parts, type_ids]
        return query.in_same_form(type_ids), query.in_same_form(typed)

    def to_homogeneous(self, ids: Any, type_name: Any) -> Any:
        """Return homogeneous new IDs of the type-wise new IDs of one type."""
        query = read_ids(ids, self._what(type_name))
        check_range(query.values, self.count(type_name), self._what(type_name))
        type_id = self.names.id_of(type_name)
        parts = np.searchsorted(self.typed_ends[:, type_id], query.values, side="right")
        shift = self.starts[parts, type_id] - self.typed_starts[parts, type_id]
        return query.in_same_form(np.asarray(query.values + shift))

    def bounds(self, part: int, type_name: Any = None) -> tuple[int, int]:
        """Return the half-open range of a partition: homogeneous new IDs, or type-wise ones with a type."""
        part = int(read_ids(part, "The partition").values)
        check_range(np.asarray(part), self.num_parts, "The partition")
        ends, _ = self._ends(type_name)
        return int(ends[part - 1]) if part else 0, int(ends[part])

    def to_local(self, ids: Any, part: int, type_name: Any = None) -> Any:
        """Return the positions of new IDs among those of their partition, of all types or of one."""
        begin, end = self.bounds(part, type_name)
        query = read_ids(ids, self._what(type_name))
        check_range(query.values, end - begin, f"{self._what(type_name)} of partition {part}", first=begin)
        return query.in_same_form(np.asarray(query.values - begin))

    def _ends(self, type_name: Any) -> tuple[Ids, int]:
        """Return where each partition ends, and the number of all IDs."""
        if type_name is None:
            return self.ends[:, -1], self.total
        type_id = self.names.id_of(type_name)
        return self.typed_ends[:, type_id], int(self.typed_ends[-1, type_id])

    def _places(self, ids: Ids) -> tuple[Ids, Ids]:
        """Partition and type ID of homogeneous new IDs."""
        # the first range that ends after the ID; an empty range ends at its start, so it is skipped
        place = np.searchsorted(self.ends.reshape(-1), ids, side="right")
        parts, type_ids = np.divmod(place, len(self.names))
        return parts.astype(np.int64), type_ids.astype(np.int64)

    def _what(self, type_name: Any) -> str:
        if type_name is None:
            return f"The homogeneous new {self.names.kind} ID"
        return f"The new ID of {self.names.kind} type {self.names.name_of(type_name)!r}"
