"""Engine ``auto``: two-level or metis, whichever is expected to cut fewer edges."""

from __future__ import annotations

from partition_ops.stages.partition.engine import OPTIONAL, Engine
from partition_ops.stages.partition.engines.two_level import partition_by_levels
from partition_ops.stages.partition.problem import Parts, Problem


class Auto(Engine):
    """The default engine."""

    name = "auto"
    supports = frozenset(OPTIONAL)

    def partition(self, problem: Problem) -> Parts:
        """Cut few edges with the engine that suits the graph; `Problem.notes` says which one it was.

        METIS gets graphs without hubs and communities, such as grids and roads, and the objective ``vol``.

        Returns:
            (nodes,) int32, partition by homogeneous ID.

        Raises:
            EngineError: METIS failed.

        Peak memory: that of the engine.
        """
        return partition_by_levels(problem, or_metis=True)


ENGINE = Auto()
