"""A graph of which each MPI rank has the neighbours of consecutive nodes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.mpi.mpirun import meet
from partition_ops.stages.partition.multilevel.cluster import merge
from partition_ops.stages.partition.multilevel.graph import (
    NOTHING,
    Graph,
    Integers,
    Labels,
    Numbers,
    largest_degree,
)
from partition_ops.stages.partition.multilevel.spread import Powers, Whole
from partition_ops.stages.partition.multilevel.tuning import LOOKED_UP

AT_ONCE = 1 << 12  # nodes that leave a partition that is too full
MOST_OF_A_MESSAGE = 1 << 27  # numbers; MPI counts in 32 bits


class SpreadOverRanks(Whole):
    """Rank ``r`` has the neighbours of the nodes from ``bounds[r]`` to ``bounds[r + 1]``.

    Args:
        comm: The communicator of all ranks.
        nodes: Number of nodes of the whole graph.
        offset: Returns the position of a node's first neighbour in the whole graph.
        read_all: Returns the whole graph, in rank 0.

    Attributes:
        bounds: (ranks + 1,) int64; the ranks have about as many nodes and half-edges each.

    Peak memory: 8 bytes a node, or 16 if a rank has 2**31 half-edges or more; the neighbours of the nodes of
    a batch that move; and in `together` 36 bytes a half-edge of a rank's part of the contracted graph.
    """

    def __init__(
        self, comm: Any, nodes: int, offset: Callable[[int], int], read_all: Callable[[], Graph]
    ) -> None:
        self._comm, self._nodes, self._read_all = comm, nodes, read_all
        self._half_edges = offset(nodes)
        before = (self._half_edges + nodes) * comm.rank // comm.size
        begin = bisect_left(range(nodes), before, key=lambda node: offset(node) + node)
        self.bounds = np.array([*comm.allgather(begin), nodes], np.int64)
        self._connected, self._largest = 0, 0
        self._gathered = np.zeros(0, np.int32)
        self.graph = Graph(self._gathered, np.zeros(0, np.int32), NOTHING, NOTHING)

    @property
    def own(self) -> slice:
        """The nodes whose neighbours this rank has."""
        return slice(*self.bounds[self._comm.rank : self._comm.rank + 2].tolist())

    def take(self, offsets: Integers, neighbours: Labels) -> Graph:
        """Take the neighbours of this rank's nodes; return the graph of this rank.

        Args:
            offsets: (own nodes + 1,) int64, where the neighbours of each node begin, from 0.
            neighbours: (half-edges,) int32.

        Returns:
            A graph of all nodes, of which those of other ranks have no neighbours.
        """
        from mpi4py import MPI

        own, count = self.own, len(neighbours)
        self._connected = self._comm.allreduce(int(np.count_nonzero(np.diff(offsets))), MPI.SUM)
        self._largest = self._comm.allreduce(int(largest_degree(offsets)), MPI.MAX)
        fits = count <= np.iinfo(np.int32).max
        of_all: Numbers = np.zeros(self._nodes + 1, np.int32 if fits else np.int64)
        of_all[own.start : own.stop + 1] = offsets
        of_all[own.stop + 1 :] = count
        self.graph = Graph(of_all, np.asarray(neighbours), NOTHING, NOTHING)
        return self.graph

    def half_edges(self, graph: Graph) -> int:
        return self._half_edges

    def connected(self, graph: Graph) -> int:
        return self._connected

    def of_all(self, powers: Powers) -> Powers:
        from mpi4py import MPI

        meet(self._comm)
        for some in _messages(powers):
            self._comm.Allreduce(MPI.IN_PLACE, some, MPI.MAX)
        return powers

    def most_looked_up(self, graph: Graph) -> int:
        return max(LOOKED_UP, self._largest)

    def agree(self, proposed: npt.NDArray[Any], before: npt.NDArray[Any]) -> None:
        from mpi4py import MPI

        change = proposed - before  # 0 but in the rank that has the neighbours; wraps around
        meet(self._comm)
        self._comm.Allreduce(MPI.IN_PLACE, change, MPI.SUM)
        np.add(before, change, out=proposed)

    def moving(
        self, graph: Graph, span: slice, proposed: npt.NDArray[Any], before: npt.NDArray[Any]
    ) -> Graph:
        self.agree(proposed[span], before[span])
        nodes = span.start + np.flatnonzero(proposed[span] != before[span])
        return self._around(nodes) if len(nodes) else graph

    def for_each(
        self, work: Callable[[Integers], npt.NDArray[np.float64]], nodes: Integers
    ) -> npt.NDArray[np.float64]:
        places = np.searchsorted(nodes, self.bounds)
        found = np.empty(len(nodes))
        mine = work(nodes[places[self._comm.rank] : places[self._comm.rank + 1]])
        meet(self._comm)
        self._comm.Allgatherv(mine, [found, np.diff(places)])
        return found

    def in_turns(self, graph: Graph, nodes: Integers) -> Iterator[tuple[Integers, Graph]]:
        for begin in range(0, len(nodes), AT_ONCE):
            some = nodes[begin : begin + AT_ONCE]
            yield some, self._around(np.sort(some))

    def _around(self, nodes: Integers) -> Graph:
        """Return a graph that has the neighbours of some nodes, in ascending order, on every rank."""
        places = np.searchsorted(nodes, self.bounds)
        own = nodes[places[self._comm.rank] : places[self._comm.rank + 1]]
        begins = self.graph.offsets[own].astype(np.int64)
        theirs = self.graph.offsets[own + 1] - begins
        degrees = np.empty(len(nodes), np.int64)
        self._comm.Allgatherv(theirs, [degrees, np.diff(places)])
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])
        first = np.concatenate([np.zeros(1, np.int64), np.cumsum(theirs)])
        mine = self.graph.neighbours[np.repeat(begins - first[:-1], theirs) + np.arange(first[-1])]
        found = np.empty(ends[-1], np.int32)
        meet(self._comm)
        self._comm.Allgatherv(mine, [found, np.diff(ends[places])])
        if not len(self._gathered):
            self._gathered = np.zeros_like(self.graph.offsets)
        self._gathered[nodes], self._gathered[nodes + 1] = ends[:-1], ends[1:]
        return self.graph._replace(offsets=self._gathered, neighbours=found)

    def together(self, graph: Graph) -> Graph:
        """Return the graph with the edges of all ranks, in their order, in rank 0.

        Each rank merges what all ranks have of a part of the nodes, and rank 0 puts these parts together.
        """
        comm = self._comm
        bounds = (graph.num_nodes * np.arange(comm.size + 1) // comm.size).tolist()
        part = self._merged_part(graph, bounds)
        counts = comm.gather(part.num_half_edges)
        meet(comm)
        offsets = np.zeros(graph.num_nodes + 1, np.int64)
        if comm.rank > 0:
            for request in self._send([part.offsets[1:], part.neighbours, part.edge_weights], 0):
                request.Wait()
            return graph._replace(offsets=offsets, neighbours=part.neighbours[:0], edge_weights=NOTHING)
        neighbours, edge_weights = np.empty(sum(counts), np.int32), np.empty(sum(counts), np.int64)
        before = 0
        for rank, (begin, end) in enumerate(pairwise(bounds)):
            here = slice(before, before + counts[rank])
            arrays = offsets[begin + 1 : end + 1], neighbours[here], edge_weights[here]
            if rank == 0:
                arrays[0][:], arrays[1][:], arrays[2][:] = (
                    part.offsets[1:],
                    part.neighbours,
                    part.edge_weights,
                )
            else:
                self._receive(arrays, rank)
            arrays[0][:] += before
            before = here.stop
        return graph._replace(offsets=offsets, neighbours=neighbours, edge_weights=edge_weights)

    def _merged_part(self, graph: Graph, bounds: list[int]) -> Graph:
        """Return the neighbours that all ranks have of the nodes of this rank's part, in their order."""
        comm = self._comm
        parts = [_rows(graph, begin, end) for begin, end in pairwise(bounds)]
        counts = comm.alltoall([part.num_half_edges for part in parts])
        meet(comm)
        sent = []
        for rank, part in enumerate(parts):
            if rank != comm.rank:
                sent += self._send(part[:3], rank)
        nodes = bounds[comm.rank + 1] - bounds[comm.rank]
        merged = _empty(nodes, 0)
        for rank, count in enumerate(counts):
            found = parts[rank]
            if rank != comm.rank:
                found = _empty(nodes, count)
                self._receive(found[:3], rank)
            merged = found if rank == 0 else merge(merged, found, graph.num_nodes)
        for request in sent:
            request.Wait()
        return merged

    def once(self, work: Callable[[Graph], Labels], graph: Graph, count: int) -> Labels:
        found = np.empty(count, np.int32)
        if self._comm.rank == 0:
            found[:] = work(self._read_all() if graph is self.graph else graph)
        meet(self._comm)
        for some in _messages(found):
            self._comm.Bcast(some)
        return found

    def _send(self, arrays: Iterable[npt.NDArray[Any]], rank: int) -> list[Any]:
        """Start to send arrays; return the requests to wait for."""
        return [self._comm.Isend(some, rank) for array in arrays for some in _messages(array)]

    def _receive(self, arrays: Iterable[npt.NDArray[Any]], rank: int) -> None:
        for array in arrays:
            for some in _messages(array):
                self._comm.Recv(some, rank)


def _messages(array: npt.NDArray[Any]) -> Iterator[npt.NDArray[Any]]:
    """Yield views of an array that are small enough for a message each."""
    for begin in range(0, len(array), MOST_OF_A_MESSAGE):
        yield array[begin : begin + MOST_OF_A_MESSAGE]


def _rows(graph: Graph, begin: int, end: int) -> Graph:
    """Return a graph of some consecutive nodes only, whose neighbours are any nodes."""
    first, last = graph.offsets[begin], graph.offsets[end]
    offsets = graph.offsets[begin : end + 1] - first
    return Graph(offsets, graph.neighbours[first:last], graph.edge_weights[first:last], NOTHING)


def _empty(nodes: int, half_edges: int) -> Graph:
    """Return a graph to receive."""
    offsets, neighbours = np.zeros(nodes + 1, np.int64), np.empty(half_edges, np.int32)
    return Graph(offsets, neighbours, np.empty(half_edges, np.int64), NOTHING)
