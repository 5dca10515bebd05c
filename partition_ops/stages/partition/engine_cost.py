"""What the engines take, beyond a process without work."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.artifacts.cost import Machine, Sizes
from partition_ops.artifacts.parhip import neighbour_bytes
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.options import PartitionConfig, is_searched, starts_of_auto

CLUSTERED = 4  # bytes a half-edge of the whole graph, for the graph of the clusters and METIS
SEARCHED = 37  # bytes a node for a search
MOST_CLUSTERED = 1 << 30  # a larger graph of clusters is contracted again
METIS = 110  # bytes a half-edge, in addition to the graph itself, which is mapped
# seconds of a processor for each start of auto, with what follows, in 2 partitions: on a graph of one node
# type, and of several; for a node, and a half-edge. Then the share that a further partition adds.
# To renew: python -m benchmarks.estimates --real all --output benchmarks/results, and the seconds of
# benchmarks/results/real_graphs.json for more partitions
SEARCH_START, SEARCH_TYPED_START, SEARCH_NODE, SEARCH_HALF_EDGE = 0.15, 0.35, 9e-6, 0.6e-6
SEARCH_PARTITION = 0.11


@dataclass(frozen=True, kw_only=True)
class EngineCost:
    """Memory of an engine in bytes, and its seconds.

    Attributes:
        held: Memory without which the process is killed.
        mapped: Pages of the file of the prepared graph.
        seconds: A rough time.
        note: What the figures assume, or None.
        warnings: What may happen on this machine, in whole clauses.
    """

    held: int
    mapped: int = 0
    seconds: float = 0.0
    note: str | None = None
    warnings: tuple[str, ...] = ()


def engine_cost(config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
    """Return what the engine of the options takes."""
    if not find_engine(config.engine).needs_graph:
        return EngineCost(held=20 * sizes.nodes, seconds=sizes.nodes * 0.1e-6)
    held, note = _memory(config, sizes, machine)
    mapped = 0 if config.engine == "parmetis" else sizes.prepared_bytes
    if mapped and not _uses_metis(config) and neighbour_bytes(sizes.nodes, sizes.edges) == 8:
        held, mapped = held + 4 * sizes.half_edges, 0  # a copy with 32 bits
    metis, warnings = _metis_memory(config, sizes), []
    if config.engine == "auto" and not _uses_metis(config) and metis > machine.memory:
        warnings.append(
            "auto may choose METIS, for graphs such as grids and roads, which needs about"
            f" {metis / 2**30:.1f} GiB: more than this machine has"
        )
    seconds = _seconds(config, sizes, machine)
    return EngineCost(held=held, mapped=mapped, seconds=seconds, note=note, warnings=tuple(warnings))


def _uses_metis(config: PartitionConfig) -> bool:
    """Return whether METIS partitions the whole graph, whatever its structure."""
    return config.engine == "metis" or (config.engine == "auto" and config.objective == "vol")


def _metis_memory(config: PartitionConfig, sizes: Sizes) -> int:
    """Return the bytes that METIS takes for the whole graph; it gets neighbours of 64 bits."""
    copied = 0 if neighbour_bytes(sizes.nodes, sizes.edges) == 8 else 8 * sizes.half_edges
    types = len(sizes.metadata.node_types)
    constraints = {"node-types": types, "edges": 2 * types, "none": 1}[config.balance]
    return METIS * sizes.half_edges + copied + 8 * sizes.nodes * constraints


def _memory(config: PartitionConfig, sizes: Sizes, machine: Machine) -> tuple[int, str | None]:
    """Return the bytes of an engine that reads edges, and what they assume."""
    if config.engine == "parmetis":
        return 8 * sizes.nodes, "the ranks of ParMETIS are not estimated"
    if _uses_metis(config):
        return _metis_memory(config, sizes), None
    if starts := _starts(config, sizes):
        sums = _parts(config) * min(machine.cores, starts)  # of the partitions that are made at a time
        return _metis_memory(config, sizes) + 4 * sizes.nodes * (15 + sums), None
    note = "a graph without communities takes more"
    clustered = min(CLUSTERED * sizes.half_edges, MOST_CLUSTERED)
    if not _is_searched(config, sizes):
        return 36 * sizes.nodes + clustered, note
    return (36 + SEARCHED + 4 * _parts(config)) * sizes.nodes + clustered, note


def _is_searched(config: PartitionConfig, sizes: Sizes) -> bool:
    """Return whether the engine searches for moves in the whole of a large graph."""
    return config.engine == "auto" and is_searched(sizes.half_edges, sizes.nodes * _parts(config))


def _parts(config: PartitionConfig) -> int:
    """Return the number of partitions that the engine makes: one for each trainer."""
    return config.num_parts * config.num_trainers_per_machine


def _starts(config: PartitionConfig, sizes: Sizes) -> int:
    """Return how many partitions the engine makes; 0 for a single one."""
    if config.engine != "auto" or _uses_metis(config) or config.num_parts == 1:
        return 0
    work, sums = sizes.nodes + sizes.half_edges, sizes.nodes * _parts(config)
    return starts_of_auto(config.effort, work, sums)


def _seconds(config: PartitionConfig, sizes: Sizes, machine: Machine) -> float:
    """Return seconds; the search of auto was measured with up to 64 partitions."""
    parts = _parts(config)
    doublings = max((parts - 1).bit_length(), 1)
    if _uses_metis(config):
        return sizes.edges * 0.7e-6 * doublings
    if starts := _starts(config, sizes):
        each = SEARCH_TYPED_START if len(sizes.metadata.node_types) > 1 else SEARCH_START
        each += SEARCH_NODE * sizes.nodes + SEARCH_HALF_EDGE * sizes.half_edges
        return starts * each * (1 + SEARCH_PARTITION * (parts - 2)) / min(machine.cores, starts)
    return sizes.edges * (0.075e-6 if _is_searched(config, sizes) else 0.05e-6) * doublings
