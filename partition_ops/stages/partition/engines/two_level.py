"""Engine ``two-level``: METIS over clusters of nodes, then refinement; fast, and few edges are cut.

docs/decisions/two-level.md has the reasons, and what else was tried.
"""

from __future__ import annotations

import logging
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.cost import LIBRARIES, Machine, Sizes, TaskEstimate
from partition_ops.artifacts.parhip import MOST_NARROW_NODES, neighbour_bytes
from partition_ops.stages.partition.engine import NODE_BYTES, OPTIONAL, Engine, EngineCost, doublings
from partition_ops.stages.partition.engines.random import without_cut
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.multilevel.graph import (
    Graph,
    Labels,
    constraints_of,
    without_light_edges,
)
from partition_ops.stages.partition.multilevel.levels import Level, contract_levels, cut_by_metis
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.multilevel.spread import WHOLE, Whole
from partition_ops.stages.partition.multilevel.tuning import REFINED, Tuning
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.system.extras import check_installed

RANK_MODULE = "partition_ops.stages.partition.mpi.two_level_rank"
logger = logging.getLogger("partition_ops")
CLUSTERED = 4  # bytes of the graphs of clusters and of METIS, a half-edge of a graph with communities
MOST_CLUSTERED = 1 << 30  # a larger graph of clusters is contracted again


class TwoLevel(Engine):
    """METIS over clusters, and refinement."""

    name = "two-level"
    supports = frozenset(OPTIONAL)
    most_nodes = MOST_NARROW_NODES
    many_machines = "--engine two-level --mpi-ranks N --hostfile FILE"

    def check(self, config: PartitionConfig) -> None:
        """Raise an error also if the hostfile or command of the options does not exist."""
        super().check(config)
        if config.own(MpiOptions).ranks is not None:
            from partition_ops.stages.partition.mpi.mpirun import check_paths

            check_installed("--mpi-ranks", "mpi4py")
            check_paths(config.own(MpiOptions))

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges, every column of the weights balanced.

        Clusters of the graph are contracted to a much smaller one with weights, METIS cuts that with one
        constraint a column, and nodes at the borders move on the whole graph while that lowers the cut.

        Peak memory: 36 bytes a node; 12 bytes a half-edge of the graph of clusters, which has a tenth of the
        graph's if that has communities, and 180 bytes a half-edge of the last such graph, which has at most
        2**24; for each thread up to 200 bytes times the largest degree. The graph itself stays mapped if its
        file has 32 bits for a neighbour, and takes 4 bytes a half-edge otherwise. With MPI's ranks, this
        process takes 20 bytes a node before and after they run; for the ranks, see `two_level_rank`.
        """
        ranks = problem.config.own(MpiOptions).ranks
        if ranks is not None and not len(problem.edge_weights):
            parts = _over_ranks(problem)
            if parts is not None:
                return parts
        parts = without_cut(problem)
        if parts is not None:
            return parts
        level = Level.of(problem)
        return cut_over_clusters(problem.config, problem.tuning, level, problem.limits_in_edges)

    def cost(self, config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
        alone = cost_over_clusters(config, sizes, searched=False)
        mpi = config.own(MpiOptions)
        number = max(mpi.ranks or 0, machine.workers)
        if number == 0:
            return alone
        clustered = _clustered(sizes)
        each = max(28 * sizes.nodes, 25 * sizes.nodes + clustered // number)
        first = max(each, 13 * sizes.nodes + clustered)
        slices = 4 * sizes.half_edges // number
        ranks = tuple(
            TaskEstimate(
                name=name,
                number=count,
                memory=machine.base + held + slices,
                mapped=LIBRARIES + slices,
            )
            for name, count, held in (("rank 0", 1, first), ("rank", number - 1, each))
        )
        sizes_of = [f"{rank.held / 2**30:.1f} GiB" for rank in ranks]
        note = f"each MPI rank takes about {sizes_of[1]}, rank 0 up to {sizes_of[0]}"
        note += f", without the {slices / 2**30:.1f} GiB that each maps"
        here = 0 if machine.workers or mpi.hostfile else sum(rank.number * rank.held for rank in ranks)
        held = max(NODE_BYTES * sizes.nodes, here)
        return EngineCost(held=held, seconds=alone.seconds, note=note, ranks=ranks[:number])


def _clustered(sizes: Sizes) -> int:
    """Return the bytes of the graphs of clusters, with METIS."""
    return min(CLUSTERED * sizes.half_edges, MOST_CLUSTERED)


def cost_over_clusters(config: PartitionConfig, sizes: Sizes, *, searched: bool) -> EngineCost:
    """Return what one partitioning over clusters takes, if the whole graph is searched for moves or not."""
    node_bytes = 36 + (37 + 4 * config.all_parts if searched else 0)
    held = node_bytes * sizes.nodes + _clustered(sizes)
    seconds = sizes.edges * (0.075e-6 if searched else 0.05e-6) * doublings(config)
    return with_graph(held, seconds, sizes)


def with_graph(held: int, seconds: float, sizes: Sizes) -> EngineCost:
    """Return a cost with the prepared graph, which is mapped, or copied if its neighbours have 64 bits."""
    note = "a graph without communities takes more"
    if neighbour_bytes(sizes.nodes, sizes.edges) == 8:
        return EngineCost(held=held + 4 * sizes.half_edges, seconds=seconds, note=note)
    return EngineCost(held=held, mapped=sizes.prepared_bytes, seconds=seconds, note=note)


def cut_over_clusters(
    config: PartitionConfig, tuning: Tuning, level: Level, spare: int, spread: Whole = WHOLE
) -> Parts:
    """Return (nodes,) int32, the partitions that the engine makes.

    Args:
        config: The options.
        tuning: Constants of the effort.
        level: The graph, which has edges and more nodes than partitions.
        spare: See `cut_by_metis`.
        spread: Where the neighbours of the graph are.
    """
    parts = _cut_clusters(config, tuning, level, spare, spread)
    refine(level.graph, level.constraints, parts, tuning=tuning, spread=spread)
    return parts


def _cut_clusters(config: PartitionConfig, tuning: Tuning, level: Level, spare: int, spread: Whole) -> Parts:
    """Return (nodes,) int32, the partitions of clusters; their graphs need no more memory then."""
    levels = _levels(config, tuning, level, spread)
    smallest = levels[-1]

    def small(graph: Graph) -> Labels:
        smaller = smallest._replace(graph=without_light_edges(graph, config.all_parts, tuning))
        parts = cut_by_metis(config, smaller, config.seed, spare=spare, most_over=REFINED, tuning=tuning)
        for level in reversed(levels[1:]):
            parts = parts[level.labels] if len(level.labels) else parts
            refine(level.graph, level.constraints, parts, tuning=tuning)
        return parts

    first = levels[min(len(levels) - 1, 1)]
    parts = spread.once(small, smallest.graph, first.graph.num_nodes)
    labels = levels[0].labels
    return parts[labels] if len(labels) else parts


def _levels(config: PartitionConfig, tuning: Tuning, level: Level, spread: Whole) -> list[Level]:
    """Return the graph, and graphs of clusters for METIS, each made of the one before."""
    many = config.all_parts > tuning.many_parts
    how = tuning.over_clusters_of_many if many else tuning.over_clusters
    whole = level.graph

    def size(graph: Graph, number: int) -> int:
        if graph is whole and graph.num_nodes <= tuning.few_nodes:
            return 0
        half_edges = (spread if graph is whole else WHOLE).half_edges(graph)
        if half_edges == 0:
            return 0
        further = max(number - len(how.clusters) + 1, 0)
        count = how.clusters[number - further] >> further
        if count == 0 or (further and half_edges <= tuning.most_half_edges):
            return 0
        return max(2, whole.num_nodes // (count * config.all_parts))

    def worthwhile(graph: Graph, clusters: int) -> bool:
        connected = (spread if graph is whole else WHOLE).connected(graph)
        return (clusters - (graph.num_nodes - connected)) / connected <= how.shrinking

    return contract_levels(level, how, size, config.seed, step=0, worthwhile=worthwhile, spread=spread)


def _over_ranks(problem: Problem) -> Parts | None:
    """Return what MPI's ranks make, which is what this process would; None if the graph is small."""
    stats = problem.artifacts.read_json(layout.PREPARED_STATS)
    nodes = stats["num_nodes"]
    few = nodes <= max(problem.tuning.few_nodes, problem.num_parts)
    if few or stats["num_half_edges"] == 0 or problem.num_parts == 1:
        logger.info("two-level: %d nodes, %d half-edges need no MPI", nodes, stats["num_half_edges"])
        return None
    from partition_ops.stages.partition.mpi.job import partition_over_ranks

    return partition_over_ranks(RANK_MODULE, problem, classes=True, more=_told(problem))


def _told(problem: Problem) -> dict[str, Any]:
    """Return what the ranks are told of the constraints."""
    limits, degrees = constraints_of(problem), None
    if len(limits.in_degrees):
        degrees = np.promote_types(np.int32, np.min_scalar_type(limits.in_degrees.max()))
    return {
        "limits": limits.most.tolist(),
        "degree_columns": limits.degree_columns.tolist(),
        "in_degrees": None if degrees is None else degrees.name,
        "spare": int(problem.limits_in_edges),
    }


ENGINE = TwoLevel()
