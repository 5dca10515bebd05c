"""`TrafficModel`: expected traffic of an assignment, and weights of edges before there is one.

A trainer draws the seeds of a batch from the train nodes of its partition. In every layer, each node of the
batch samples up to the fan-out of its in-edges of each type, without replacement, and their sources enter the
batch: `dgl.dataloading.NeighborSampler`. The input rows of the batch are its distinct nodes; those of other
partitions are fetched.

The model computes the probability that a batch reads each row, by the layer in which a node enters. A node v
that enters in layer j samples each of its d in-edges of a type in each later layer i with probability
y = min(1, fan-out i / d). So an edge misses its source up to layer l with probability
1 - sum over j of P(v enters in j) (1 - prod over i from j + 1 to l of (1 - y)), and a node is outside of the
batch after layer l with the product of these over its out-edges, times the probability that it is no seed.

Edges between the same two nodes miss the source together if the destination is not sampled; they are one
edge here, of a joined group (`parallel_edges`).

The model takes the seeds of a batch, and other edges, as independent of each other. Edges are not if two
nodes of a batch have entered through the same node and have a neighbour in common. The expectation is then
too high: least where batches cover much of what they can reach, most in graphs full of triangles, with
batches that are small relative to the train nodes and three layers or more. docs/decisions/traffic.md has the
errors. Without repeated paths, and for a batch of all train nodes, it is exact. SALIENT++ (MLSys 2023)
computes such probabilities, with the maximum over the layers, to choose the rows that a machine caches.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from partition_ops.system.parallel import map_in_threads
from partition_ops.traffic.loops import (
    MASKS,
    WIDTH,
    Batches,
    Masks,
    add_rows,
    add_weights,
    enter,
    reach,
    take_logs,
    weigh_edges,
    write_messages,
)
from partition_ops.traffic.sampled_edges import SampledEdges, zeros

Parts = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Singles = npt.NDArray[np.float32]
RANGE = 1 << 15  # nodes or groups that a thread takes at a time
FEW_PASSES = 4  # over all nodes; with more, it pays to know which nodes each pass can leave out
FEW = 16  # batches: with so many, the last one of an epoch counts as a share of a full one
Result = TypeVar("Result")
NO_TRAINER, EVERY_TRAINER = -1, -2
ALL = -1  # as a fan-out
NOWHERE_FAR: Masks = np.zeros((0, 0), np.uint64)


@dataclass(frozen=True)
class Sampling:
    """How trainers sample."""

    # number of edges of each type that are sampled for a node, layer by layer as DGL's samplers take them:
    # the last is that of the seeds. -1 means all
    fanouts: tuple[int, ...] = (10, 10)
    batch_size: int = 1024  # number of seeds of a batch


@dataclass(frozen=True)
class Traffic:
    """Expected traffic of the trainers of an assignment, one for each partition."""

    seeds: npt.NDArray[np.int64]  # (parts,) int64, train nodes of each partition
    # (parts,) int64, batches of each trainer in an epoch; 0 without train nodes
    batches: npt.NDArray[np.int64]
    # (parts, parts, node types) float64, expected rows that trainer i reads from partition j in an epoch, by
    # type
    rows: Floats
    # (parts, 2) float64, expected sampled edges of each trainer in an epoch whose source is in its own
    # partition, and in another one
    neighbours: Floats

    @property
    def remote_rows(self) -> Floats:
        """(parts,) float64, expected rows that each trainer fetches from other partitions in an epoch."""
        return self.remote_cost(np.ones(self.rows.shape[2]))

    @property
    def remote_rows_per_batch(self) -> Floats:
        """(parts,) float64, the mean over the batches of an epoch; 0 for a trainer without batches."""
        mean: Floats = self.remote_rows / np.maximum(self.batches, 1)
        return mean

    @property
    def served_rows(self) -> Floats:
        """(parts,) float64, expected rows that others fetch from each partition in an epoch."""
        return self.served_cost(np.ones(self.rows.shape[2]))

    def remote_cost(self, costs: Floats) -> Floats:
        """Return (parts,) float64: as `remote_rows`, each row times the cost of its type, such as bytes."""
        found: Floats = self._remote(costs).sum(axis=1)
        return found

    def served_cost(self, costs: Floats) -> Floats:
        """Return (parts,) float64: as `served_rows`, each row times the cost of its type, such as bytes."""
        found: Floats = self._remote(costs).sum(axis=0)
        return found

    def _remote(self, costs: Floats) -> Floats:
        found: Floats = self.rows @ np.asarray(costs, np.float64)
        np.fill_diagonal(found, 0)
        return found


class TrafficModel:
    """Predicts what trainers read from each other.

    Args:
        edges: The edges of the graph.
        train: (nodes,) bool, the train nodes, by the homogeneous IDs of the edges.
        sampling: How trainers sample.
        node_ranges: Consecutive ranges of homogeneous IDs, and the type of the nodes in each, for figures by
            type: of the input a range for each type, of new IDs one for each type of each partition. If it is
            left out, all nodes are of one type.
        folder: Folder for the large arrays, which are then mapped files; only one call may use it at a time.

    Peak memory of each method: 16 bytes a node for each layer but the last, and 32 bytes a group, and with
    more than 8 partitions 8 bytes a node for each layer and 8 in addition, which are files if there is a
    folder; 64 KiB for each core with 1,024 partitions. Time: a pass over the edges for each layer and each
    four partitions, with twice as many if the trainers have up to 16 batches. A pass of many reads only what
    its trainers can reach. The results do not depend on the number of cores.
    """

    def __init__(
        self,
        edges: SampledEdges,
        train: Mask,
        sampling: Sampling,
        *,
        node_ranges: Sequence[tuple[int, int, int]] | None = None,
        folder: Path | None = None,
    ) -> None:
        self.edges = edges
        self._folder = folder
        self.train = train
        self.sampling = sampling
        self._ranges = list(node_ranges or [(0, edges.num_nodes, 0)])
        self._num_types = max((type_id for _, _, type_id in self._ranges), default=0) + 1
        self._fanouts = np.array([np.inf if f == ALL else f for f in reversed(sampling.fanouts)])

    @property
    def workers(self) -> int | None:
        """Number of threads of a pass over the edges: one for a small graph, None for as many as cores."""
        return 1 if max(self.edges.num_nodes, self.edges.num_groups) <= RANGE else None

    @property
    def fanouts(self) -> Floats:
        """(layers,) float64, edges of a type that each layer samples, the seeds' first; inf for all."""
        return self._fanouts

    def traffic(
        self, parts: Parts, num_parts: int, look: Callable[[int, Singles], None] | None = None
    ) -> Traffic:
        """Return the expected traffic of an assignment.

        Args:
            parts: (nodes,) int32, the partition of each node.
            num_parts: Number of partitions.
            look: Called for each trainer that has batches with its partition, and with (nodes,) float32, the
                expected number of times that it reads each row in an epoch; needs 24 more bytes a node.
        """
        seeds = np.bincount(parts[self.train], minlength=num_parts)
        rows = np.zeros((num_parts, num_parts, self._num_types))
        neighbours = np.zeros((num_parts, 2))
        columns = [column for part in range(num_parts) for column in self._columns(part, int(seeds[part]))]
        near = self._near(parts, num_parts, columns)
        whole = np.zeros(self.edges.num_nodes if look else 0, np.float32)  # of a trainer
        for at in range(0, len(columns), WIDTH):
            some, reads = columns[at : at + WIDTH], np.zeros((len(whole), WIDTH), np.float32)
            batches = self._batches(parts, some, near, at // WIDTH)
            found_rows, found_neighbours = self._read(batches, num_parts, reads)
            for number, (part, _, times) in enumerate(some):
                rows[part] += times * found_rows[number]
                neighbours[part] += times * found_neighbours[number]
                if look is not None:
                    whole += np.float32(times) * reads[:, number]
                    if [one[0] for one in columns[at + number + 1 : at + number + 2]] != [part]:
                        look(part, whole)
                        whole = np.zeros_like(whole)
        return Traffic(seeds, -(-seeds // self.sampling.batch_size), rows, neighbours)

    def about_remote_rows(self, parts: Parts, num_parts: int) -> Floats:
        """Return (parts,) float64: about `Traffic.remote_rows`, to compare assignments.

        All batches of an epoch count as equal. With 2 to 16 batches of a trainer, this takes half the time of
        `traffic`, and the same memory but for 16 bytes a group.

        Args:
            parts: (nodes,) int32, the partition of each node.
            num_parts: Number of partitions.
        """
        seeds = np.bincount(parts[self.train], minlength=num_parts)
        columns = [(part, *self.equal_batches(int(seeds[part]))) for part in np.flatnonzero(seeds).tolist()]
        found, near = np.zeros(num_parts), self._near(parts, num_parts, columns)
        for at in range(0, len(columns), WIDTH):
            some = columns[at : at + WIDTH]
            rows, _ = self._read(self._batches(parts, some, near, at // WIDTH), num_parts, sampled=False)
            for (part, _, times), of_parts in zip(some, rows.sum(axis=2), strict=False):
                found[part] = times * (of_parts.sum() - of_parts[part])
        return found

    def equal_batches(self, seeds: int) -> tuple[float, float]:
        """Return the chance that one of a trainer's train nodes is a seed of a batch, and its batches."""
        size = self.sampling.batch_size
        return min(1.0, size / seeds), max(1.0, seeds / size)

    def reads(self, parts: Parts, part: int) -> Singles:
        """Return (nodes,) float32: the expected number of times that a trainer reads each row in an epoch.

        Args:
            parts: (nodes,) int32, the partition of each node.
            part: The partition of the trainer.
        """
        result = np.zeros(self.edges.num_nodes, np.float32)
        columns = self._columns(part, int(np.count_nonzero(self.train & (parts == part))))
        if columns:
            reads = np.zeros((self.edges.num_nodes, WIDTH), np.float32)
            self._read(self._batches(parts, columns), int(parts.max(initial=0)) + 1, reads, sampled=False)
            for number, (_, _, times) in enumerate(columns):
                result += np.float32(times) * reads[:, number]
        return result

    def reads_of_batches(self, parts: Parts, trainers: Parts, chances: Floats) -> Singles:
        """Return (nodes, `WIDTH`) float32: the probability that a batch of a few trainers reads each row.

        Args:
            parts: (nodes,) int32, the partition of each node.
            trainers: (`WIDTH`,) int32, their partitions; -1 for none.
            chances: (`WIDTH`,) float64, probability that one of their train nodes is a seed of the batch.
        """
        reads = np.zeros((self.edges.num_nodes, WIDTH), np.float32)
        columns = [(int(part), float(chance), 1.0) for part, chance in zip(trainers, chances, strict=True)]
        self._read(self._batches(parts, columns), int(parts.max(initial=0)) + 1, reads, sampled=False)
        return reads

    def edge_chances(self, num_parts: int = 1) -> Singles:
        """Return (groups, 1) float32: -log(1 - q), q being the chance that a batch samples an edge.

        Every train node is a seed with the probability that it has in a batch of its own partition, if each
        partition has the same share of the train nodes.

        Args:
            num_parts: Number of partitions. With 1, the seeds are drawn from all train nodes.
        """
        seeds = int(np.count_nonzero(self.train))
        chance = min(1.0, self.sampling.batch_size * num_parts / seeds) if seeds else 0.0
        nowhere = np.zeros(self.edges.num_nodes, np.int32)
        messages = self._layers(self._batches(nowhere, [(EVERY_TRAINER, chance, 1.0)], width=1))
        take_logs(messages)
        return messages

    def edge_weights(self, chances: Singles) -> Singles:
        """Return (edges,) float32: expected rows that a batch reads over each edge, before any assignment.

        The weights of the out-edges of a node add up to the probability that a batch reads it through an
        edge.

        Args:
            chances: Of `edge_chances`.

        Returns:
            The weights in the order of ``edges.groups``; see `add_to_half_edges`.
        """
        weights = np.zeros(self.edges.num_edges, np.float32)
        weigh = partial(weigh_edges, self.edges.first, self.edges.groups, chances, weights)
        _in_ranges(weigh, self.edges.num_nodes)
        return weights

    def sums_of_weights(self, chances: Singles) -> tuple[float, float]:
        """Return the sum of `edge_weights` and that of their squares, without 4 bytes for each edge."""
        add = partial(add_weights, self.edges.first, self.edges.groups, chances)
        sums = [*_of_ranges(add, self.edges.num_nodes)]
        return sum(one for one, _ in sums), sum(one for _, one in sums)

    def _columns(self, part: int, seeds: int) -> list[tuple[int, float, float]]:
        """Return the kinds of batches of a trainer: its partition, the chance of a seed, how many there are.

        The last batch of an epoch is smaller; among many it counts as a share of a full one.
        """
        size = self.sampling.batch_size
        if not seeds:
            return []
        if seeds > FEW * size:
            return [(part, size / seeds, seeds / size)]
        full, rest = divmod(seeds, size)
        found = [(part, size / seeds, float(full))] if full else []
        return found + ([(part, rest / seeds, 1.0)] if rest else [])

    def _near(self, parts: Parts, num_parts: int, columns: Sequence[tuple[int, float, float]]) -> Masks:
        """Return by layer which passes over some columns may read each node, a bit each; see `Batches`.

        A trainer reads a part of the graph. With 64 partitions of a graph of 3.9 million edges, this saves
        three quarters of the time of all passes.
        """
        passes, layers = -(-len(columns) // WIDTH), len(self._fanouts)
        if passes <= FEW_PASSES:
            return NOWHERE_FAR
        bits = np.zeros(num_parts, np.uint64)
        for number, (part, _, _) in enumerate(columns):
            bits[part] |= _bit(number // WIDTH)
        near = zeros(self._folder, "near", (layers + 1, self.edges.num_nodes), np.uint64)
        near[0] = np.where(self.train, bits[parts], np.uint64(0))
        graph = self.edges.first, self.edges.groups, self.edges.group_nodes
        for layer in range(1, layers + 1):
            _in_ranges(partial(reach, *graph, near, layer), self.edges.num_nodes)
        return near

    def _batches(
        self,
        parts: Parts,
        columns: Sequence[tuple[int, float, float]],
        near: Masks = NOWHERE_FAR,
        turn: int = 0,
        width: int = WIDTH,
    ) -> Batches:
        trainers, chances = np.full(width, NO_TRAINER, np.int32), np.zeros(width)
        for number, (trainer, chance, _) in enumerate(columns):
            trainers[number], chances[number] = trainer, chance
        owners = np.asarray(parts, np.int32)
        return Batches(self.train, owners, trainers, chances, self._fanouts, near, _bit(turn))

    def _read(
        self, batches: Batches, num_parts: int, reads: Singles | None = None, *, sampled: bool = True
    ) -> tuple[Floats, Floats]:
        """Return (WIDTH, parts, types) expected rows of a batch, and (WIDTH, 2) expected sampled edges."""
        messages = self._layers(batches, sampled=sampled)
        kept = np.zeros((0, WIDTH), np.float32) if reads is None else reads
        rows, neighbours = np.zeros((WIDTH, num_parts, self._num_types)), np.zeros((WIDTH, 2))

        def add(piece: tuple[int, int, int]) -> tuple[int, Floats, Floats]:
            begin, end, type_id = piece
            found, sums = np.zeros((WIDTH, num_parts)), np.zeros((WIDTH, 2))
            graph = self.edges.first, self.edges.groups
            add_rows(*graph, batches, messages, found, sums, kept, begin, end)
            return type_id, found, sums

        for type_id, found, sums in map_in_threads(add, self._pieces(), workers=self.workers):
            rows[:, :, type_id] += found
            neighbours += sums
        return rows, neighbours

    def _layers(self, batches: Batches, *, sampled: bool = False) -> Singles:
        """Return what `write_messages` writes for the last layer, with the expected samples if wanted."""
        edges, layers, width = self.edges, len(self._fanouts), len(batches.trainers)
        groups = edges.group_nodes, edges.group_sizes, edges.joined
        entered = zeros(self._folder, "entered", (layers - 1, edges.num_nodes, width), np.float32)
        messages = zeros(self._folder, "messages", (edges.num_groups, width), np.float32)
        for layer in range(1, layers + 1):
            if layer == layers and sampled:
                messages = zeros(self._folder, "last", (edges.num_groups, 2 * width), np.float32)
            send = partial(write_messages, *groups, batches, entered, layer, messages)
            _in_ranges(lambda *piece, send=send: send(np.empty((2, layers)), *piece), edges.num_groups)
            if layer < layers:
                receive = partial(enter, edges.first, edges.groups, batches, messages, entered, layer)
                _in_ranges(receive, edges.num_nodes)
        return messages

    def _pieces(self) -> Iterator[tuple[int, int, int]]:
        """Yield ranges of nodes of one type: first, last (excluded), type ID."""
        for begin, end, type_id in self._ranges:
            for at in range(begin, end, RANGE):
                yield at, min(at + RANGE, end), type_id


def _bit(number: int) -> np.uint64:
    """Return the bit of a pass over some columns; with more than 64 passes, several have the same."""
    return np.uint64(1 << number % MASKS)


def _in_ranges(work: Callable[[int, int], object], count: int) -> None:
    """Call a loop for ranges of numbers, in threads."""
    deque(_of_ranges(work, count), maxlen=0)


def _of_ranges(work: Callable[[int, int], Result], count: int) -> Iterator[Result]:
    """Yield what a loop returns for ranges of numbers, in their order; threads call it."""
    ranges = ((at, min(at + RANGE, count)) for at in range(0, count, RANGE))
    return map_in_threads(lambda piece: work(*piece), ranges, workers=None if count > RANGE else 1)
