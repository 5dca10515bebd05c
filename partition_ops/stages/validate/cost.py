"""What ``validate`` takes: the search for duplicates, up to its limit, and counts of the nodes."""

from __future__ import annotations

from partition_ops.artifacts.cost import (
    LIBRARIES,
    MIB,
    SMALL,
    Machine,
    Sizes,
    StageEstimate,
    TaskEstimate,
)
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.options.declare import MOST_TASKS
from partition_ops.stages.validate.options import MEMORY_SHARE, ValidateConfig
from partition_ops.system.memory import planned_memory

PAIR_BYTES, PAIR_HASHED, PAIR_BUDGET = 8, 8, 16  # an edge: its key, the rest of its hash, both
PAIR_FILE = 16  # an edge in a bucket on the disk
BUCKET_EDGES = 1 << 20  # about so many edges of a range are searched at once
MOST_BUCKETS = 1024  # of all ranges
# an edge of a bucket between tasks, while it is searched: key, rest of its hash, and place if keys are equal
BUCKET_SEARCHED = 24
PAIR_BETWEEN = 12  # an edge between tasks
SEGMENT = 7 << 20  # what a core holds of them


def cost(config: ValidateConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``validate``: the search for duplicates, up to its limit, and counts of the nodes.

    With several tasks, the memory is that of the largest.
    """
    tasks = max(config.validation_tasks, min(machine.workers, MOST_TASKS))
    if tasks > 1:
        return _spread_cost(config, sizes, machine, tasks)
    pairs = _pair_edges(sizes.metadata)
    budget = planned_memory(config.memory, MEMORY_SHARE, machine.memory)
    inside = sizes.edges * PAIR_BUDGET <= budget
    blocks = machine.cores * sizes.block  # they are read before pairs are searched
    searched = max(blocks, PAIR_HASHED * sum(pairs[: machine.cores]))
    sought = PAIR_BYTES * sizes.edges + searched if inside else budget + blocks
    mapped = min(sizes.mapped_feature_bytes, machine.cores * 16 * MIB)
    held = machine.base + 16 * sizes.nodes + sought
    return StageEstimate(
        memory=held + mapped + sizes.largest_decoded_file,
        mapped=LIBRARIES + mapped,
        output=SMALL,
        temporary=0 if inside else PAIR_FILE * sizes.edges,
        cache=machine.fetched(sizes.input_bytes),
        seconds=1.2 + sizes.edges * 0.07e-6 + sizes.input_bytes / 1.5e9 + (5 if config.data_docs else 0),
    )


def _spread_cost(config: ValidateConfig, sizes: Sizes, machine: Machine, tasks: int) -> StageEstimate:
    cores = machine.cores
    bucket = sizes.edges // (tasks * buckets_of_range(sizes.edges, tasks))
    mapped = min(sizes.mapped_feature_bytes, cores * 16 * MIB)
    files = mapped + sizes.largest_decoded_file
    scatter = 6 * sizes.nodes + cores * (sizes.block + SEGMENT) + files
    budget = planned_memory(config.memory, MEMORY_SHARE, machine.memory)
    searched = min(cores * BUCKET_SEARCHED * bucket, budget)
    gather = max(24 * sizes.nodes // tasks, searched, BUCKET_SEARCHED * bucket)  # one after the other
    between = PAIR_BETWEEN * sizes.edges + tasks * 6 * sizes.nodes
    base, report = machine.base, 8 * sizes.nodes
    found = (
        TaskEstimate(name="scatter", number=tasks, memory=base + scatter, mapped=LIBRARIES + mapped),
        TaskEstimate(name="gather", number=tasks, memory=base + gather, mapped=LIBRARIES),
        TaskEstimate(name="validate", number=1, memory=base + report, mapped=LIBRARIES),
    )
    largest = max(found, key=lambda one: one.held)
    return StageEstimate(
        memory=largest.memory,
        mapped=largest.mapped,
        tasks=found,
        spread_by=f"--validation-tasks {tasks}",
        output=SMALL,
        scratch=between,
        cache=machine.fetched(sizes.input_bytes) + machine.fetched_back(between),
        seconds=1.2 + work_seconds(sizes.edges, sizes.input_bytes) + (5 if config.data_docs else 0),
    )


def work_seconds(edges: int, input_bytes: int) -> float:
    """Return roughly the seconds of two processors that the tasks take, without the start of processes."""
    return edges * 0.1e-6 + input_bytes / 1.5e9


def buckets_of_range(edges: int, ranges: int) -> int:
    """Return the number of buckets of each range that a task searches."""
    return max(min(-(-edges // (ranges * BUCKET_EDGES)), MOST_BUCKETS // ranges), 1)


def _pair_edges(metadata: GraphMetadata) -> list[int]:
    """Return the edges of each pair of node types, most first; validation finds duplicates by pair."""
    groups: dict[frozenset[str], int] = {}
    for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
        ends = frozenset((edge_type.src, edge_type.dst))
        groups[ends] = groups.get(ends, 0) + count
    return sorted(groups.values(), reverse=True)
