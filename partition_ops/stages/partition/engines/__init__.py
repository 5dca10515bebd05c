"""The partitioning engines."""
