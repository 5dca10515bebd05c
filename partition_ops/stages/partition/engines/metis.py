"""Engine ``metis``: METIS on the whole graph; better for graphs such as grids and roads."""

from __future__ import annotations

import numpy as np

from partition_ops.stages.partition.engine import OPTIONAL, Engine
from partition_ops.stages.partition.engines import random
from partition_ops.stages.partition.metis_library import cut_graph
from partition_ops.stages.partition.problem import Parts, Problem


class Metis(Engine):
    """METIS on the whole graph."""

    name = "metis"
    supports = frozenset(OPTIONAL)

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges with multilevel k-way METIS, every column of the weights balanced.

        If there is nothing to cut (no edges, or no more nodes than partitions), nodes are dealt out at
        random: METIS fails on several such graphs.

        Returns:
            (nodes,) int32, partition by homogeneous ID.

        Raises:
            EngineError: METIS failed.

        Peak memory: METIS's own, about 130 bytes a half-edge, and 8 bytes a node and constraint.
        """
        config, graph = problem.config, problem.graph
        if problem.num_parts == 1:
            return np.zeros(graph.num_nodes, np.int32)
        if graph.num_half_edges == 0 or graph.num_nodes <= problem.num_parts:
            return random.ENGINE.partition(problem)
        return cut_graph(config, graph, problem.weights)


ENGINE = Metis()
