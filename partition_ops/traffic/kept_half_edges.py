"""Half-edges that ``prepare`` leaves for ``partition`` in the same process, which then reads no files."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError
from contextlib import ExitStack, closing, suppress
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_validation_report
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.storage import Store
from partition_ops.system.compilation import compiled, unsigned
from partition_ops.system.parallel import begin_in_thread, map_in_threads
from partition_ops.traffic.sampled_edges import Counts, GroupNumbers, Ids, SampledEdges


class HalfEdgesByRange(NamedTuple):
    """Both half-edges of each edge of a graph, by range of nodes, and in a range in the order of the edges.

    The half-edge at the source has the homogeneous ID of the destination as its *neighbour*; the one at the
    destination has ``~ID`` of the source. A self-loop has only that one.
    """

    shift: int  # binary logarithm of the number of nodes in a range
    # (blocks, ranges) int64: how many half-edges each block of edges of one type has in each range
    sizes: Counts
    types: Sequence[int]  # edge type ID of each block
    num_edges: Sequence[int]  # edges with their source in each range
    # returns the rows, nodes from the first of the range, and the neighbours of a range, block after block
    read: Callable[[int], tuple[Ids, Ids]]


class KeptHalfEdges:
    """Where ``prepare`` leaves half-edges, and ``partition`` takes them; whoever makes it closes it.

    Args:
        begin: Whether a thread makes the edges at once, while the graph goes to the disk; otherwise they are
            made when they are taken.

    Peak memory, from `keep` or `take` on: as of `read_sampled_edges` less 8 bytes an edge, and for each core
    10 bytes a half-edge of a range. The edges stay until they are taken or this is closed.
    """

    def __init__(self, *, begin: bool = False) -> None:
        self._begin = begin
        self._edges: Callable[[], SampledEdges] | None = None
        self._wanted = threading.Event()
        self._stack = ExitStack()

    def close(self) -> None:
        """Remove the half-edges, if there are any, when no thread reads them any more."""
        self._wanted.clear()
        if self._begin and self._edges is not None:
            with suppress(Exception):  # nobody takes them
                self._edges()
        self._edges = None
        self._stack.close()

    def keep(self, kept: HalfEdgesByRange, stack: ExitStack, metadata: GraphMetadata, run: Store) -> None:
        """Keep half-edges instead of those before.

        Args:
            kept: The half-edges.
            stack: Removes the file that they are in.
            metadata: The graph's metadata.
            run: Root of the run, in which the graph has been validated.
        """
        self.close()
        self._stack = stack
        wanted = self._wanted = threading.Event()
        wanted.set()

        def read(number: int) -> tuple[Ids, Ids]:
            if not wanted.is_set():
                raise CancelledError  # nobody takes the edges
            return kept.read(number)

        def make() -> SampledEdges:
            return sampled_edges_of(kept._replace(read=read), metadata, parallel=_may_be_parallel(run))

        self._edges = begin_in_thread(make).result if self._begin else make

    def take(self) -> SampledEdges | None:
        """Return what `read_sampled_edges` would, and remove the half-edges; None if there are none.

        Raises:
            OSError: The temporary file cannot be read.
        """
        with closing(self):
            return None if self._edges is None else self._edges()


def _may_be_parallel(run: Store) -> bool:
    """Return whether two edges may have the same ends: not if validation has looked, and found none."""
    if not run.exists(layout.VALIDATION_REPORT):
        return True
    metrics = read_validation_report(run).get("metrics", {})
    counts = [one.get("parallel_edges") for one in metrics.get("graph", ({},))]
    counts += [one.get("duplicate_edges") for one in metrics.get("edge_types", ())]
    return any(count != 0 for count in counts)  # None if it was not measured


def sampled_edges_of(kept: HalfEdgesByRange, metadata: GraphMetadata, *, parallel: bool) -> SampledEdges:
    """Return the edges of a graph by source from its half-edges.

    Args:
        kept: The half-edges.
        metadata: The graph's metadata.
        parallel: Whether two edges may have the same source and the same destination.
    """
    numbers = GroupNumbers.of_graph(metadata)
    first = np.zeros(numbers.num_nodes + 1, np.int64)
    bounds = [*accumulate(kept.num_edges, initial=0)]
    groups, group_sizes = np.empty(bounds[-1], numbers.group), np.zeros(numbers.most, np.int64)
    shifts = np.array([numbers.shift(type_id) for type_id in kept.types], np.int64)

    def place(number: int) -> None:
        rows, neighbours = kept.read(number)
        begin = number << kept.shift
        after = first[begin + 1 : begin + 1 + (1 << kept.shift)]
        places = np.empty(len(after), np.int64)
        dense = np.empty(kept.num_edges[number], numbers.group)
        sizes = np.ascontiguousarray(kept.sizes[:, number])
        _out_edges(rows, neighbours, begin, sizes, shifts, dense, after, group_sizes)
        _place(rows[: len(dense)], dense, bounds[number], after, places, groups)

    deque(map_in_threads(place, range(len(kept.num_edges))), maxlen=0)
    return numbers.numbered(first, groups, group_sizes, parallel=parallel)


@compiled
def _out_edges(
    rows: Ids,
    neighbours: Ids,
    begin: int,
    sizes: Counts,
    shifts: Counts,
    dense: Ids,
    counts: Counts,
    group_sizes: Counts,
) -> None:
    """Find the edges with their source in a range, in their order; count those with their destination there.

    Args:
        rows: (half-edges,) unsigned, of a range; output: the row of each edge's source, at its beginning.
        neighbours: (half-edges,).
        begin: First node of the range.
        sizes: (blocks,) int64, half-edges of each block.
        shifts: (blocks,) int64, see `GroupNumbers.shift`.
        dense: (edges,) output: the number of each edge's group.
        counts: (nodes of the range,) int64, zeros; output: how many edges each source has.
        group_sizes: (groups,) int64; the edges to nodes of the range are added.
    """
    at, i = 0, 0
    for block in range(len(sizes)):
        for _ in range(sizes[block]):
            row, other = np.int64(rows[unsigned(i)]), np.int64(neighbours[unsigned(i)])
            i += 1
            if other < 0:
                group_sizes[unsigned(begin + row + shifts[block])] += 1
                other = np.int64(~other)
                if other != begin + row:
                    continue  # the edge is another node's
            rows[unsigned(at)] = row
            dense[unsigned(at)] = other + shifts[block]
            counts[unsigned(row)] += 1
            at += 1


@compiled
def _place(rows: Ids, dense: Ids, first: int, after: Counts, places: npt.NDArray[Any], groups: Ids) -> None:
    """Write the groups of a range's edges by source.

    Args:
        rows: (edges,) the row of each source.
        dense: (edges,) groups.
        first: Where the edges of the range begin.
        after: (nodes,) int64, how many edges each source has; output: where they end.
        places: (nodes,) int64, overwritten.
        groups: Output.
    """
    for row in range(len(after)):
        places[row] = first
        first += after[row]
        after[row] = first
    for i in range(len(rows)):
        row = unsigned(rows[i])
        groups[unsigned(places[row])] = dense[i]
        places[row] += 1
