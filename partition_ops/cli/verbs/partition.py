"""``partition-ops partition``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input_and_output, locked_output, open_input, open_previous
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.stages.partition.options import PartitionConfig, PreviousOptions
from partition_ops.system.progress import terminal_progress


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, PartitionConfig)
    from partition_ops.stages.partition.partition import partition_nodes

    with (
        open_input(arguments) as source,
        open_previous(arguments) as previous,
        locked_output(arguments) as destination,
    ):
        result = partition_nodes(config, source, destination, previous=previous, progress=terminal_progress())
    console.line(result_line(result))
    return result.to_json()


VERB = Verb(
    name="partition",
    summary="assign every node to a partition",
    description="""\
Write the assignment to assignment/ below --output, in DGL's text format. 'prepare' must have been done there,
unless the engine does not read edges.""",
    add_arguments=add_input_and_output,
    options=(PreviousOptions, PartitionConfig),
    execute=execute,
)
