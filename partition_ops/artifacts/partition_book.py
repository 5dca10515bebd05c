"""The partition book: the partition, local ID and original ID of every node and edge, without DGL.

Original IDs are looked up in the ID map of a type, which is not held in memory.
"""

from __future__ import annotations

import shutil
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import Counts, read_book
from partition_ops.artifacts.dropped_edges import num_dropped
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.chunked.id_converter import Ids, InvalidIdError, TypeNames, check_range, read_ids
from partition_ops.chunked.table_files import PARQUET_BATCH, parquet_file
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, open_store
from partition_ops.system.mapped_files import new_npy
from partition_ops.system.temporary_folders import new_folder

COLUMNS = ["orig_id", "type_new_id"]  # of an ID map


class PartitionBook:
    """The methods of DGL's ``GraphPartitionBook``, and lookups of original IDs, from a finished output.

    It reads ``convert/book.json`` and the ID maps, whatever the output formats. Methods that are named as in
    dgl 1.1.3 return the same numbers. IDs are given as an int, a list, a NumPy array or a torch tensor, and
    answered in the same form. *New IDs* without a type are homogeneous; with a
    type they are type-wise, as ``DistGraph`` takes and gives them. A type is a name or a type ID; an edge
    type also a triple, or its relation if only one edge type has it. One book knows all partitions.

    Original IDs are type-wise IDs of the input. The ID map of a type is fetched when it is first asked
    for, and unpacked below the folder for temporary files (``TMPDIR``): 16 bytes a node or edge. Close the
    book, or use it as a context manager, to remove that. Pickling a book opens it again by its URI.

    Args:
        output: Root of the output.
        graph_name: Name of the graph; by default that of ``manifest.json``.

    Raises:
        InvalidInputError: From the constructor: there is no finished output, or its book is damaged. From
            the methods about original IDs: the ID map is missing or broken.
        InvalidIdError: From every method, and a ValueError too: an ID is outside its range, or a type is
            unknown.

    Peak memory: 48 bytes for each type and partition, some arrays as long as the argument; see `IdMap`.
    """

    def __init__(self, output: Store, *, graph_name: str | None = None) -> None:
        name = graph_name or str(read_manifest(output)["graph_name"])
        book = read_book(output, name)
        self.graph_name: str = book.graph_name
        self.nodes = PartRanges(TypeNames("node", book.node_types), book.node_counts)
        self.edges = PartRanges(TypeNames("edge", book.edge_types), book.edge_counts)
        self._reverses = book.reverse_edges
        self._output = output
        self._folder: Path | None = None
        self._maps: dict[str, IdMap] = {}

    def __reduce__(self) -> Any:
        return _reopen, (self._output.uri, self._output.settings, self.graph_name)

    def __enter__(self) -> PartitionBook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the unpacked ID maps, as the exit of the interpreter does at the latest."""
        self._maps.clear()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None

    @property
    def ntypes(self) -> list[str]:
        """Node types by type ID."""
        return list(self.nodes.names.names)

    @property
    def etypes(self) -> list[str]:
        """Relations by edge type ID."""
        return [rel for _, rel, _ in self.canonical_etypes]

    @property
    def canonical_etypes(self) -> list[tuple[str, str, str]]:
        """Triples by edge type ID."""
        return [self.to_canonical_etype(name) for name in self.edges.names.names]

    @property
    def reverse_etypes(self) -> dict[tuple[str, str, str], tuple[str, str, str]]:
        """By triple of an edge type, that of its reverse edges, as ``reverse_edges`` of the input says.

        By original IDs, edge e of one type is the reverse of edge e of the other. If a type is its own
        reverse, the second half of its edges are the reverse edges of the first half.
        """
        canonical = self.to_canonical_etype
        return {canonical(name): canonical(other) for name, other in self._reverses.items()}

    def to_canonical_etype(self, etype: Any) -> tuple[str, str, str]:
        src, rel, dst = self.edges.names.name_of(etype).split(":")
        return src, rel, dst

    def num_partitions(self) -> int:
        return self.nodes.num_parts

    def metadata(self) -> list[dict[str, int]]:
        """Return ``machine_id``, ``num_nodes`` and ``num_edges`` of each partition."""
        nodes, edges = ((r.ends - r.starts).sum(axis=1).tolist() for r in (self.nodes, self.edges))
        pairs = enumerate(zip(nodes, edges, strict=True))
        return [{"machine_id": part, "num_nodes": n, "num_edges": e} for part, (n, e) in pairs]

    def nid2partid(self, nids: Any, ntype: Any = None) -> Any:
        """Return the partition that owns each node; int64."""
        return self.nodes.part_of(nids, ntype)

    def eid2partid(self, eids: Any, etype: Any = None) -> Any:
        """Return the partition that owns each edge, which is that of its destination; int64."""
        return self.edges.part_of(eids, etype)

    def partid2nids(self, partid: int, ntype: Any = None) -> Ids:
        """Return the new IDs of the nodes of a partition, ascending."""
        return np.arange(*self.nodes.bounds(partid, ntype), dtype=np.int64)

    def partid2eids(self, partid: int, etype: Any = None) -> Ids:
        """Return the new IDs of the edges of a partition, ascending."""
        return np.arange(*self.edges.bounds(partid, etype), dtype=np.int64)

    def nid2localnid(self, nids: Any, partid: int, ntype: Any = None) -> Any:
        """Return the local ID of each node in its partition, which is also its row in a feature."""
        return self.nodes.to_local(nids, partid, ntype)

    def eid2localeid(self, eids: Any, partid: int, etype: Any = None) -> Any:
        """Return the local ID of each edge in its partition, which is also its row in a feature."""
        return self.edges.to_local(eids, partid, etype)

    def map_to_per_ntype(self, ids: Any) -> tuple[Any, Any]:
        """Return node type IDs and type-wise new IDs, from homogeneous new IDs."""
        return self.nodes.to_typed(ids)

    def map_to_per_etype(self, ids: Any) -> tuple[Any, Any]:
        """Return edge type IDs and type-wise new IDs, from homogeneous new IDs."""
        return self.edges.to_typed(ids)

    def map_to_homo_nid(self, ids: Any, ntype: Any) -> Any:
        """Return homogeneous new IDs, from type-wise new IDs of nodes of one type."""
        return self.nodes.to_homogeneous(ids, ntype)

    def map_to_homo_eid(self, ids: Any, etype: Any) -> Any:
        """Return homogeneous new IDs, from type-wise new IDs of edges of one type."""
        return self.edges.to_homogeneous(ids, etype)

    def nid_new2orig(self, nids: Any, ntype: Any) -> Any:
        """Return original IDs, from type-wise new IDs of nodes of one type."""
        return _look_up(nids, self.node_id_map(ntype).orig, "The new node ID")

    def nid_orig2new(self, nids: Any, ntype: Any) -> Any:
        """Return type-wise new IDs, from original IDs of nodes of one type."""
        return _look_up(nids, self.node_id_map(ntype).new, "The original node ID")

    def eid_new2orig(self, eids: Any, etype: Any) -> Any:
        """Return original IDs, from type-wise new IDs of edges of one type."""
        return _look_up(eids, self.edge_id_map(etype).orig, "The new edge ID")

    def eid_orig2new(self, eids: Any, etype: Any) -> Any:
        """Return type-wise new IDs, from original IDs of edges of one type."""
        return _look_up(eids, self.edge_id_map(etype).new, "The original edge ID")

    def node_id_map(self, ntype: Any) -> IdMap:
        """Return the whole ID map of a node type, as mapped arrays."""
        name, count = self.nodes.names.name_of(ntype), self.nodes.count(ntype)
        return self._id_map(layout.node_id_map(name), count)

    def edge_id_map(self, etype: Any) -> IdMap:
        """Return the whole ID map of an edge type, as mapped arrays."""
        name, count = self.edges.names.name_of(etype), self.edges.count(etype)
        return self._id_map(layout.edge_id_map(name), count, edge_type=name)

    def _id_map(self, key: str, count: int, *, edge_type: str | None = None) -> IdMap:
        """Return the ID map of a type, unpacked once, from its key and the number of IDs in the output."""
        if key not in self._maps:
            path = self._output.local_copy(key)
            if self._folder is None:
                self._folder = new_folder()
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            dropped = num_dropped(self._output, edge_type) if edge_type else 0
            # a number as its name: that of a type may be too long with what is before it
            folder = self._folder / str(len(self._maps))
            self._maps[key] = IdMap(path, self._output.uri_of(key), count, folder, dropped=dropped)
        return self._maps[key]


def _reopen(uri: str, settings: Any, graph_name: str) -> PartitionBook:
    return PartitionBook(open_store(uri, settings), graph_name=graph_name)


def _look_up(ids: Any, table: Ids, what: str) -> Any:
    query = read_ids(ids, what)
    check_range(query.values, len(table), what)
    found = np.asarray(table[query.values])
    if found.size and found.min() < 0:
        dropped = int(query.values.reshape(-1)[np.flatnonzero(found.reshape(-1) < 0)[0]])
        raise InvalidIdError(f"{what} {dropped} has no counterpart: validation dropped it")
    return query.in_same_form(found)


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
        # the first range that ends after the ID; an empty range ends at its start, so it is skipped
        place = np.searchsorted(self.ends.reshape(-1), query.values, side="right").astype(np.int64)
        parts, type_ids = np.divmod(place, len(self.names))
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

    def _what(self, type_name: Any) -> str:
        if type_name is None:
            return f"The homogeneous new {self.names.kind} ID"
        return f"The new ID of {self.names.kind} type {self.names.name_of(type_name)!r}"


class IdMap:
    """Type-wise original and new IDs of one type, each by the other, mapped from two files.

    Parquet cannot be mapped, so its columns are written into plain arrays once, batch by batch. The kernel
    reads from them what is looked up, and takes the memory back when it needs it.

    Args:
        path: The Parquet file.
        where: Its URI, for messages.
        count: Number of nodes or edges of the type in the output.
        folder: Where the two arrays go; 16 bytes of disk for each node or edge.
        dropped: Number of edges of the type in the input that validation has dropped.

    Attributes:
        orig: (count,) int64, original IDs by type-wise new ID.
        new: (count + dropped,) int64, type-wise new IDs by original ID; -1 if the edge was dropped.

    Raises:
        InvalidInputError: The file is damaged, or an ID is missing or there twice.

    Peak memory: 48 MiB beside what the kernel keeps of the files.
    """

    def __init__(self, path: Path, where: str, count: int, folder: Path, *, dropped: int = 0) -> None:
        self._where = where
        self._count = count
        self.orig: Ids = _array(folder / "orig.npy", count)
        self.new: Ids = _array(folder / "new.npy", count + dropped)
        with parquet_file(path, where) as file:
            self._read(file)
        for index, orig in enumerate(_blocks(self.orig)):
            first = index * PARQUET_BATCH
            self.new[orig] = np.arange(first, first + len(orig))
        # an original ID that is there twice leaves fewer entries than there are IDs
        if sum(np.count_nonzero(block >= 0) for block in _blocks(self.new)) != count:
            raise self._broken("an orig_id that is there twice")

    def _read(self, file: pq.ParquetFile) -> None:
        missing = [column for column in COLUMNS if column not in file.schema_arrow.names]
        if missing or file.metadata.num_rows != self._count:
            raise self._broken(f"{file.metadata.num_rows} rows of {', '.join(file.schema_arrow.names)}")
        for batch in file.iter_batches(batch_size=PARQUET_BATCH, columns=COLUMNS):
            orig, new = (batch.column(name).to_numpy(zero_copy_only=False) for name in COLUMNS)
            self._check(orig, len(self.new))
            self._check(new, self._count)
            self.orig[new] = orig
        if self._count and min(block.min() for block in _blocks(self.orig)) < 0:
            raise self._broken("a type_new_id that is there twice")

    def _check(self, ids: Any, end: int) -> None:
        if ids.dtype != np.int64 or (len(ids) and (ids.min() < 0 or ids.max() >= end)):
            raise self._broken(f"{ids.dtype} values outside the range")

    def _broken(self, found: str) -> InvalidInputError:
        return InvalidInputError(
            f"{self._where} is not the ID map that the partition config goes with",
            found=found,
            expected=f"{self._count} rows of {' and '.join(COLUMNS)}, int64, each ID once",
            remedy="Export the ID maps again: partition-ops idmap export.",
        )


def _array(path: Path, count: int) -> Ids:
    """Create a mapped array of -1."""
    path.parent.mkdir(parents=True, exist_ok=True)
    array: Ids = new_npy(path, (count,), np.int64)
    for block in _blocks(array):
        block[:] = -1
    return array


def _blocks(array: Ids) -> Iterator[Ids]:
    """Yield views of consecutive parts of an array."""
    for begin in range(0, len(array), PARQUET_BATCH):
        yield array[begin : begin + PARQUET_BATCH]
