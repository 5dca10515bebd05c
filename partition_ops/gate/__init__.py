"""The quality gate: partitions that are worse than allowed are not published."""
