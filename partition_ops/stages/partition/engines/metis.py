"""Engine ``metis``: METIS on the whole graph; better for graphs such as grids and roads."""

from __future__ import annotations

from partition_ops.artifacts.cost import Machine, Sizes
from partition_ops.artifacts.parhip import MOST_NARROW_NODES, neighbour_bytes
from partition_ops.stages.partition.engine import OPTIONAL, Engine, EngineCost, doublings
from partition_ops.stages.partition.engines.random import without_cut
from partition_ops.stages.partition.multilevel.levels import Level, cut_by_metis
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem

HALF_EDGE_BYTES = 110  # in addition to the graph itself, which is mapped


class Metis(Engine):
    """METIS on the whole graph."""

    name = "metis"
    supports = frozenset(OPTIONAL)
    most_nodes = MOST_NARROW_NODES
    objectives = ("cut", "vol")

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges with multilevel k-way METIS, every column of the weights balanced.

        If there is nothing to cut (no edges, or no more nodes than partitions), nodes are dealt out.

        Peak memory: METIS's own, about 130 bytes a half-edge, and 8 bytes a node and constraint.
        """
        parts = without_cut(problem)
        if parts is not None:
            return parts
        config, spare = problem.config, problem.limits_in_edges
        return cut_by_metis(config, Level.of(problem), config.seed, spare=spare)

    def cost(self, config: PartitionConfig, sizes: Sizes, machine: Machine) -> EngineCost:
        seconds = sizes.edges * 0.7e-6 * doublings(config)
        return EngineCost(held=metis_memory(config, sizes), mapped=sizes.prepared_bytes, seconds=seconds)


def metis_memory(config: PartitionConfig, sizes: Sizes) -> int:
    """Return the bytes that METIS takes for the whole graph; it gets neighbours of 64 bits."""
    copied = 0 if neighbour_bytes(sizes.nodes, sizes.edges) == 8 else 8 * sizes.half_edges
    types = len(sizes.metadata.node_types)
    constraints = {"node-types": types, "edges": 2 * types, "none": 1}[config.balance]
    return HALF_EDGE_BYTES * sizes.half_edges + copied + 8 * sizes.nodes * constraints


ENGINE = Metis()
