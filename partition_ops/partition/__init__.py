"""Stage ``partition``: the assignment of every node to a partition."""

from partition_ops.partition.assignment import import_assignment
from partition_ops.partition.engines import ENGINES, Engine
from partition_ops.partition.partition import partition_nodes
from partition_ops.partition.problem import Problem

__all__ = ["ENGINES", "Engine", "Problem", "import_assignment", "partition_nodes"]
