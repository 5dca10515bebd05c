"""Edges between the same two nodes, which sampling takes together if it takes the destination at all.

An edge and its parallels, such as a citation and the reverse of one in the other direction, become one edge
whose group is *joined*: it stands for the groups of all of them. The events that each of them is sampled are
not independent, because they need the same destination in the batch.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled, unsigned
from partition_ops.system.parallel import cores, map_in_threads

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
MOST_READERS = 4  # threads; each has an entry for each node
NONE = -1


def has_parallel_edges(first: Counts, groups: Ids, group_nodes: Ids) -> bool:
    """Return whether two edges have the same ends; the arguments are attributes of `SampledEdges`.

    Peak memory: 4 or 8 bytes a node for each core, up to four.
    """
    nodes = len(first) - 1
    bounds = np.linspace(0, nodes, min(cores(), MOST_READERS) + 1).astype(np.int64)

    def find(ends: tuple[int, int]) -> bool:
        seen = np.full(nodes, NONE, group_nodes.dtype)
        return bool(_is_parallel(first, groups, group_nodes, seen, *ends))

    return any([*map_in_threads(find, pairwise(bounds.tolist()))])


def join_parallel_edges(first: Counts, groups: Ids, group_nodes: Ids) -> tuple[Ids, Ids]:
    """Replace parallel edges by one edge, in place: the others move up.

    The first ``first[-1]`` groups are the edges afterwards.

    Returns:
        The groups, of a dtype that has room for the joined ones, and `SampledEdges.joined`.

    Peak memory: 24 bytes a node, and 48 a joined group; a copy of the groups if there are more than 2**31.
    """
    nodes, real = len(first) - 1, len(group_nodes)
    seen, newest = np.full(nodes, NONE, np.int64), np.full(nodes, NONE, np.int64)
    begins = first.copy()
    joined = np.empty((0, 3), np.int64)
    state = np.zeros(3, np.int64)  # the next source, the edges so far, the joined groups so far
    while state[0] < nodes:
        room = max(2 * len(joined), 1024, int(begins[state[0] + 1] - begins[state[0]]))
        joined = np.concatenate([joined, np.empty((room, 3), np.int64)])
        if groups.dtype == np.int32 and real + len(joined) > np.iinfo(np.int32).max:
            groups = groups.astype(np.int64)
        _join(begins, groups, group_nodes, seen, newest, joined, first, state)
    first[nodes] = state[1]
    return groups, joined[: state[2], :2].copy()


@compiled
def _is_parallel(first: Ids, groups: Ids, group_nodes: Ids, seen: Ids, begin: int, end: int) -> bool:
    """Return whether a source from ``begin`` to ``end`` has two edges to a node; ``seen`` is changed."""
    for u in range(begin, end):
        for e in range(first[u], first[u + 1]):
            v = unsigned(group_nodes[unsigned(groups[unsigned(e)])])
            if seen[v] == u:
                return True
            seen[v] = u
    return False


@compiled
def _join(
    begins: Ids,
    groups: Ids,
    group_nodes: Ids,
    seen: Counts,
    newest: Counts,
    joined: Ids,
    first: Ids,
    state: Ids,
) -> None:
    """Join the parallel edges of sources, while there is room for their groups.

    Args:
        begins: (nodes + 1,) where the edges of each source begin before.
        groups: See `SampledEdges`; changed.
        group_nodes: See `SampledEdges`.
        seen: (nodes,) the newest edge to each node; changed.
        newest: (nodes,) the newest joined group of each node; changed.
        joined: (room, 3) the two groups of each joined one, and the one before of the same node; changed.
        first: (nodes + 1,) where they begin afterwards; output.
        state: (3,) the next source, the edges so far, the joined groups so far; changed.
    """
    u, kept, count = state[0], state[1], state[2]
    real = len(group_nodes)
    while u < len(begins) - 1 and count + begins[u + 1] - begins[u] <= len(joined):
        first[u] = kept
        for e in range(begins[u], begins[u + 1]):
            group = groups[e]
            v = group_nodes[group]
            if seen[v] < first[u]:
                seen[v] = kept
                groups[kept] = group
                kept += 1
                continue
            other, found = groups[seen[v]], newest[v]
            while found >= 0 and (joined[found, 0] != other or joined[found, 1] != group):
                found = joined[found, 2]
            if found < 0:
                found = count
                joined[found, 0], joined[found, 1], joined[found, 2] = other, group, newest[v]
                newest[v] = found
                count += 1
            groups[seen[v]] = real + found
        u += 1
    state[0], state[1], state[2] = u, kept, count
