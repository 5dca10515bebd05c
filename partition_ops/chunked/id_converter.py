"""Heterogeneous and homogeneous IDs of the input graph.

A heterogeneous ID is a type and a type-wise ID; the homogeneous ID lays the types end to end, in the order
of ``metadata.json``. Source: DGL guide, chapter 7.5; its sample code gives the first ID of each type to
the type before it, which is not done here. For the IDs after partitioning see `PartitionBook`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from partition_ops.chunked.counts import read_counts
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.chunked.type_ranges import TypeNames, TypeRanges
from partition_ops.system.json_documents import check_document

WHERE = "metadata.json"


class IDConverter:
    """Converts between the heterogeneous and the homogeneous IDs of the input graph.

    Every method takes one ID, or many as a list, a NumPy array or a torch tensor of any shape, and answers
    in the same form: an int, an int64 array, or an int64 tensor on the same device. In an array, types are
    type IDs (int64), since tensors hold no names; `id2ntype` and `id2etype` turn them into names.

    A type is given by its name or its type ID, an edge type also as a triple, or by its relation where only
    one edge type has it. Where IDs of several types are mixed in one array, give an array of types.

    Args:
        metadata: ``metadata.json``, parsed by `load_metadata` or just as JSON. Of JSON, only the types and
            their counts are looked at.

    Raises:
        InvalidInputError: From the constructor: the JSON is not as its format says.
        InvalidIdError: From every method, and a ValueError too: a type is unknown, or an ID is outside the
            range of its type; with type, value and range.

    Peak memory: some arrays as long as the argument.
    """

    def __init__(self, metadata: GraphMetadata | Mapping[str, Any]) -> None:
        if isinstance(metadata, GraphMetadata):
            node_types, num_nodes = metadata.node_types, metadata.num_nodes
            edge_types, num_edges = tuple(map(str, metadata.edge_types)), metadata.num_edges
        else:
            # the parts that are not about IDs may be missing
            check_document({"graph_name": "graph", "edges": {}, **metadata}, "metadata", where=WHERE)
            node_types, edge_types = tuple(metadata["node_type"]), tuple(metadata["edge_type"])
            num_nodes = read_counts(metadata, "nodes", node_types, WHERE)[1]
            num_edges = read_counts(metadata, "edges", edge_types, WHERE)[1]
        self._nodes = TypeRanges(TypeNames("node", node_types), num_nodes)
        self._edges = TypeRanges(TypeNames("edge", edge_types), num_edges)

    def ntype2id(self, ntype: Any) -> Any:
        """Type ID of a node type."""
        given = self._nodes.names.ids_of(ntype)
        return given.like(given.values)

    def etype2id(self, etype: Any) -> Any:
        """Type ID of an edge type."""
        given = self._edges.names.ids_of(etype)
        return given.like(given.values)

    def id2ntype(self, type_id: Any) -> Any:
        """Name of a node type; a NumPy array of names for many."""
        return self._nodes.names.names_of(type_id)

    def id2etype(self, type_id: Any) -> Any:
        """Name of an edge type, ``src:rel:dst``; a NumPy array of names for many."""
        return self._edges.names.names_of(type_id)

    def nid_het2hom(self, ntype: Any, nid: Any) -> Any:
        """Homogeneous IDs of nodes, from their types and type-wise IDs."""
        return self._nodes.to_homogeneous(ntype, nid)

    def nid_hom2het(self, nid: Any) -> tuple[Any, Any]:
        """Type and type-wise ID of nodes: ``("paper", 3)`` for one, type IDs and type-wise IDs for many."""
        return self._nodes.to_typed(nid)

    def eid_het2hom(self, etype: Any, eid: Any) -> Any:
        """Homogeneous IDs of edges, from their types and type-wise IDs."""
        return self._edges.to_homogeneous(etype, eid)

    def eid_hom2het(self, eid: Any) -> tuple[Any, Any]:
        """Type and type-wise ID of edges: ``("a:r:b", 3)`` for one, type IDs and type-wise IDs for many."""
        return self._edges.to_typed(eid)
