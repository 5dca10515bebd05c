"""Engines ``two-level`` and ``auto``."""

from partition_ops.partition.two_level.engine import partition_auto, partition_two_level

__all__ = ["partition_auto", "partition_two_level"]
