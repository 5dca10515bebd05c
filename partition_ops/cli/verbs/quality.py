"""``partition-ops quality``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input_and_output, locked_output, open_input, open_previous
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.stages.quality.options import EarlierReport, QualityConfig
from partition_ops.system.progress import terminal_progress


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, QualityConfig)
    from partition_ops.stages.quality.quality import report_quality

    with (
        open_input(arguments) as source,
        open_previous(arguments) as previous,
        locked_output(arguments) as destination,
    ):
        result = report_quality(config, source, destination, previous=previous, progress=terminal_progress())
    console.line(result_line(result))
    return result.to_json()


VERB = Verb(
    name="quality",
    summary="report edge cut, balance and replication",
    description="""\
Write quality/report.json, quality/history.json and quality/report.html below --output. 'convert' must have
been done there.""",
    add_arguments=add_input_and_output,
    options=(QualityConfig, EarlierReport),
    execute=execute,
)
