"""Stage ``quality``: how good the partitioning is."""

from partition_ops.stages.quality.quality import renew_report, report_quality

__all__ = ["renew_report", "report_quality"]
