"""``partition-ops publish``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input_and_output, locked_output, open_input
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.system.progress import terminal_progress


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, PublishConfig)
    from partition_ops.stages.publish.publish import publish_run

    with open_input(arguments) as source, locked_output(arguments) as destination:
        result = publish_run(config, source, destination, progress=terminal_progress())
    console.line(result_line(result))
    return result.to_json()


VERB = Verb(
    name="publish",
    summary="write the manifest of a finished output",
    description="""\
Write manifest.json below --output after every stage has been done there: the input, the options, the
versions, and size and SHA-256 of every artifact.""",
    add_arguments=add_input_and_output,
    options=(PublishConfig,),
    execute=execute,
)
