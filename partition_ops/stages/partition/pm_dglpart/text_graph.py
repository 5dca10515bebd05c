"""Read the text files of a graph over several ranks, and partition its nodes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis import text_files as parmetis
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable
from partition_ops.stages.partition.metis_library import cut_graph
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.mpi.parmetis_library import (
    Library,
    Slice,
    Target,
    check_fits,
    is_too_small,
)
from partition_ops.stages.partition.multilevel.tuning import METIS_TOLERANCE, PARMETIS_TOLERANCE
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Weights, can_be_shared, shares, tolerances
from partition_ops.stages.partition.small_graphs import even_out

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class TextGraph:
    """The text files as one rank sees them: its share of the lines, and nodes, edges and weights in all."""

    nodes: TextTable
    edges: TextTable
    stats: tuple[int, int, int]


@dataclass(frozen=True)
class NodeSlice:
    """This rank's nodes."""

    bounds: Ids  # (ranks + 1,) int64, where each rank's nodes begin
    types: Ids  # (nodes,) int64
    weights: Weights  # (nodes, weights) int64


def open_text(folder: Path, graph_name: str, comm: Any) -> TextGraph:
    """Open the three files of a graph.

    Raises:
        InvalidInputError: One is missing, or the stats file does not hold three numbers.
    """
    stats = folder / parmetis.stats_file(graph_name)
    if not stats.is_file():
        raise InvalidInputError(
            f"There is no file {stats}", expected="<num_nodes> <num_edges> <num_node_weights>"
        )
    counts = parmetis.parse_text_stats(stats.read_bytes(), str(stats))  # which may be a link, as users make

    def table(name: str, columns: Sequence[str]) -> TextTable:
        path = folder / name
        if not path.is_file():
            raise InvalidInputError(
                f"There is no file {path}",
                remedy="Start the ranks in the folder with the three text files, which all hosts share.",
            )
        return TextTable(path, str(path), columns, share=(comm.rank, comm.size))

    nodes = table(parmetis.nodes_file(graph_name), parmetis.node_columns(counts[2]))
    return TextGraph(nodes, table(parmetis.edges_file(graph_name), parmetis.EDGE_COLUMNS), counts)


def read_nodes(text: TextGraph, comm: Any) -> NodeSlice:
    """Return the types and weights of this rank's nodes.

    Raises:
        InvalidInputError: A row is malformed, types are not grouped, or the stats file has another count.
    """
    names = parmetis.node_columns(text.stats[2])
    types, weights = [np.empty(0, np.int64)], [np.empty((0, len(names) - 2), np.int64)]
    for block in text.nodes.blocks():
        columns = np.stack([block.columns[name] for name in names], axis=1)
        good: npt.NDArray[np.bool_] = np.all(columns >= 0, axis=1)
        text.nodes.require(block, good, "a number is negative", lambda _: "0 or more")
        types.append(columns[:, 0])
        last = types[-2][-1:]
        good = np.diff(columns[:, 0], prepend=last if len(last) else columns[:1, 0]) >= 0
        text.nodes.require(
            block, good, "nodes of a type are not together", lambda _: "types in ascending order"
        )
        weights.append(columns[:, 1:-1])
    kinds = np.concatenate(types)
    ends = [end for end in comm.allgather(kinds[[0, -1]].tolist() if len(kinds) else []) if end]
    if any(before[1] > after[0] for before, after in pairwise(ends)):
        raise InvalidInputError(f"{text.nodes.where}: nodes of a type are not together")
    counts = comm.allgather(len(kinds))
    text.nodes.check_count(sum(counts), text.stats[0], "nodes")
    bounds = np.cumsum([0, *counts], dtype=np.int64)
    found = np.concatenate(weights)
    return NodeSlice(bounds, kinds, found if found.shape[1] else np.ones((len(kinds), 1), np.int64))


def in_step(blocks: Iterator[TextBlock], comm: Any) -> Iterator[TextBlock | None]:
    """Yield blocks while any rank has one, so that all ranks exchange equally often; None after the last."""
    while True:
        block = next(blocks, None)
        if not comm.allreduce(int(block is not None)):
            return
        yield block


def read_graph(text: TextGraph, bounds: Ids, comm: Any) -> ParhipGraph:
    """Return the distinct neighbours of this rank's nodes, in either direction, without self-loops.

    Raises:
        InvalidInputError: An end of an edge is not a node, or the stats file has another count.

    Peak memory: 24 bytes a half-edge of this rank.
    """
    total, rows = int(bounds[-1]), 0
    keys = [np.empty(0, np.int64)]
    for block in in_step(text.edges.blocks(), comm):
        ends = np.empty((2, 0), np.int64)
        if block is not None:
            ends = np.stack([block.columns["src_id"], block.columns["dst_id"]])
            good: npt.NDArray[np.bool_] = np.all((ends >= 0) & (ends < total), axis=0)
            text.edges.require(block, good, "an end of the edge is not a node", lambda _: f"0 to {total - 1}")
            rows += ends.shape[1]
        keys.append(_exchange(ends[:, ends[0] != ends[1]], bounds, comm))
    text.edges.check_count(comm.allreduce(rows), text.stats[1], "edges")
    begin, end = bounds[comm.rank], bounds[comm.rank + 1]
    node, neighbours = np.divmod(np.unique(np.concatenate(keys)), max(total, 1))
    degrees = np.bincount(node - begin, minlength=int(end - begin))
    return ParhipGraph(np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]), neighbours)


def _exchange(ends: Ids, bounds: Ids, comm: Any) -> Ids:
    """Send both directions of some edges to the owners; return the received node * nodes + neighbour."""
    both = np.concatenate([ends, ends[::-1]], axis=1)
    owners = np.searchsorted(bounds, both[0], side="right") - 1
    keys = both[0] * bounds[-1] + both[1]
    received = comm.alltoall([np.unique(keys[owners == rank]) for rank in range(comm.size)])
    return np.concatenate(received)


def partition_slice(
    config: PartitionConfig, graph: ParhipGraph, nodes: NodeSlice, comm: Any
) -> npt.NDArray[np.int32]:
    """Return (nodes,) int32, the partition of this rank's nodes; METIS on rank 0 partitions a tiny graph.

    Raises:
        EngineError: The library is missing or failed, or the graph does not fit its integers.
    """
    half_edges = comm.allreduce(graph.num_half_edges)
    total = int(nodes.bounds[-1])
    if is_too_small(total, half_edges, comm.size, config.num_parts):
        return _partition_tiny(config, graph, nodes, comm)
    library = Library(config.own(MpiOptions).library)
    sums = comm.allreduce(nodes.weights.sum(axis=0))
    check_fits(library.index.itemsize * 8, nodes=total, half_edges=half_edges, weight_sums=sums.tolist())
    heaviest = np.max(comm.allgather(nodes.weights.max(axis=0)), axis=0)
    used = can_be_shared(config, heaviest, sums)
    allowed = tolerances(config, heaviest[used], sums[used], PARMETIS_TOLERANCE)
    piece = Slice(nodes.bounds, graph.offsets, graph.neighbours, nodes.weights[:, used])
    return library.partition(piece, Target(config.num_parts, allowed, shares(config), config.seed), comm)


def _partition_tiny(
    config: PartitionConfig, graph: ParhipGraph, nodes: NodeSlice, comm: Any
) -> npt.NDArray[np.int32]:
    pieces = comm.gather((np.diff(graph.offsets), graph.neighbours, nodes.weights))
    parts = None
    if comm.rank == 0:
        degrees, neighbours, weights = (np.concatenate(values) for values in zip(*pieces, strict=True))
        whole = ParhipGraph(np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)]), neighbours)
        if config.num_parts == 1 or whole.num_half_edges == 0 or whole.num_nodes <= config.num_parts:
            found = (np.arange(whole.num_nodes) % config.num_parts).astype(np.int32)  # nothing to cut
        else:
            used = weights.any(axis=0)
            weights = np.ascontiguousarray(weights[:, used]) if used.any() else np.ones_like(weights[:, :1])
            allowed = tolerances(config, weights.max(axis=0), weights.sum(axis=0), METIS_TOLERANCE)
            volume = config.objective == "vol"
            found = cut_graph(whole, weights, shares(config), allowed, seed=config.seed, volume=volume)
            if weights.max() <= 1 and (weights.sum(axis=1) == 1).all():  # they are classes
                found = even_out(config, whole, weights.argmax(axis=1), found)
        parts = np.split(found, nodes.bounds[1:-1])
    mine: npt.NDArray[np.int32] = comm.scatter(parts)
    return mine
