"""``partition-ops partition``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.stages.partition.options import PartitionConfig

NAME = "partition"
SUMMARY = "assign every node to a partition"
DESCRIPTION = """\
Write the assignment to assignment/ below --output, in DGL's text format. 'prepare' must have been done
there, unless the engine does not look at edges."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    common.add_output(parser)
    common.add_partition_options(parser)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = PartitionConfig(**common.partition_options(arguments))
    from partition_ops.stages.partition.partition import partition_nodes

    with (
        common.open_input(arguments) as source,
        common.open_previous(arguments) as previous,
        common.locked_output(arguments) as destination,
    ):
        result = partition_nodes(
            config, source, destination, previous=previous, progress=common.progress(arguments)
        )
    common.show_result(console, result)
    return result.to_json()
