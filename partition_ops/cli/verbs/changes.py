"""``partition-ops changes``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import RUN_HELP, add_input, open_input, open_run
from partition_ops.cli.verb import Verb


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument("run", metavar="RUN", help=RUN_HELP)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.jobs.changes import find_changes

    with open_run(arguments.run, arguments) as run, open_input(arguments, numbered_as=run) as source:
        changes = find_changes(source, run)
    for what in ("added", "changed", "removed"):
        for path in getattr(changes, what):
            console.line(f"{what:<8} {path}")
    console.line(f"{'same':<8} {changes.unchanged:,} file{'s' * (changes.unchanged != 1)}")
    return changes.to_json()


VERB = Verb(
    name="changes",
    summary="list what has changed in a graph since a finished run",
    description="""\
Compare the files of the graph at INPUT with those that the manifest of RUN lists, and print which were added,
changed or removed. Tables are ingested for this; nodes that RUN took over from an earlier run keep their IDs.
The exit code is 0 in either case; --json has 'unchanged_since'.""",
    add_arguments=add_arguments,
    execute=execute,
)
