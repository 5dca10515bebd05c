"""``partition-ops validate``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.cli.text_tables import validation_lines
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.validate.checks import parse_actions
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.storage import open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.system.temporary_folders import temporary_folder

NAME = "validate"
SUMMARY = "say what is wrong with a graph before hours go into it"
DESCRIPTION = """\
Read every file of the graph once, on all cores, and check it: metadata, missing files, rows that are no
edges, IDs outside their type's range, wrong counts, features that do not fit, duplicate and self-loop
edges. All that is wrong is named, with file, row and IDs of the first ten of each. The report is
validation/report.json below --output."""
NOT_OF_PARMETIS = ("output", "graph_name", "on_defect", "memory", "expectations", "no_data_docs")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("--output", metavar="DIR", help="root of the output; nothing is kept without it")
    parser.add_argument(
        "--parmetis",
        metavar="NAME",
        help="INPUT is a folder with NAME_nodes.txt, NAME_edges.txt and NAME_stats.txt for ParMETIS instead;"
        " with --schema",
    )
    parser.add_argument("--schema", metavar="FILE", help="with --parmetis: the schema to check against")
    common.add_on_defect(parser)
    common.add_expectations(parser)
    parser.add_argument(
        "--no-data-docs",
        action="store_true",
        help="leave Great Expectations out, unless there are expectations of your own: some seconds less",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    if arguments.parmetis is not None or arguments.schema is not None:
        return _validate_parmetis(arguments, console)
    config = ValidateConfig(
        graph_name=arguments.graph_name,
        on_defect=parse_actions(arguments.on_defect),
        memory=arguments.memory,
        data_docs=not arguments.no_data_docs,
    )
    from partition_ops.stages.validate.validate import validate_graph

    with temporary_folder() as scratch:
        output = common.locked_output(arguments) if arguments.output else LocalStore(Path(scratch))
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
            except InvalidInputError as error:
                if arguments.output is None and error.remedy is not None:
                    # it would name a folder that is gone by then
                    kept, report, _ = error.remedy.partition(" The report is ")
                    error.remedy = kept + (" --output DIR keeps the report." if report else "")
                raise
            finally:
                if destination.exists(layout.VALIDATION_REPORT):
                    report = destination.read_json(layout.VALIDATION_REPORT)
                    for line in validation_lines(report):
                        console.line(line)
    common.show_result(console, result)
    return {**result.to_json(), "report": report}


def _validate_parmetis(arguments: argparse.Namespace, console: Console) -> Any:
    if arguments.parmetis is None or arguments.schema is None:
        raise UsageError("--parmetis and --schema go together", expected="both or neither")
    unused = [name for name in NOT_OF_PARMETIS if getattr(arguments, name)]
    if unused:
        raise UsageError(
            f"--{unused[0].replace('_', '-')} says nothing about ParMETIS's text",
            remedy="Leave it out: nothing is kept of that check, and whatever it finds is refused.",
        )
    from partition_ops.formats.parmetis.validate_text import validate_parmetis_text
    from partition_ops.stages.schema.schema import read_schema

    root, key = common.split_file_uri(arguments.schema, "--schema")
    with open_store(root, common.settings(arguments)) as folder, common.open_input(arguments) as source:
        schema = read_schema(folder, key)
        counts = validate_parmetis_text(
            source, arguments.parmetis, schema, progress=common.progress(arguments)
        )
    console.line(f"{arguments.parmetis} is sound: {common.summary(counts)}")
    return counts
