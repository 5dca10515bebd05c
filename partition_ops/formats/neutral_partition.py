"""The neutral partition and the neutral whole graph: what ``convert`` hands to every output format."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from partition_ops.artifacts.book import Book
from partition_ops.chunked.edges import EdgeBlock
from partition_ops.chunked.negatives import NegativeBlock
from partition_ops.formats.columns import Column, in_group, names_in_group

GRAPH_GROUPS = ("nodes", "edges")


@dataclass(frozen=True)
class Partition:
    """One partition as named columns, which are streamed and never all in memory.

    Columns, by group; *local* means a position in the partition, *new* a homogeneous new ID, *original* a
    type-wise ID of the input:

    - ``nodes/new_id``, ``nodes/orig_id`` (original), ``nodes/part_id`` (the owner), int64, and
      ``nodes/type_id``, int32: (num_nodes,), inner nodes first, then halo nodes, each by new ID.
    - ``edges/src``, ``edges/dst`` (local), ``edges/new_id``, ``edges/orig_id``, int64, and
      ``edges/type_id``, int32: (num_edges,), own edges first, by new ID, then those of other partitions.
      These are in-edges of halo nodes (``num_hops`` 2 or more), then edges that leave (``out_edges``).
      Without a halo (``num_hops`` 0) the graph lacks own edges whose source is in another partition.
    - ``node_features/<type>/<name>``: (inner nodes of the type, …), by new ID.
    - ``edge_features/<src:rel:dst>/<name>``: (own edges of the type, …), by new ID.
    - ``node_orig_ids/<type>``, ``edge_orig_ids/<src:rel:dst>``: original IDs of the same rows, int64.
    """

    part: int  # number of the partition
    node_types: tuple[str, ...]  # names of the node types by type ID
    edge_types: tuple[str, ...]  # names of the edge types, ``src:rel:dst``, by type ID
    num_inner: int  # number of inner nodes
    num_nodes: int  # number of inner and halo nodes
    num_own_edges: int  # number of edges in the graph that the partition owns
    num_edges: int  # number of edges in the graph
    columns: Mapping[str, Column]  # the columns by name, in the order of the types
    total_nodes: tuple[int, ...]  # numbers of nodes of the whole graph by type ID
    # numbers of edges of the input by type ID, with those that validation dropped
    total_edges: tuple[int, ...]
    # by group of columns, the SHA-256 of everything that the group depends on; a group whose content has no
    # known digest is left out. Equal digests mean equal columns
    digests: Mapping[str, str] = field(default_factory=dict)
    # sparse formats of the graph that the option ``--graph-formats`` asks for; formats that do not store
    # sparse matrices ignore them
    sparse_formats: tuple[str, ...] = ("coo",)
    # all options of ``convert``. A file that depends on one names it in `FileWriter.options`
    options: Mapping[str, Any] = field(default_factory=dict)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.node_types) == 1 and len(self.edge_types) == 1

    def group(self, name: str) -> dict[str, Column]:
        """Return the columns of a group by their names inside it."""
        return in_group(self.columns, name)

    def names(self, group: str) -> list[str]:
        """Return the names of the columns of a group inside it, without opening any."""
        return names_in_group(self.columns, group)


@dataclass(frozen=True)
class WholeGraph:
    """The whole graph as named columns by original ID, which are streamed and never all in memory.

    Columns, by group:

    - ``node_parts/<type>``, ``edge_parts/<src:rel:dst>``: the partition that owns each node or edge, int64;
      -1 for an edge that validation dropped.
    - ``node_features/<type>/<name>``, ``edge_features/<src:rel:dst>/<name>``: the features of the input.
    """

    book: Book  # the partitions
    columns: Mapping[str, Column]  # the columns by name, in the order of the types
    num_nodes: Mapping[str, int]  # numbers of nodes by type
    # returns the edges of a type in blocks, by original ID, without those that validation dropped
    edges: Callable[[str], Iterable[EdgeBlock]]
    # by edge type that has some, returns in blocks the pairs that are no edges, by original IDs
    negatives: Mapping[str, Callable[[], Iterable[NegativeBlock]]] = field(default_factory=dict)

    def group(self, name: str) -> dict[str, Column]:
        """Return the columns of a group by their names inside it."""
        return in_group(self.columns, name)

    def names(self, group: str) -> list[str]:
        """Return the names of the columns of a group inside it, without opening any."""
        return names_in_group(self.columns, group)
