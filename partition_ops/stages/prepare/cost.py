"""What ``prepare`` takes: edges split by range and sorted."""

from __future__ import annotations

from partition_ops.artifacts.cost import LIBRARIES, Machine, Sizes, StageEstimate, TaskEstimate
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.options.declare import MOST_TASKS
from partition_ops.stages.prepare import STAGE
from partition_ops.stages.prepare.options import ROW_BITS, PrepareConfig, range_shift

BLOCK_EDGES = 3 << 19  # the edges of a block of text, or of a group of Parquet


def cost(config: PrepareConfig, sizes: Sizes, machine: Machine) -> StageEstimate:
    """Estimate ``prepare``, without the edges that `KeptHalfEdges` makes: those count in ``partition``."""
    graph = sizes.prepared_bytes
    half_edge = (2 if range_shift(sizes.nodes) <= ROW_BITS else 4) + sizes.id_bytes
    dealt = machine.cores * (sizes.block + 2 * half_edge * min(BLOCK_EDGES, sizes.largest_chunk()))
    ranges = range_half_edges(sizes)
    merged = 2 * half_edge * sum(ranges[: machine.cores])
    merged += 8 * sum(ranges[: machine.cores + 1])
    number = max(config.prepare_tasks, min(machine.workers, MOST_TASKS))
    memory = machine.base + 32 * sizes.nodes + max(dealt, merged)
    tasks: tuple[TaskEstimate, ...] = ()
    between = 0
    if number > 1:
        needs = {
            "scatter": (number, dealt),
            "gather": (number, 16 * sizes.nodes // number + merged),
            "prepare": (1, 24 * sizes.nodes),
        }
        tasks = tuple(
            TaskEstimate(name=name, number=count, memory=machine.base + held, mapped=LIBRARIES)
            for name, (count, held) in needs.items()
        )
        memory = max(task.memory for task in tasks)
        between = half_edge * sizes.half_edges + graph + 8 * sizes.nodes
    return StageEstimate(
        memory=memory,
        mapped=LIBRARIES,
        tasks=tasks,
        spread_by=f"--prepare-tasks {number}" if tasks else "",
        output=graph + 8 * sizes.nodes,
        scratch=between,
        temporary=half_edge * sizes.half_edges,
        cache=machine.fetched(sum(sizes.edge_file_bytes)) + machine.fetched_back(graph + between),
        seconds=1.0 + work_seconds(sizes.edges),
        remedies=(STAGE.remedy,),
    )


def work_seconds(edges: int) -> float:
    """Return roughly the seconds of two processors that the stage takes, without the start of processes."""
    return edges * 0.06e-6


def range_half_edges(sizes: Sizes) -> list[int]:
    """Return the half-edges of each range of nodes that ``prepare`` sorts, most first."""
    return sorted(map(int, expected_half_edges(sizes.metadata)), reverse=True)


def expected_half_edges(metadata: GraphMetadata) -> list[float]:
    """Return the half-edges of each range of nodes that ``prepare`` sorts, in their order.

    All nodes of a type count as equal; types differ by their number of edges a node.
    """
    ends = dict.fromkeys(metadata.node_types, 0)
    for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
        ends[edge_type.src] += count
        ends[edge_type.dst] += count
    total = sum(metadata.num_nodes)
    width = 1 << range_shift(total)
    ranges = [0.0] * (total // width + 1)
    for name, begin, nodes in zip(
        metadata.node_types, metadata.node_offsets, metadata.num_nodes, strict=False
    ):
        density, at, end = ends[name] / max(nodes, 1), begin, begin + nodes
        while at < end:
            upto = min(end, (at // width + 1) * width)
            ranges[at // width] += density * (upto - at)
            at = upto
    return ranges
