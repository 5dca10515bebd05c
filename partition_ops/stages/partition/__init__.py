"""Stage ``partition``: the assignment of every node to a partition."""

from partition_ops.stages.partition.assignment import import_assignment
from partition_ops.stages.partition.engines.registry import ENGINES, Engine
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.partition.problem import Problem

__all__ = ["ENGINES", "Engine", "Problem", "import_assignment", "partition_nodes"]
