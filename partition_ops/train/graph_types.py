"""Node and edge types of an opened output, and how many nodes and edges there are of each."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch

from partition_ops.artifacts import layout
from partition_ops.chunked.id_converter import check_range
from partition_ops.errors import UsageError
from partition_ops.train.csr_graphs import DglGraphs
from partition_ops.train.mapped import ResidentLimit
from partition_ops.train.source import IdKind, OutputFiles

EType = tuple[str, str, str]
Tensors = Any  # a tensor, or a dict of tensors by type


class GraphTypes:
    """The part of ``DGLGraph`` that is about types.

    Args:
        files: The output.
        ids: Which IDs the graph has.
        resident: Watches over what is mapped.
    """

    is_block = False
    is_unibipartite = False
    idtype = torch.int64
    device = torch.device("cpu")

    def __init__(self, files: OutputFiles, ids: IdKind, resident: ResidentLimit) -> None:
        self.ids: IdKind = ids
        self._files = files
        self._resident = resident
        self._graphs = DglGraphs(files, ids, resident)
        self._in = self._graphs.get("in")  # before a data loader forks its workers

    @property
    def book(self) -> Any:
        """The `PartitionBook`: partitions of nodes and edges, and the way between new and original IDs."""
        return self._files.book

    @property
    def config_sha256(self) -> str:
        """SHA-256 of the partition config: another one is another partitioning."""
        return self._files.sha256(layout.partition_config(self.book.graph_name))

    @property
    def parts(self) -> tuple[int, ...]:
        """The partitions that are open."""
        return self._files.parts

    @property
    def ntypes(self) -> list[str]:
        """Node types, in DGL's order."""
        return list(self._in.ntypes)

    @property
    def etypes(self) -> list[str]:
        """Relations, in DGL's order."""
        return list(self._in.etypes)

    @property
    def canonical_etypes(self) -> list[EType]:
        """Edge types as triples, in DGL's order."""
        return list(self._in.canonical_etypes)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return bool(self._in.is_homogeneous)

    def to_canonical_etype(self, etype: Any) -> EType:
        """The triple of a relation or of a triple."""
        return self.book.to_canonical_etype(etype)  # type: ignore[no-any-return]

    def get_ntype_id(self, ntype: str | None) -> int:
        return int(self._in.get_ntype_id(ntype))

    def get_etype_id(self, etype: Any) -> int:
        return int(self._in.get_etype_id(etype))

    def num_nodes(self, ntype: str | None = None) -> int:
        """Number of nodes of a type, or of all types; those of partitions that are not open included."""
        return self.book.nodes.total if ntype is None else self.book.nodes.count(ntype)  # type: ignore[no-any-return]

    def num_edges(self, etype: Any = None) -> int:
        """Number of edges of a type, or of all types, that the open partitions own."""
        return int(
            self._in.num_edges() if etype is None else self._in.num_edges(self.to_canonical_etype(etype))
        )

    number_of_nodes = num_nodes
    number_of_edges = num_edges

    def _node_type(self, ntype: str | None) -> int:
        names = self.book.nodes.names
        if ntype is None and len(names) > 1:
            raise UsageError("The node type is missing", expected="one of " + ", ".join(names.names))
        return 0 if ntype is None else int(names.id_of(ntype))

    def _etype(self, etype: Any) -> EType:
        if etype is None and len(self.canonical_etypes) > 1:
            names = ", ".join(self.book.edges.names.names)
            raise UsageError("The edge type is missing", expected=f"one of {names}")
        return self.canonical_etypes[0] if etype is None else self.to_canonical_etype(etype)

    def _canonical(self, edges: Tensors) -> Any:
        if not isinstance(edges, Mapping):
            return edges
        return {self.to_canonical_etype(etype): eids for etype, eids in edges.items()}

    def _check_nodes(self, nodes: Tensors) -> None:
        by_type = nodes if isinstance(nodes, Mapping) else {None: nodes}
        for ntype, ids in by_type.items():
            type_id = self._node_type(ntype)
            name = self.book.nodes.names.names[type_id]
            what = f"The {self.ids} ID of node type {name!r}"
            check_range(torch.as_tensor(ids).numpy(), self.book.nodes.count(type_id), what)
