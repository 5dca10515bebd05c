"""``partition-ops validate``."""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import find_stage
from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input, locked_output, open_expectations, open_input, settings
from partition_ops.cli.text_tables import counters_line, result_line, validation_lines
from partition_ops.cli.verb import Verb
from partition_ops.errors import UsageError
from partition_ops.options.arguments import command_line_options, config_of
from partition_ops.options.declare import options_of
from partition_ops.stages.validate.options import ExpectationSuites, ValidateConfig
from partition_ops.storage import open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.storage.uris import split_file_uri
from partition_ops.system.extras import how_to_install, is_installed
from partition_ops.system.progress import terminal_progress
from partition_ops.system.temporary_folders import temporary_folder

OPTIONS = (ValidateConfig, ExpectationSuites)
DEFAULTS = {"data_docs": is_installed("great_expectations")}  # the purpose of the verb is to look at findings


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument("--output", metavar="DIR", help="Root of the output. Without it nothing is kept.")
    parser.add_argument(
        "--parmetis",
        metavar="NAME",
        help="Check the text for ParMETIS instead: INPUT is a folder with NAME_nodes.txt, NAME_edges.txt and"
        " NAME_stats.txt.",
    )
    parser.add_argument(
        "--schema",
        metavar="FILE",
        help="With --parmetis: a schema to check against. Without it, the files are checked by themselves.",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    if arguments.parmetis is not None or arguments.schema is not None:
        return _validate_parmetis(arguments, console)
    config = config_of(arguments, ValidateConfig)
    from partition_ops.jobs.estimate import check_stage
    from partition_ops.jobs.one_stage import run_stage
    from partition_ops.jobs.open_graph import rows_finder

    with temporary_folder() as scratch:
        output = locked_output(arguments) if arguments.output else LocalStore(Path(scratch))
        with open_input(arguments) as source, output as destination:
            check_stage("validate", config, source)
            try:
                with open_expectations(arguments) as expectations:
                    result = run_stage(
                        find_stage("validate"),
                        config,
                        source,
                        destination,
                        expectations=expectations,
                        kept=arguments.output is not None,
                        find_rows=rows_finder(partial(open_store, settings=settings(arguments))),
                        progress=terminal_progress(),
                    )
            finally:
                if destination.exists(layout.VALIDATION_REPORT):
                    report = destination.read_json(layout.VALIDATION_REPORT)
                    for line in validation_lines(report):
                        console.line(line)
    console.line(result_line(result))
    if arguments.output and not is_installed("great_expectations"):
        console.line(f"There are no Data Docs without Great Expectations. {how_to_install('expectations')}")
    return {**result.to_json(), "report": report}


def _validate_parmetis(arguments: argparse.Namespace, console: Console) -> Any:
    if arguments.parmetis is None:
        raise UsageError("--schema is for --parmetis only", expected="--parmetis NAME, or no --schema")
    values = command_line_options(arguments, *OPTIONS)
    unused = [
        one.option_string
        for one in options_of(*OPTIONS)
        if one.name in values and values[one.name] != DEFAULTS.get(one.name)
    ]
    if arguments.output is not None:
        unused.append("--output")
    if unused:
        raise UsageError(
            f"{' and '.join(unused)} cannot be combined with --parmetis",
            remedy=f"Leave {' and '.join(unused)} out: this check keeps no report, and any finding fails.",
        )
    from partition_ops.formats.parmetis.schema_metadata import read_schema
    from partition_ops.formats.parmetis.validate_text import validate_parmetis_text

    schema = None
    if arguments.schema is not None:
        root, key = split_file_uri(arguments.schema, "--schema")
        with open_store(root, settings(arguments)) as folder:
            schema = read_schema(folder, key)
    with open_store(arguments.input, settings(arguments)) as source:
        counts = validate_parmetis_text(source, arguments.parmetis, schema, progress=terminal_progress())
    console.line(f"{arguments.parmetis} is valid: {counters_line(counts)}")
    return counts


VERB = Verb(
    description="""\
Read every file of the graph once, on all cores, and check it: metadata, missing files, rows that are not
edges, IDs outside their type's range, wrong counts, features that do not fit, duplicate and self-loop edges.
All findings are reported, with file, row and IDs of the first ten of each kind. The report is
validation/report.json below --output.""",
    add_arguments=add_arguments,
    options=OPTIONS,
    defaults=DEFAULTS,
    execute=execute,
)
