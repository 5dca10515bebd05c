"""Engines ``two-level`` and ``auto``."""

from partition_ops.stages.partition.engines.two_level.engine import partition_auto, partition_two_level

__all__ = ["partition_auto", "partition_two_level"]
