"""A graph of which each MPI rank has the neighbours of consecutive nodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
    largest_degree,
)
from partition_ops.stages.partition.multilevel.spread import Whole
from partition_ops.stages.partition.multilevel.tuning import LOOKED_UP

AT_ONCE = 1 << 12  # nodes that leave a partition that is too full
MOST_OF_A_MESSAGE = 1 << 27  # numbers; MPI counts in 32 bits


class SpreadOverRanks(Whole):
    """Rank ``r`` has the neighbours of the nodes from ``bounds[r]`` to ``bounds[r + 1]``.

    Args:
        comm: The communicator of all ranks.
        offsets: (nodes + 1,) int64, of the whole graph.
        read_all: Returns the whole graph, in rank 0.

    Attributes:
        bounds: (ranks + 1,) int64; the ranks have about as many nodes and half-edges each.

    Peak memory: 16 bytes a node, and the neighbours of the nodes of a batch that move.
    """

    def __init__(self, comm: Any, offsets: Integers, read_all: Callable[[], Graph]) -> None:
        self._comm, self._offsets, self._read_all = comm, offsets, read_all
        nodes = len(offsets) - 1
        work = offsets + np.arange(nodes + 1)
        self.bounds = np.searchsorted(work, work[-1] * np.arange(comm.size + 1) // comm.size)
        self.bounds[-1] = nodes
        self._gathered = np.zeros(nodes + 1, np.int64)
        self.graph = Graph(self._gathered, np.zeros(0, np.int32), NOTHING, NOTHING)

    @property
    def own(self) -> slice:
        """The nodes whose neighbours this rank has."""
        return slice(*self.bounds[self._comm.rank : self._comm.rank + 2].tolist())

    def take(self, neighbours: Labels) -> Graph:
        """Take (half-edges,) int32, the neighbours of this rank's nodes; return the graph of this rank.

        It has all nodes, of which those of other ranks have no neighbours.
        """
        own = self.own
        offsets = self._offsets.clip(self._offsets[own.start], self._offsets[own.stop])
        offsets -= offsets[0]
        self.graph = Graph(offsets, neighbours, NOTHING, NOTHING)
        return self.graph

    def offsets(self, graph: Graph) -> Integers:
        return self._offsets

    def most_looked_up(self, graph: Graph) -> int:
        return max(LOOKED_UP, largest_degree(self._offsets))

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
        degrees = self._offsets[nodes + 1] - self._offsets[nodes]
        ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(degrees)])
        places = np.searchsorted(nodes, self.bounds)
        first, last = places[self._comm.rank], places[self._comm.rank + 1]
        begins = self.graph.offsets[nodes[first:last]] - (ends[first:last] - ends[first])
        own = np.repeat(begins, degrees[first:last]) + np.arange(ends[last] - ends[first])
        mine = self.graph.neighbours[own]
        found = np.empty(ends[-1], np.int32)
        meet(self._comm)
        self._comm.Allgatherv(mine, [found, np.diff(ends[places])])
        self._gathered[nodes], self._gathered[nodes + 1] = ends[:-1], ends[1:]
        return self.graph._replace(offsets=self._gathered, neighbours=found)

    def together(self, graph: Graph) -> Graph:
        """Return the graph with the edges of all ranks, in their order, in rank 0."""
        for rank in range(1, self._comm.size):
            meet(self._comm)
            if self._comm.rank == rank:
                for array in graph[:3]:
                    self._send(array)
            if self._comm.rank == 0:
                names = ("offsets", "neighbours", "edge_weights")
                found = {name: self._receive(rank, getattr(graph, name).dtype) for name in names}
                graph = merge(graph, graph._replace(**found))
        if self._comm.rank > 0:
            return graph._replace(
                offsets=np.zeros_like(graph.offsets), neighbours=graph.neighbours[:0], edge_weights=NOTHING
            )
        return graph

    def once(self, work: Callable[[Graph], Labels], graph: Graph, count: int) -> Labels:
        found = np.empty(count, np.int32)
        if self._comm.rank == 0:
            found[:] = work(self._read_all() if graph is self.graph else graph)
        meet(self._comm)
        for begin in range(0, count, MOST_OF_A_MESSAGE):
            self._comm.Bcast(found[begin : begin + MOST_OF_A_MESSAGE])
        return found

    def _send(self, array: npt.NDArray[Any]) -> None:
        self._comm.send(len(array), 0)
        for begin in range(0, len(array), MOST_OF_A_MESSAGE):
            self._comm.Send(array[begin : begin + MOST_OF_A_MESSAGE], 0)

    def _receive(self, rank: int, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
        array = np.empty(self._comm.recv(source=rank), dtype)
        for begin in range(0, len(array), MOST_OF_A_MESSAGE):
            self._comm.Recv(array[begin : begin + MOST_OF_A_MESSAGE], rank)
        return array
