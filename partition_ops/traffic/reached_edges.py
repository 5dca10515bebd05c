"""`reached`, the edges that batches can sample."""

from __future__ import annotations

from collections import deque
from functools import partial
from itertools import pairwise

import numpy as np

from partition_ops.system.compilation import compiled, unsigned
from partition_ops.system.parallel import map_in_threads
from partition_ops.traffic.sampled_edges import Counts, Ids, SampledEdges

PIECES = 1 << 6  # of the edges, by source: threads go through them


def reached(edges: SampledEdges, train: Ids, layers: int) -> SampledEdges:
    """Return the edges that batches can sample, in their order; the arrays of ``edges`` are overwritten.

    The model expects the same of them: the others have no part in it. Where a part of a type is trained,
    they are up to seven of eight groups, so that evaluations take as little as a third of the time.

    Args:
        edges: All edges.
        train: (nodes,) bool, the train nodes.
        layers: Number of layers.

    Peak memory: 2 bytes a node, and 17 bytes a group.
    """
    near, sources = np.array(train, np.bool_), np.zeros(edges.num_nodes, np.bool_)
    ends = np.searchsorted(edges.first, np.linspace(0, edges.num_edges, PIECES + 1).astype(np.int64)[1:-1])
    spans = [*pairwise([0, *ends.tolist(), edges.num_nodes])]
    mark = partial(_mark_sources, edges.first, edges.groups, edges.group_nodes, near, sources)
    for _ in range(layers - 1):
        deque(map_in_threads(lambda span: mark(*span), spans), maxlen=0)
        near |= sources  # in place
    kept: Ids = near[edges.group_nodes]
    if kept.all():
        return edges
    numbers = np.cumsum(kept, dtype=edges.groups.dtype) - 1
    begins = [int(edges.first[begin]) for begin, _ in spans]

    def keep(piece: tuple[int, tuple[int, int]]) -> int:
        begin, span = piece
        return _keep(edges.first, edges.groups, kept, numbers, begin, *span)

    count = 0
    counts = map_in_threads(keep, zip(begins, spans, strict=True))
    for begin, (first, last), own in zip(begins, spans, [*counts], strict=True):
        edges.groups[count : count + own] = edges.groups[begin : begin + own]
        edges.first[first + 1 : last + 1] += count - begin
        count += own
    real = edges.num_groups - len(edges.joined)
    joined = numbers[edges.joined[kept[real:]]].astype(np.int64)
    return SampledEdges(
        edges.first, edges.groups[:count], edges.group_nodes[kept], edges.group_sizes[kept], joined
    )


@compiled
def _mark_sources(
    first: Counts, groups: Ids, group_nodes: Ids, near: Ids, sources: Ids, begin: int, end: int
) -> None:
    """Mark the nodes from ``begin`` to ``end`` with an edge to a node that is near."""
    for node in range(begin, end):
        for i in range(first[node], first[node + 1]):
            if near[unsigned(group_nodes[unsigned(groups[unsigned(i)])])]:
                sources[node] = True
                break


@compiled
def _keep(
    first: Counts, groups: Ids, kept: Ids, numbers: Ids, begin: int, first_node: int, last_node: int
) -> int:
    """Keep the out-edges of some nodes that belong to some groups, with the new numbers of these.

    Other threads change what belongs to other nodes: ``first`` of the first one is the last of those before.

    Args:
        first: (nodes + 1,) int64, changed: where the out-edges of each of these nodes end now.
        groups: See `SampledEdges`; changed from ``begin`` on.
        kept: (groups,) bool.
        numbers: (groups,) the new numbers.
        begin: Where the edges of the first node begin.
        first_node: The first node.
        last_node: The end of the nodes.

    Returns:
        How many edges are kept; they follow ``begin``.
    """
    at = where = begin
    for node in range(first_node, last_node):
        end = first[node + 1]
        for i in range(where, end):
            group = unsigned(groups[unsigned(i)])
            if kept[group]:
                groups[unsigned(at)] = numbers[group]
                at += 1
        where = end
        first[node + 1] = at
    return at - begin
