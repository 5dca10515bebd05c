"""Stage ``quality``: how good the partitioning is."""

from partition_ops.quality.quality import report_quality

__all__ = ["report_quality"]
