"""``python -m partition_ops.cli``."""

from partition_ops.cli import command

command()
