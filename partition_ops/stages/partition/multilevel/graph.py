"""The graph of a level, its edge cut, and what its partitions may hold, as compiled code takes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.stages.partition.multilevel.batches import add_up_nodes
from partition_ops.stages.partition.multilevel.tuning import LOOKED_UP, METIS_TOLERANCE, ROUNDING, Tuning
from partition_ops.stages.partition.problem import (
    Parts,
    Problem,
    class_weights,
    most_in_edges,
    shares,
    tolerances,
)
from partition_ops.system.compilation import (
    compiled,
    compiled_inline,
    compiled_with_arrays,
    prefetch,
    unsigned,
)

Integers = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.signedinteger[Any]]  # int64, or narrower in MPI's ranks
Labels = npt.NDArray[np.int32]
NOTHING = np.zeros(0, np.int64)
NO_LABELS = np.zeros(0, np.int32)
NOWHERE = -1
NODES_AHEAD = 8  # a loop takes about as long for their neighbours as a read from memory
NUMBERS_AHEAD = 2  # nodes; the numbers of their neighbours fit in the first-level cache
IN_A_LINE = np.uint64(16)  # neighbours
MOST_PREFETCHED = 64  # neighbours of a node: of hubs, the processor itself reads many at once
MOST_COUNTED_BITS = 16  # of a value; 2**16 counts fit the second-level cache


class Graph(NamedTuple):
    """A symmetric graph without self-loops, whose edges may have weights."""

    offsets: Numbers  # (nodes + 1,) int64 or narrower, where the neighbours of each node begin
    neighbours: Labels  # (half-edges,) int32
    edge_weights: Integers  # (half-edges,) int64, or empty if every edge weighs 1
    # (nodes,) int64, how many nodes of the input graph each one stands for, or empty if that is 1
    node_weights: Integers

    @classmethod
    def of_input(cls, graph: ParhipGraph, edge_weights: Integers = NOTHING) -> Graph:
        """Return the graph that ``prepare`` wrote, with weights; neighbours of 32 bits stay mapped."""
        return cls(np.asarray(graph.offsets, np.int64), graph.narrow_neighbours, edge_weights, NOTHING)

    @property
    def num_nodes(self) -> int:
        return len(self.offsets) - 1

    @property
    def num_half_edges(self) -> int:
        return len(self.neighbours)


class Constraints(NamedTuple):
    """Weights of the nodes of a graph in each column to balance, and the limits of the partitions.

    A node of the input graph has a class: it weighs 1 in the column of its class and, if the in-degrees are
    limited too, its in-degree in another column: that of its class, or that of all classes. Nodes of a
    contracted graph have weights in every column. The columns of the classes come first.
    """

    classes: Numbers  # (nodes,) int32 or narrower, or empty in a contracted graph
    in_degrees: Numbers  # (nodes,) int64 or narrower, or empty if they are not limited
    degree_columns: Labels  # (classes,) int32, the column of the in-degrees of each class
    weights: Integers  # (nodes, columns) int64 in a contracted graph, else (0, columns)
    most: Integers  # (parts, columns) int64, the limit of each partition

    @property
    def num_classes(self) -> int:
        return len(self.degree_columns)

    def loads(self, parts: Labels) -> Integers:
        """Return (parts, columns) int64, what each partition holds."""
        return _sums(self, parts, len(self.most))

    def kept_by(self, parts: Labels) -> bool:
        """Return whether every partition is within its limits."""
        return bool((self.loads(parts) <= self.most).all())

    def columns(self) -> Integers:
        """Return (nodes, columns) int64, the weights of every node; a copy if the graph is not contracted."""
        if len(self.weights):
            return self.weights
        return class_weights(self.classes, self.in_degrees, self.degree_columns, self.most.shape[1])

    def subset(self, nodes: npt.NDArray[Any]) -> Constraints:
        """Return the constraints on some nodes of the input graph, by number or mask; the limits stay."""
        degrees = self.in_degrees[nodes] if len(self.in_degrees) else self.in_degrees
        return self._replace(classes=self.classes[nodes], in_degrees=degrees)

    def contracted(self, labels: Labels, count: int) -> Constraints:
        """Return the constraints on clusters; ``labels`` are (nodes,) int32, the cluster of each node."""
        sums = _sums(self, labels, count)
        return self._replace(classes=NO_LABELS, in_degrees=NOTHING, weights=sums)


@compiled_with_arrays
def _sums(constraints: Constraints, groups: Labels, count: int) -> Integers:
    """Return (count, columns) int64, the weights of each group of nodes, without an array of all nodes."""
    columns = constraints.most.shape[1]
    sums = np.zeros((count, columns), np.int64)
    if len(constraints.weights):
        for v in range(len(groups)):
            for column in range(columns):
                sums[groups[v], column] += constraints.weights[v, column]
        return sums
    for v in range(len(groups)):
        column = constraints.classes[v]
        sums[groups[v], column] += 1
        if len(constraints.in_degrees):
            sums[groups[v], constraints.degree_columns[column]] += constraints.in_degrees[v]
    return sums


def constraints_of(problem: Problem) -> Constraints:
    """Return the constraints of the graph's own nodes: a partition may hold its share times `tolerances`.

    If the options balance the in-edges, each class has a limit for them, too; otherwise all classes together
    have the limit of `most_in_edges`, unless there is none.
    """
    config, classes = problem.config, problem.classes
    count = int(classes.max(initial=0)) + 1
    sums, heaviest = np.bincount(classes, minlength=count), np.ones(count, np.int64)
    in_degrees, columns = NOTHING, np.arange(count, dtype=np.int32)
    if config.balance == "edges":
        in_degrees, columns = problem.in_degrees, columns + np.int32(count)
        theirs = np.bincount(classes, weights=in_degrees, minlength=count).astype(np.int64)
        largest = [in_degrees[classes == number].max(initial=0) for number in range(count)]
        sums, heaviest = np.concatenate([sums, theirs]), np.concatenate([heaviest, largest])
    wanted = shares(config)[:, None] * sums
    used = np.maximum(sums, 1)  # a sum of 0 has a limit of 0 whatever the tolerance is
    allowed = tolerances(config, heaviest, used, METIS_TOLERANCE)
    most = np.floor(wanted * allowed + ROUNDING).astype(np.int64)
    if problem.limits_in_edges:
        in_degrees, columns = problem.in_degrees, np.full(count, count, np.int32)
        most = np.column_stack([most, most_in_edges(config, in_degrees)])
    return Constraints(classes, in_degrees, columns, np.zeros((0, most.shape[1]), np.int64), most)


def most_looked_up(graph: Graph) -> int:
    """Return `LOOKED_UP`, or the largest degree if that is more."""
    return max(LOOKED_UP, largest_degree(graph.offsets))


@compiled
def largest_degree(offsets: Integers) -> int:
    """Return the largest degree, without an array of all degrees."""
    largest = 0
    for v in range(len(offsets) - 1):
        largest = max(largest, offsets[v + 1] - offsets[v])
    return largest


@compiled_inline
def look_around(graph: Graph, v: int, numbers: npt.NDArray[Any], around: npt.NDArray[Any], at: int) -> int:
    """Write the number of each neighbour of a node to ``around``, from ``at`` on; return where they end.

    In a loop that does nothing else, the processor waits for many of them at once instead of one after the
    other: several times as fast if the numbers are not in the cache.
    """
    near = graph.neighbours[graph.offsets[v] : graph.offsets[v + 1]]
    found = around[at : at + len(near)]
    for i in range(len(near)):
        found[i] = numbers[unsigned(near[i])]
    return at + len(near)


@compiled_inline
def prefetch_around(graph: Graph, nodes: Numbers, i: Any, end: Any, numbers: npt.NDArray[Any]) -> None:
    """Prefetch what a loop over nodes in any order needs for those after the one at ``i``.

    These are the neighbours of a later node, and the numbers of the neighbours of the next but one. Both are
    rarely in the cache. ``end`` is the end of the nodes. The neighbours of all of them must be in the graph:
    some are read here, a little earlier than by the loop.
    """
    if i + 2 * NODES_AHEAD < end:
        prefetch(graph.offsets, unsigned(nodes[i + 2 * NODES_AHEAD]))
        begin = unsigned(graph.offsets[unsigned(nodes[i + NODES_AHEAD])])
        prefetch(graph.neighbours, begin)
        prefetch(graph.neighbours, begin + IN_A_LINE)
    if i + NUMBERS_AHEAD < end:
        v = unsigned(nodes[i + NUMBERS_AHEAD])
        first, last = graph.offsets[v], graph.offsets[v + np.uint64(1)]
        for j in range(first, min(last, first + MOST_PREFETCHED)):
            prefetch(numbers, unsigned(graph.neighbours[unsigned(j)]))


@dataclass(frozen=True)
class EdgeCut:
    """Number of pairs of neighbours in two partitions, of all pairs; edges between two nodes count once."""

    pairs: int
    of: int

    @property
    def fraction(self) -> float:
        return self.pairs / self.of if self.of else 0.0

    def to_json(self) -> dict[str, int | float]:
        return {"pairs": self.pairs, "of": self.of, "fraction": round(self.fraction, 6)}


def edge_cut(graph: Graph, parts: Parts) -> EdgeCut:
    """Return how many pairs of neighbours are cut, whatever edges weigh; arguments as for `cut_weight`."""
    return EdgeCut(cut_weight(graph._replace(edge_weights=NOTHING), parts), graph.num_half_edges // 2)


def cut_weight(graph: Graph, parts: Parts) -> int:
    """Return the weight of the edges that are cut; ``parts`` are (nodes,) int32, below 65536."""
    narrow = parts.astype(np.min_scalar_type(parts.max(initial=0)))  # so that more of it is in the cache
    return add_up_nodes(graph.offsets, lambda begin, end: _cut(graph, narrow, begin, end)) // 2


@compiled
def _cut(graph: Graph, parts: npt.NDArray[Any], begin: int, end: int) -> int:
    """Return the weight of the half-edges of the nodes from ``begin`` to ``end`` that are cut."""
    cut = 0
    for v in range(begin, end):
        own = parts[v]
        near = graph.neighbours[graph.offsets[v] : graph.offsets[v + 1]]
        weights = graph.edge_weights[graph.offsets[v] : graph.offsets[v + 1]]
        if len(weights):
            for i in range(len(near)):
                cut += (own != parts[unsigned(near[i])]) * weights[i]
        else:
            for neighbour in near:
                cut += own != parts[unsigned(neighbour)]
    return cut


def without_light_edges(graph: Graph, count: int, tuning: Tuning) -> Graph:
    """Return a dense graph of clusters of many partitions without its lightest edges.

    Their clusters are small, and most edges between these stand for an edge or two that lead anywhere.
    With 64 for each cluster, METIS takes 1.7 instead of 3.1 s for 64 partitions of 3.9 million edges, and
    three fifths of that with 32. Its cut is as small once it has been refined with all edges. With few
    partitions it would cost up to a tenth of the cut.

    Args:
        graph: The graph; it is returned as it is if the heaviest edges have less than half of the weight.
        count: Number of partitions.
        tuning: What is many, and what is dense.

    Peak memory: 17 bytes a half-edge.
    """
    most = tuning.dense * graph.num_nodes
    if count <= tuning.many_parts or graph.num_half_edges <= most or not len(graph.node_weights):
        return graph
    weights = graph.edge_weights
    kept = weights > value_at(weights, graph.num_half_edges - most)
    if 2 * weights[kept].sum() < weights.sum():
        return graph
    before = np.zeros(len(kept) + 1, np.int64)
    np.cumsum(kept, out=before[1:])
    offsets = before[graph.offsets]
    return graph._replace(offsets=offsets, neighbours=graph.neighbours[kept], edge_weights=weights[kept])


def value_at(values: Integers, place: int) -> int:
    """Return what would be at a place of the sorted ``values``, which are 0 or more.

    It counts them by their first bits. Weights of edges have few different values, with which
    `numpy.partition` takes twenty times as long: a second of the partitioning of 3.9 million edges into 64
    partitions.

    Peak memory: 16 bytes a value.
    """
    first = 0
    while True:
        shift = max(int(values.max()).bit_length() - MOST_COUNTED_BITS, 0)
        groups = values >> shift
        ends = np.cumsum(np.bincount(groups))
        group = int(np.searchsorted(ends, place, side="right"))
        first += group << shift
        if shift == 0:
            return first
        place -= int(ends[group - 1]) if group else 0
        values = values[groups == group] - (group << shift)
