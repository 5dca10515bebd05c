"""Where the neighbours of the nodes are: all in this process, or spread over several.

The steps of a partitioning make a proposal for each node of a batch, from the state before the batch, and
then enter the proposals one by one. A process that has the neighbours of some nodes only takes the others for
nodes without neighbours, and proposes that they stay. So the proposals of all processes together are those of
one that has all neighbours, and every process enters them alike.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.stages.partition.multilevel.graph import Graph, Integers, Labels, most_looked_up

Powers = npt.NDArray[np.uint8]


class Whole:
    """All neighbours are in this process."""

    def half_edges(self, graph: Graph) -> int:
        """Return the number of half-edges of the graph with all neighbours."""
        return graph.num_half_edges

    def connected(self, graph: Graph) -> int:
        """Return how many nodes have neighbours."""
        return int(np.count_nonzero(graph.offsets[1:] > graph.offsets[:-1]))

    def of_all(self, powers: Powers) -> Powers:
        """Return (nodes,) uint8, the largest that a process has for each node; the argument may change."""
        return powers

    def most_looked_up(self, graph: Graph) -> int:
        """Return `graph.most_looked_up` of the graph with all neighbours."""
        return most_looked_up(graph)

    def agree(self, proposed: npt.NDArray[Any], before: npt.NDArray[Any]) -> None:
        """Set the proposals of some nodes to those of all processes; ``before`` is what each one is now."""

    def moving(
        self, graph: Graph, span: slice, proposed: npt.NDArray[Any], before: npt.NDArray[Any]
    ) -> Graph:
        """As `agree`, for the nodes of ``span`` in arrays of all; return a graph with their neighbours.

        Those of nodes that are to stay may be missing.
        """
        return graph

    def for_each(
        self, work: Callable[[Integers], npt.NDArray[np.float64]], nodes: Integers
    ) -> npt.NDArray[np.float64]:
        """Return what ``work`` returns for some nodes, in order; it looks at their neighbours."""
        return work(nodes)

    def in_turns(self, graph: Graph, nodes: Integers) -> Iterator[tuple[Integers, Graph]]:
        """Yield nodes in their order, some at a time, each time with a graph that has their neighbours."""
        yield nodes, graph

    def together(self, graph: Graph) -> Graph:
        """Return a contracted graph with the edges of all processes; in all but one, without any edges."""
        return graph

    def once(self, work: Callable[[Graph], Labels], graph: Graph, count: int) -> Labels:
        """Return what ``work`` returns in the one process: (count,) int32. It gets all neighbours."""
        return work(graph)


WHOLE = Whole()
