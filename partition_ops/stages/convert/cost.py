"""What ``convert`` takes: buckets and partitions, several at a time if memory allows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property

from partition_ops.artifacts.cost import (
    COMPILED,
    LIBRARIES,
    MIB,
    Machine,
    Sizes,
    StageEstimate,
    TaskEstimate,
)
from partition_ops.chunked.metadata import Feature
from partition_ops.formats.format import Format, PartitionSize, get_formats
from partition_ops.options.declare import MOST_PARTS, MOST_TASKS
from partition_ops.stages.convert.options import MEMORY_SHARE, ConvertConfig
from partition_ops.stages.convert.ranges import even_ranges, gather_ranges
from partition_ops.system.memory import planned_memory

LEAST_EDGES, MOST_EDGES = 16, 1 << 21  # edges that scatter holds before it writes
EDGE_BYTES = 48  # of one of them: 18 or 26 with new IDs and owner, 12 or 24 by partition
ORDER_BYTES, ORDERED_BYTES = 29, 13  # a node: while the new IDs are made, and then
FEATURE_BYTES = 96 * MIB  # data of a scatter of features
BLOCK_BYTES = 64 * MIB  # data of a gather on its way from one file to another
NODE_BYTES = 90  # a node of a partition, inner or halo: IDs, types and owners, and what making them takes
MAPPED_BYTES = 240 * MIB  # pages of a mapped file from which a partition takes rows
# with more partitions, features that cannot be mapped are scattered: reading one so often costs about as much
READS_WORTH_IT = 3
LARGE_BYTES = 8 << 20  # edges of a partition that is bound by the disk, and not by the interpreter's lock
OVERLAPPED_BYTES = 1 << 30  # of partitions at work, with more of them than cores
OUTER_BYTES = 40  # an edge of another partition, in a temporary file
# share of the edges that a good engine cuts: for each doubling of the partitions, and at most
CUT_OF_A_DOUBLING, MOST_CUT = 0.1, 0.9


def cost(config: ConvertConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``convert``."""
    found = _Conversion(config, sizes, machine).estimate()
    if found.held <= machine.memory:
        return found
    return replace(found, remedies=tuple(_smaller(config, sizes, machine)))


def _smaller(config: ConvertConfig, sizes: Sizes, machine: Machine) -> Iterator[str]:
    """Yield options that need less memory."""
    single = _Conversion(config, sizes, replace(machine, cores=1))
    if machine.cores > 1 and single.estimate().held <= machine.memory:
        yield "Build one partition at a time, on one processor: taskset --cpu-list 0."
    if set(config.graph_formats) != {"coo"}:
        yield "Leave out csr and csc: --graph-formats coo."
    if config.num_hops > 1:
        yield "Use a smaller halo: --num-hops 1."
    if config.out_edges:
        yield "Leave out --out-edges."
    parts = sizes.num_parts
    while not sizes.unequal and 2 * parts * sizes.trainers <= MOST_PARTS:
        parts *= 2
        more = _Conversion(config, replace(sizes, num_parts=parts), machine)
        if more.estimate().held <= machine.memory:
            yield f"Make more partitions: --num-parts {parts}."
            return


@dataclass(frozen=True)
class Halo:
    """Expected sums over the halos of all partitions."""

    nodes: int  # halo nodes
    edges: int  # edges in the graphs of the partitions
    outer: int  # the part of `edges` that another partition owns


def expected_halo(config: ConvertConfig, sizes: Sizes) -> Halo:
    """Return the expected halos, for an engine that cuts as much as on the benchmark graphs."""
    nodes, edges, parts = sizes.nodes, sizes.edges, sizes.num_parts
    share = 1 - 1 / parts
    cut = share if sizes.cut_random else min(CUT_OF_A_DOUBLING * math.log2(parts), MOST_CUT, share)
    if config.num_hops == 0:
        return Halo(0, int(edges * (1 - cut)), 0)
    others, own_edges = nodes * share, edges / parts
    halo = _distinct(own_edges * cut, others)
    fresh, outer = halo, 0.0
    for _ in range(config.num_hops - 1):
        found = edges * fresh / max(nodes, 1)
        outer = min(outer + found, edges - own_edges)
        reached = max(halo, min(_distinct(own_edges * cut + outer, others), others))
        fresh, halo = reached - halo, reached
    if config.out_edges:
        outer = min(outer + own_edges * cut, edges - own_edges)
        halo = max(halo, min(_distinct(own_edges * cut + outer, others), others))
    return Halo(int(halo * parts), int(edges + outer * parts), int(outer * parts))


def _distinct(draws: float, of: float) -> float:
    """Return the expected number of different nodes in ``draws`` draws from ``of`` nodes."""
    return of * -math.expm1(-draws / of) if of > 0 else 0.0


def segment_edges(limit: int, cores: int) -> int:
    """Return the number of edges of a segment, which scatter reads whole and then writes by partition."""
    return max(LEAST_EDGES, min(MOST_EDGES, limit // (4 * cores * EDGE_BYTES)))


def gather_bytes(
    config: ConvertConfig,
    nodes: int,
    size: PartitionSize,
    streamed: int = BLOCK_BYTES,
) -> int:
    """Return the bytes of one partition at work; ``nodes`` are those of the graph."""
    writing = max(form.memory(size, config.options()) for form in get_formats(config.formats))
    return 5 * nodes + NODE_BYTES * size.nodes + writing + streamed


def most_gathers(cores: int, task_bytes: int, edge_bytes: int) -> int:
    """Return how many partitions a process gathers at a time at most.

    Threads wait for the disk for a third of the time. With twice as many as cores, jobs of scale 1 and 0.45
    in 4 partitions take 0.92 and 0.95 of the time; one of scale 0.2 in 64 takes longer.

    Args:
        cores: Number of processors.
        task_bytes: What a partition at work takes.
        edge_bytes: Bytes of the edges of a partition between scatter and gather.
    """
    if edge_bytes <= LARGE_BYTES:
        return cores
    return max(cores, min(2 * cores, OVERLAPPED_BYTES // max(task_bytes, 1)))


@dataclass(frozen=True)
class _Conversion:
    config: ConvertConfig
    sizes: Sizes
    machine: Machine

    @cached_property
    def halo(self) -> Halo:
        return expected_halo(self.config, self.sizes)

    @cached_property
    def formats(self) -> list[Format]:
        return get_formats(self.config.formats)

    @cached_property
    def limit(self) -> int:
        """Bytes that the stage plans with."""
        return planned_memory(self.config.memory, MEMORY_SHARE, self.machine.memory)

    @property
    def partition_size(self) -> PartitionSize:
        sizes, parts = self.sizes, self.sizes.num_parts
        typed = not sizes.metadata.is_homogeneous
        return PartitionSize((sizes.nodes + self.halo.nodes) // parts, self.halo.edges // parts, typed)

    def estimate(self) -> StageEstimate:
        sizes, machine = self.sizes, self.machine
        scattering, gathering = self._scatter_memory(), self._gather_memory()
        workers = self._gathers(gathering)
        output, buckets = self._graph_bytes() + self._feature_bytes(), self._bucket_bytes()
        whole = [form.whole_bytes for form in self.formats]
        held = max(
            self._workers(scattering) * scattering,
            workers * gathering,
            *(nodes * sizes.nodes + edges * sizes.edges for nodes, edges in whole),
        )
        read = sizes.mapped_feature_bytes + buckets  # mapped, and released now and then
        mapped = min(workers * min(MAPPED_BYTES, sizes.largest_feature_file("numpy")), read)
        on_the_way = (workers + 1) * output // sizes.num_parts
        memory = machine.base + ORDERED_BYTES * sizes.nodes + held + mapped + sizes.largest_decoded_file
        mapped += LIBRARIES
        tasks = self._tasks() if machine.workers else ()
        if tasks:
            largest = max(tasks, key=lambda one: one.held)
            memory, mapped = largest.memory, largest.mapped
        return StageEstimate(
            memory=memory,
            mapped=mapped,
            tasks=tasks,
            spread_by=f"--convert-tasks {self._most_tasks}" if self._most_tasks else "",
            output=output,
            scratch=buckets,
            temporary=OUTER_BYTES * self.halo.outer,  # of all partitions: the files of one outlive it
            # files from S3, buckets, and files on their way to S3
            cache=machine.fetched(sizes.input_bytes)
            + machine.fetched_back(buckets + on_the_way + 4 * sizes.nodes),
            seconds=1.0 + sizes.edges * 0.05e-6 + (output + 2 * buckets) / 1.2e9,
        )

    @property
    def _most_tasks(self) -> int | None:
        """The largest number of tasks of a kind; None without a limit."""
        workers = self.machine.workers
        return self.config.convert_tasks or (min(workers, MOST_TASKS) if workers > 1 else None)

    def _tasks(self) -> tuple[TaskEstimate, ...]:
        """Return the mapped tasks of Airflow, each in a process of its own."""
        sizes, parts, features = self.sizes, self.sizes.num_parts, self._scattered_features()
        files = [sizes.file_bytes[key] for one in features for key in one.data.files]
        scattering = max(self._scatter_memory(), FEATURE_BYTES if files else 0)
        most = self._most_tasks
        groups = len(even_ranges(sizes.edge_file_bytes)) + len(even_ranges(files))
        scatters = min(groups, most or groups)
        gathers = len(gather_ranges(sizes.input_bytes, parts, most))
        scattering *= min(self._workers(scattering), -(-groups // scatters))
        gathering = self._gather_memory()
        at_a_time = min(self._gathers(gathering), -(-parts // gathers))
        rows = min(
            at_a_time * min(MAPPED_BYTES, sizes.largest_feature_file("numpy")), sizes.mapped_feature_bytes
        )
        whole = max(
            form.whole_bytes[0] * sizes.nodes + form.whole_bytes[1] * sizes.edges for form in self.formats
        )
        return (
            self._task("plan", 1, 0),
            self._task("scatter", scatters, scattering + sizes.largest_decoded_file),
            self._task("gather", gathers, at_a_time * gathering + sizes.largest_decoded_file, rows),
            self._task("config", 1, whole, ordered=whole > 0),
        )

    def _task(
        self, name: str, number: int, held: int, mapped: int = 0, *, ordered: bool = True
    ) -> TaskEstimate:
        """Return a task that needs the new IDs of all nodes, or not, and ``held`` bytes more."""
        nodes = self.sizes.nodes
        at_most = max(ORDER_BYTES * nodes, ORDERED_BYTES * nodes + held) if ordered else held - COMPILED
        memory = self.machine.base + at_most + mapped
        return TaskEstimate(name=name, number=number, memory=memory, mapped=LIBRARIES + mapped)

    def _scatter_memory(self) -> int:
        most = segment_edges(self.limit, self.machine.cores)
        return self.sizes.block + EDGE_BYTES * min(most, self.sizes.largest_chunk())

    def _gather_memory(self) -> int:
        """Return the bytes of one partition at work, with what the allocator keeps of freed memory."""
        streamed = min(BLOCK_BYTES, self.sizes.feature_bytes // self.sizes.num_parts + 4 * MIB)
        return gather_bytes(self.config, self.sizes.nodes, self.partition_size, streamed)

    def _workers(self, task_bytes: int, most: int | None = None) -> int:
        possible = (self.limit - 12 * self.sizes.nodes) // max(task_bytes, 1)
        return max(1, min(most or self.machine.cores, self.sizes.num_parts, possible))

    def _gathers(self, task_bytes: int) -> int:
        edge_bytes = 3 * self.sizes.bucket_id_bytes * self.sizes.edges // self.sizes.num_parts
        return self._workers(task_bytes, most_gathers(self.machine.cores, task_bytes, edge_bytes))

    def _graph_bytes(self) -> int:
        """Return the bytes of the graph files in all formats; on a disk, some formats share them."""
        formats = self.formats
        if not self.machine.remote_destination:
            formats = list({form.graph_files or form.name: form for form in formats}.values())
        options = self.config.options()
        return self.sizes.num_parts * sum(form.disk(self.partition_size, options) for form in formats)

    def _feature_bytes(self) -> int:
        """Return the bytes of features and original IDs; on a disk, some formats share their files."""
        sizes, formats = self.sizes, self.formats
        shared = {form.feature_files or form.name for form in formats}
        trainers = 9 if sizes.trainers > 1 else 0
        once = sizes.feature_bytes
        once += (8 + trainers) * (sizes.nodes + sizes.edges)
        return once * len(formats if self.machine.remote_destination else shared)

    def _bucket_bytes(self) -> int:
        """Return the bytes of edges, and of the node features that go through buckets."""
        features = sum(map(self.sizes.decoded, self._scattered_features()))
        return 3 * self.sizes.bucket_id_bytes * self.sizes.edges + features

    def _scattered_features(self) -> list[Feature]:
        """Return the node features that go through buckets."""
        if self.sizes.num_parts <= READS_WORTH_IT:
            return []
        return [
            one
            for one in self.sizes.metadata.node_features
            if self.machine.remote_source or one.data.format.name != "numpy"
        ]
