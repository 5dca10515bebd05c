"""``partition-ops verify``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input, add_output, open_input, open_output, settings
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.options.declare import StageConfig
from partition_ops.storage import open_store
from partition_ops.system.progress import terminal_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_output(parser)
    parser.add_argument(
        "--tables",
        action="store_true",
        help="Also read the tables of INPUT, a GRAPH.yaml, again with separate code, and compare them with"
        " the graph: counts, keys, ends of edges, and a sample of rows.",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, StageConfig)
    from partition_ops.verification import check_finished, verify_output
    from partition_ops.verification.check_tables import open_tables

    opened = partial(open_store, settings=settings(arguments))
    tables = open_tables(arguments.input, opened) if arguments.tables else None
    with open_output(arguments) as destination:
        check_finished(destination)  # before the tables are read, which may have another mistake
        with open_input(arguments, read_only=True) as source:
            report = verify_output(
                source, destination, graph_name=config.graph_name, tables=tables, progress=terminal_progress()
            )
    for line in report.summary().splitlines():
        console.line(line)
    report.raise_for_failures()
    return report.to_json()


VERB = Verb(
    description="""\
Read a finished output and its input and check with separate code that ranges tile the ID space, ID maps are
bijections, every edge that was not dropped is stored exactly once, in the partition of its destination, halo
nodes are exactly those that the hops reach, features are those of the input rows, DGL loads every partition,
and the manifest is right. With --tables, the tables are compared with the graph that was made from them.""",
    add_arguments=add_arguments,
    options=(StageConfig,),
    execute=execute,
)
