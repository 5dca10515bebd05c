"""``partition-ops quality``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.stages.quality.options import QualityConfig

NAME = "quality"
SUMMARY = "report edge cut, balance and replication"
DESCRIPTION = """\
Write quality/report.json, quality/history.json and quality/report.html below --output. 'convert' must have
been done there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    common.add_output(parser)
    parser.add_argument(
        "--previous", metavar="RUN", help="the finished run before, whose history goes on in the report"
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = QualityConfig(graph_name=arguments.graph_name)
    from partition_ops.stages.quality.quality import report_quality

    with (
        common.open_input(arguments) as source,
        common.open_previous(arguments) as previous,
        common.locked_output(arguments) as destination,
    ):
        result = report_quality(
            config, source, destination, previous=previous, progress=common.progress(arguments)
        )
    common.show_result(console, result)
    return result.to_json()
