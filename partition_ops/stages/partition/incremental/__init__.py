"""Partitioning a graph that has grown: old nodes stay where they are unless moving pays.

How, and what was tried besides: docs/decisions/growth.md.
"""

from partition_ops.stages.partition.incremental.dealing import follow_by_dealing
from partition_ops.stages.partition.incremental.old import Old
from partition_ops.stages.partition.incremental.previous import PreviousRun, check_previous
from partition_ops.stages.partition.incremental.refinement import follow_by_refining
from partition_ops.stages.partition.incremental.regroup import follow_by_regrouping
from partition_ops.stages.partition.incremental.repartition import Outcome, repartition
from partition_ops.stages.partition.incremental.report import write_migration

__all__ = [
    "Old",
    "Outcome",
    "PreviousRun",
    "check_previous",
    "follow_by_dealing",
    "follow_by_refining",
    "follow_by_regrouping",
    "repartition",
    "write_migration",
]
