"""``partition-ops idmap restore``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.commands import remap
from partition_ops.commands.console import Console

NAME = "restore"
SUMMARY = "put embeddings back in the order of the input graph"
DESCRIPTION = """\
Row i of the input files, taken together, belongs to the type-wise new ID i, as DistTensor and DistGraph
count the nodes of a type: one file for the type, or one for each partition, in their order. Row i of the
output belongs to the type-wise ID i of the input graph. The files may be .npy (mapped, so that they may be
larger than memory), .pt or .parquet, by their names."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remap.add_arguments(parser, "the file to write, local or s3://…")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.idmap import restore_rows

    return remap.execute(restore_rows, arguments, console)
