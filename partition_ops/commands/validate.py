"""``partition-ops validate``."""

from __future__ import annotations

import argparse
import tempfile
from typing import Any

from partition_ops import artifacts
from partition_ops.checks import parse_actions
from partition_ops.commands import common
from partition_ops.commands.console import Console
from partition_ops.commands.tables import validation_lines
from partition_ops.config import ValidateConfig
from partition_ops.storage import open_store

NAME = "validate"
SUMMARY = "say what is wrong with a graph before hours go into it"
DESCRIPTION = """\
Read every file of the graph once, on all cores, and check it: metadata, missing files, rows that are no
edges, IDs outside their type's range, wrong counts, features that do not fit, duplicate and self-loop
edges. All that is wrong is named, with file, row and IDs of the first ten of each. The report is
validation/report.json below --output."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("--output", metavar="DIR", help="root of the output; nothing is kept without it")
    common.add_on_defect(parser)
    common.add_expectations(parser)
    parser.add_argument(
        "--no-data-docs",
        action="store_true",
        help="leave Great Expectations out, unless there are expectations of your own: some seconds less",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = ValidateConfig(
        graph_name=arguments.graph_name,
        on_defect=parse_actions(arguments.on_defect),
        memory=arguments.memory,
        data_docs=not arguments.no_data_docs,
    )
    from partition_ops.validate import validate_graph

    with tempfile.TemporaryDirectory() as scratch:
        output = open_store(arguments.output or scratch, common.settings(arguments))
        with common.open_input(arguments) as source, output as destination:
            try:
                with common.open_expectations(arguments) as expectations:
                    result = validate_graph(
                        config,
                        source,
                        destination,
                        expectations=expectations,
                        progress=common.progress(arguments),
                    )
            finally:
                if destination.exists(artifacts.VALIDATION_REPORT):
                    report = destination.read_json(artifacts.VALIDATION_REPORT)
                    for line in validation_lines(report):
                        console.line(line)
    common.show_result(console, result)
    return {**result.to_json(), "report": report}
