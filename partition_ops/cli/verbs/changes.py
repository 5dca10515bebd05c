"""``partition-ops changes``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console

NAME = "changes"
SUMMARY = "what of a graph has changed since a finished run"
DESCRIPTION = """\
Compare the files of the graph at INPUT with those that the manifest of RUN lists: which were added, changed
or removed. RUN is a finished output, or the root of a graph's runs, which means the newest published one. The
exit code is 0 in either case; --json says 'unchanged_since'."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("input", metavar="INPUT", help="the graph: a folder with metadata.json, or s3://…")
    parser.add_argument("run", metavar="RUN", help="a finished output or the root of a graph's runs")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.jobs.changes import find_changes

    with common.open_input(arguments) as source, common.open_run(arguments.run, arguments) as run:
        changes = find_changes(source, run)
    for what in ("added", "changed", "removed"):
        for path in getattr(changes, what):
            console.line(f"{what:<8} {path}")
    console.line(f"{changes.unchanged:,} files are the same")
    return changes.to_json()
