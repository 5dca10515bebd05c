"""The formats in which partitions are written and read back."""
