"""The book, ``convert/book.json``: which new IDs each partition has of each type, in every output format.

New IDs are contiguous by partition, and by type inside a partition; so counts by type and partition say all.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment, read_meta
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.records import read_record
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads

BOOK_VERSION = 1
STATS_VERSION = 1  # of partitions/part<i>/stats.json
OLD_FORMAT = "dgl"  # the one format of outputs of version 0.1.0, which have no book
Counts = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Book:
    """The facts that all output formats of a run have in common."""

    graph_name: str  # name of the graph
    num_parts: int  # number of partitions
    num_hops: int  # how many hops the halos go
    part_method: str  # ``random`` or ``metis``: DGL's name for the kind of algorithm
    # by node type, in the order of the type IDs, the number of inner nodes of each partition
    node_counts: Counts
    edge_counts: Counts  # by edge type, the number of edges that each partition owns
    formats: tuple[str, ...]  # names of the output formats; the first one is the one that readers use
    # by edge type, the type of its reverse edges. By original IDs, edge e of one type is the reverse of edge
    # e of the other. In a type that is its own reverse, the second half of the edges are the reverse edges of
    # the first half
    reverse_edges: Mapping[str, str] = field(default_factory=dict)

    @property
    def node_types(self) -> list[str]:
        """Node types by type ID."""
        return list(self.node_counts)

    @property
    def edge_types(self) -> list[str]:
        """Edge types, ``src:rel:dst``, by type ID."""
        return list(self.edge_counts)

    @property
    def is_homogeneous(self) -> bool:
        """Whether there is one node type and one edge type."""
        return len(self.node_counts) == len(self.edge_counts) == 1

    @property
    def num_nodes(self) -> int:
        """Number of nodes of the graph."""
        return sum(map(sum, self.node_counts.values()))

    @property
    def num_edges(self) -> int:
        """Number of edges of the graph, without those that validation dropped."""
        return sum(map(sum, self.edge_counts.values()))

    def node_ranges(self) -> dict[str, list[list[int]]]:
        """Return by type, for each partition, the half-open range of its new node IDs."""
        return _ranges(self.node_counts)

    def edge_ranges(self) -> dict[str, list[list[int]]]:
        """Return by type, for each partition, the half-open range of its new edge IDs."""
        return _ranges(self.edge_counts)

    def to_json(self) -> dict[str, Any]:
        """Return the document ``convert/book.json``."""
        return {
            "version": BOOK_VERSION,
            "graph_name": self.graph_name,
            "num_parts": self.num_parts,
            "num_hops": self.num_hops,
            "part_method": self.part_method,
            "formats": list(self.formats),
            "node_types": self.node_types,
            "edge_types": self.edge_types,
            "nodes": {name: list(counts) for name, counts in self.node_counts.items()},
            "edges": {name: list(counts) for name, counts in self.edge_counts.items()},
            **({"reverse_edges": dict(self.reverse_edges)} if self.reverse_edges else {}),
        }


def read_book(output: Store, graph_name: str | None = None) -> Book:
    """Read the book of an output, finished or not.

    For an output of version 0.1.0, which has none, it is made from the counts of the partitions.

    Args:
        output: Root of the output.
        graph_name: The name that the graph must have; None for any.

    Raises:
        InvalidInputError: The graph has not been converted, the book is damaged, or the name differs.
    """
    if output.exists(layout.BOOK):
        book = _parse(read_document(output, layout.BOOK, "book"), output.uri_of(layout.BOOK))
    else:
        book = _rebuilt(output)
    if graph_name is not None and book.graph_name != graph_name:
        raise InvalidInputError(
            f"{output.uri} holds the partitions of another graph",
            found=repr(book.graph_name),
            expected=repr(graph_name),
            remedy="Use the --graph-name of 'convert', or run 'convert' first.",
        )
    return book


def check_parts(parts: Collection[int], num_parts: int) -> None:
    """Check that there are some partitions, and that all of them exist.

    Raises:
        UsageError: They do not.
    """
    wrong = [part for part in parts if not 0 <= part < num_parts]
    if wrong or not parts:
        found = wrong[0] if wrong else None
        raise UsageError("There is no such partition", found=found, expected=f"0 to {num_parts - 1}")


def node_counts(metadata: GraphMetadata, assignment: Assignment) -> dict[str, tuple[int, ...]]:
    """Return by node type the number of nodes that an assignment gives to each partition."""
    pieces = np.split(assignment.parts, metadata.node_offsets[1:-1])
    return {
        name: tuple(np.bincount(piece, minlength=assignment.num_parts).tolist())
        for name, piece in zip(metadata.node_types, pieces, strict=True)
    }


def read_stats(output: Store, part: int) -> dict[str, Any]:
    """Read ``partitions/part<i>/stats.json``: counts of a partition by type.

    Raises:
        InvalidInputError: The partition has not been converted, or the file is damaged.
    """
    return read_document(output, layout.partition_stats(part), "partition_stats")


def read_all_stats(output: Store, num_parts: int) -> list[dict[str, Any]]:
    """Read the counts of all partitions, several at a time; see `read_stats`."""
    return [*map_in_threads(partial(read_stats, output), range(num_parts), workers=output.requests)]


def _parse(document: dict[str, Any], where: str) -> Book:
    num_parts = document["num_parts"]
    try:
        nodes = {name: tuple(document["nodes"][name]) for name in document["node_types"]}
        edges = {name: tuple(document["edges"][name]) for name in document["edge_types"]}
    except KeyError as error:
        raise _damaged(where, f"no counts of the type {error.args[0]!r}") from error
    for name, counts in [*nodes.items(), *edges.items()]:
        if len(counts) != num_parts:
            raise _damaged(where, f"{len(counts)} counts of the type {name!r} for {num_parts} partitions")
    return Book(
        graph_name=document["graph_name"],
        num_parts=num_parts,
        num_hops=document["num_hops"],
        part_method=document["part_method"],
        node_counts=nodes,
        edge_counts=edges,
        formats=tuple(document["formats"]),
        reverse_edges=document.get("reverse_edges", {}),
    )


def _damaged(where: str, found: str) -> InvalidInputError:
    return InvalidInputError(
        f"{where} is damaged",
        found=found,
        expected="a count for each type and partition, as 'convert' writes it",
        remedy="Run 'convert' again, or everything with 'partition-ops run'.",
    )


def _rebuilt(output: Store) -> Book:
    """Rebuild the book of an output without one, from its manifest or records and from the counts."""
    if output.exists(layout.MANIFEST):
        manifest = read_manifest(output)
        graph_name, options = manifest["graph_name"], manifest["options"].get(layout.CONFIG_TASK, {})
        num_parts = sum(name.startswith(layout.PART_TASK) for name in manifest["options"])
    else:
        record = read_record(output, layout.CONFIG_TASK)  # says so if convert has not been done
        config = str(record["counters"]["partition_config"])
        graph_name = config.removeprefix(f"{layout.PARTITIONS}/").removesuffix(".json")
        num_parts, options = int(record["counters"]["num_parts"]), record["options"]
    stats = read_all_stats(output, num_parts)
    return Book(
        graph_name=graph_name,
        num_parts=num_parts,
        num_hops=int(options.get("num_hops", 1)),
        part_method=str(read_meta(output.child(layout.ASSIGNMENT))["algo_name"]),
        node_counts=_by_type(stats, "inner_nodes"),
        edge_counts=_by_type(stats, "edges"),
        formats=tuple(options.get("formats", [OLD_FORMAT])),
    )


def _by_type(stats: list[dict[str, Any]], what: str) -> dict[str, tuple[int, ...]]:
    return {name: tuple(part[what][name] for part in stats) for name in stats[0][what]}


def _ranges(counts: Counts) -> dict[str, list[list[int]]]:
    if not counts:
        return {}
    by_part = np.array(list(counts.values()), np.int64).T
    ends = np.cumsum(by_part).reshape(by_part.shape)
    ranges = np.stack([ends - by_part, ends], axis=2)  # (partitions, types, 2)
    return {name: ranges[:, i].tolist() for i, name in enumerate(counts)}
