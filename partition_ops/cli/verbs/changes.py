"""``partition-ops changes``."""

from __future__ import annotations

import argparse
from functools import partial
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import RUN_HELP, add_input, open_run, settings
from partition_ops.cli.verb import Verb
from partition_ops.stages.ingest.options import is_graph_file
from partition_ops.storage import open_store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.jobs.changes import find_changes, find_table_changes
    from partition_ops.jobs.open_graph import open_graph

    opened = partial(open_store, settings=settings(arguments))
    with open_run(arguments.run, arguments) as run:
        if is_graph_file(arguments.input):
            changes = find_table_changes(arguments.input, run, opened)
        else:
            with open_graph(arguments.input, opened, output=run) as source:
                changes = find_changes(source, run)
    for what in ("added", "changed", "removed", "unknown", "options"):
        for path in getattr(changes, what):
            console.line(f"{what:<8} {path}")
    console.line(f"{'same':<8} {changes.unchanged:,} file{'s' * (changes.unchanged != 1)}")
    return changes.to_json()


VERB = Verb(
    description="""\
Compare the files of the graph at INPUT with those that the manifest of RUN lists, and print which were added,
changed or removed. For a GRAPH.yaml, these are the files of its tables, by size and ETag (on a disk: times);
they are not read. The exit code is 0 in either case; --json has 'unchanged_since'.""",
    add_arguments=add_arguments,
    execute=execute,
)
