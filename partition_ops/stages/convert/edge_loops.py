"""The compiled loops of conversion, each linear in its input."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.system.compilation import compiled, compiled_with_arrays, unsigned

Ids = npt.NDArray[Any]
Counts = npt.NDArray[np.int64]
Owners = npt.NDArray[np.uint16]
RANGES = 4096  # of new IDs
LEFT_TO = 2  # mark of a node that is only the destination of an edge that leaves the partition


@compiled_with_arrays
def look_up(ids: Ids, offset: int, numbers: Ids) -> Ids:
    """Return the number of each node, in the dtype of ``numbers``.

    In a loop that does nothing else, the processor waits for many of them at once: more than twice as fast
    if they are not in the cache.

    Args:
        ids: (n,) type-wise IDs of one type.
        offset: First homogeneous ID of that type.
        numbers: (nodes,) by homogeneous ID.
    """
    found = np.empty(len(ids), numbers.dtype)
    for i in range(len(ids)):
        found[i] = numbers[unsigned(ids[i] + offset)]
    return found


@compiled_with_arrays
def count_owners(new_ids: Ids, starts: Counts, counts: Counts) -> Owners:
    """Return the partition of each node, and add to ``counts`` how many each partition has.

    A table of ranges of new IDs stays in the cache; one with an entry for each node would not.

    Args:
        new_ids: (n,) new IDs.
        starts: (partitions + 1,) int64, first new ID of each partition.
        counts: (partitions,) int64.
    """
    shift = 0
    while starts[-1] >> shift >= RANGES:
        shift += 1
    firsts = np.empty((starts[-1] >> shift) + 1, np.uint16)  # the partition that each range begins in
    part = 0
    for place in range(len(firsts)):
        while part + 1 < len(counts) and starts[part + 1] <= place << shift:
            part += 1
        firsts[place] = part
    owners = np.empty(len(new_ids), np.uint16)
    for i in range(len(new_ids)):
        node = np.int64(new_ids[i])
        owner = np.int64(firsts[unsigned(node >> shift)])
        while starts[unsigned(owner + 1)] <= node:
            owner += 1
        owners[i] = owner
        counts[unsigned(owner)] += 1
    return owners


@compiled_with_arrays
def split_edges(
    src: Ids,
    dst: Ids,
    edge_ids: Ids,
    owners: Owners,
    starts: Counts,
    counts: Counts,
    done: Counts,
    segment: Ids,
) -> None:
    """Enter a block of edges into the segment that holds them by partition.

    Args:
        src: (n,) new IDs of the sources.
        dst: (n,) new IDs of the destinations.
        edge_ids: (n,) type-wise IDs of the edges.
        owners: (n,) the partition of each destination.
        starts: (partitions + 1,) int64, first new ID of each partition.
        counts: (partitions,) int64, edges that each partition owns in the segment.
        done: (partitions,) int64, those entered so far; moved on by this.
        segment: (3 * edges,) written: for each partition new IDs of the sources, positions of the
            destinations in the partition, edge IDs.
    """
    begins = np.zeros(len(counts), np.int64)
    for part in range(1, len(counts)):
        begins[part] = begins[part - 1] + 3 * counts[part - 1]
    for i in range(len(src)):
        part = owners[i]
        at = begins[part] + done[part]
        done[part] += 1
        segment[unsigned(at)] = src[i]
        segment[unsigned(at + counts[part])] = dst[i] - starts[part]
        segment[unsigned(at + 2 * counts[part])] = edge_ids[i]


@compiled
def mark_foreign(src: Ids, begin: int, end: int, local: Ids) -> int:
    """Set ``local`` to 1 for sources outside the partition's new IDs; return the number of edges with one."""
    found = 0
    for i in range(len(src)):
        if src[i] < begin or src[i] >= end:
            local[unsigned(src[i])] = 1
            found += 1
    return found


@compiled_with_arrays
def number_marked(local: Ids, first: int) -> Ids:
    """Replace the marks by consecutive local IDs from ``first`` on; return the marked new IDs."""
    count = 0
    for node in range(len(local)):
        count += local[node] != 0
    marked = np.empty(count, np.int64)
    count = 0
    for node in range(len(local)):
        if local[node] != 0:
            local[node] = first + count
            marked[count] = node
            count += 1
    return marked


@compiled_with_arrays
def to_local(ids: Ids, begin: int, end: int, local: Ids) -> Counts:
    """Return (n,) int64 local IDs of new IDs."""
    found = np.empty(len(ids), np.int64)
    for i in range(len(ids)):
        node = ids[i]
        found[i] = node - begin if begin <= node < end else local[unsigned(node)]
    return found


@compiled_with_arrays
def reach(src: Ids, dst: Ids, first: int, inner: tuple[int, int], hop: int, hops: Ids, local: Ids) -> Counts:
    """Return the in-edges of the nodes found one hop before, and mark their sources as found now.

    Args:
        src: (n,) new IDs of the sources.
        dst: (n,) new IDs of the destinations, less ``first``.
        first: First new ID of the partition that has the edges.
        inner: Half-open range of the new IDs of the partition whose halo it is.
        hop: This hop.
        hops: (nodes,) uint8, the hop at which each node was found, up to 255; 0 for those that were not.
        local: (nodes,) set to 1 for nodes that are found.

    Returns:
        int64 indices of the edges, ascending.
    """
    count = 0
    for i in range(len(dst)):
        count += hops[dst[i] + first] == hop - 1
    which = np.empty(count, np.int64)
    count = 0
    for i in range(len(dst)):
        if hops[dst[i] + first] == hop - 1:
            which[count] = i
            count += 1
            node = src[i]
            if hops[node] == 0 and not inner[0] <= node < inner[1]:
                hops[node] = hop
                local[node] = 1
    return which


@compiled_with_arrays
def leave(
    src: Ids, dst: Ids, first: int, inner: tuple[int, int], num_hops: int, hops: Ids, local: Ids
) -> Counts:
    """Return the edges that leave a partition and are not in its halo yet, and mark their destinations.

    Args:
        src: (n,) new IDs of the sources.
        dst: (n,) new IDs of the destinations, less ``first``.
        first: First new ID of the partition that has the edges.
        inner: Half-open range of the new IDs of the partition that they leave.
        num_hops: How far the halo goes: in-edges of nodes that are nearer are already there.
        hops: (nodes,) uint8, the hop at which `reach` found each node; 0 for those that it did not find.
        local: (nodes,) set to `LEFT_TO` for nodes that are found only now.

    Returns:
        int64 indices of the edges, ascending.
    """
    count = 0
    for i in range(len(src)):
        if inner[0] <= src[i] < inner[1]:
            hop = hops[dst[i] + first]
            count += hop == 0 or hop >= num_hops
    which = np.empty(count, np.int64)
    count = 0
    for i in range(len(src)):
        if inner[0] <= src[i] < inner[1]:
            node = dst[i] + first
            if hops[node] == 0 or hops[node] >= num_hops:
                which[count] = i
                count += 1
                if local[node] == 0:
                    local[node] = LEFT_TO
    return which
