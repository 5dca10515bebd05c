"""The partition book: the partition, local ID and original ID of every node and edge, without DGL."""

from __future__ import annotations

from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.id_map import IdMap, IdMaps
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.partition_ranges import PartRanges
from partition_ops.chunked.id_converter import Ids, InvalidIdError, TypeNames, check_range, read_ids
from partition_ops.storage import Store


class PartitionBook:
    """The methods of DGL's ``GraphPartitionBook``, and lookups of original IDs, from a finished output.

    It reads ``convert/book.json`` and the ID maps, whatever the output formats. Methods that are named as in
    dgl 1.1.3 return the same numbers. IDs are given as an int, a list, a NumPy array or a torch tensor, and
    answered in the same form. *New IDs* without a type are homogeneous; with a
    type they are type-wise, as ``DistGraph`` takes and gives them. A type is a name or a type ID; an edge
    type also a triple, or its relation if only one edge type has it. One book knows all partitions.

    Original IDs are type-wise IDs of the input. The ID map of a type is fetched when it is first asked
    for, and unpacked below the folder for temporary files (``TMPDIR``): 16 bytes a node or edge. Close the
    book, or use it as a context manager, to remove that.

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
        self._maps = IdMaps(output)

    def __enter__(self) -> PartitionBook:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the unpacked ID maps."""
        self._maps.close()

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
        return self._maps.get(layout.node_id_map(name), count)

    def edge_id_map(self, etype: Any) -> IdMap:
        """Return the whole ID map of an edge type, as mapped arrays."""
        name, count = self.edges.names.name_of(etype), self.edges.count(etype)
        dropped = layout.dropped_edge_map(name)
        return self._maps.get(layout.edge_id_map(name), count, dropped_key=dropped)


def _look_up(ids: Any, table: Ids, what: str) -> Any:
    query = read_ids(ids, what)
    check_range(query.values, len(table), what)
    found = np.asarray(table[query.values])
    if found.size and found.min() < 0:
        dropped = int(query.values.reshape(-1)[np.flatnonzero(found.reshape(-1) < 0)[0]])
        raise InvalidIdError(f"{what} {dropped} has no counterpart: validation dropped it")
    return query.in_same_form(found)
