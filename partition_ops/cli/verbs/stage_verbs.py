"""Verbs made from declarations: one stage from an input to an output."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.artifacts.stage import Stage
from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input_and_output, locked_output, open_input, open_previous
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.system.progress import terminal_progress


def stage_verb(stage: Stage) -> Verb:
    """Return the verb that runs a stage."""

    def execute(arguments: argparse.Namespace, console: Console) -> Any:
        config = config_of(arguments, stage.config)
        from partition_ops.jobs.one_stage import run_stage

        with (
            open_input(arguments) as source,
            open_previous(arguments) as previous,
            locked_output(arguments) as destination,
        ):
            result = run_stage(
                stage, config, source, destination, progress=terminal_progress(), previous=previous
            )
        console.line(result_line(result))
        return result.to_json()

    return Verb(
        description=stage.description or stage.summary,
        add_arguments=add_input_and_output,
        options=(*stage.options, stage.config),
        execute=execute,
    )
