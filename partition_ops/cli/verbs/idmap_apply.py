"""``partition-ops idmap apply``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.verbs import remap

NAME = "apply"
SUMMARY = "put features in the order of the new IDs"
DESCRIPTION = """\
The inverse of 'restore': row i of the input files, taken together, belongs to the type-wise ID i of the
input graph, row i of the output to the type-wise new ID i. With {part} in the name of the output there is
one file for each partition."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remap.add_arguments(
        parser, "the file to write, local or s3://…; '{part}' in its name stands for a number"
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.stages.idmap.restore import apply_rows

    return remap.execute(apply_rows, arguments, console)
