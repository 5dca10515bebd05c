"""``partition-ops copy``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import settings
from partition_ops.cli.verb import Verb
from partition_ops.storage import open_store
from partition_ops.storage.local_store import check_folder
from partition_ops.system.progress import terminal_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="FROM", help="Folder to copy: a local path or s3://….")
    parser.add_argument("to", metavar="TO", help="New or empty folder for the copy: a local path or s3://….")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.artifacts.lock import locked
    from partition_ops.jobs.copy import check_outside, copy_tree

    with (
        open_store(arguments.source, settings(arguments)) as source,
        open_store(arguments.to, settings(arguments)) as destination,
    ):
        check_folder(destination)
        check_outside(source, destination)
        with locked(destination, "copy", reads=[source]):
            done = copy_tree(source, destination, progress=terminal_progress())
    console.line(f"{done['files']:,} files, {done['bytes']:,} bytes, {done['copied']:,} of them copied now")
    return done


VERB = Verb(
    description="""\
Copy a graph, its tables, an output, the runs of a graph, or any other folder, from or to S3 or between local
folders. TO must be new or empty, or an unfinished copy, which is resumed. Every file appears whole or not at
all, and those that readers start from come last.""",
    add_arguments=add_arguments,
    execute=execute,
)
