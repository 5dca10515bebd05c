"""``partition-ops retain``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import settings
from partition_ops.cli.verb import Verb
from partition_ops.jobs.options import RetentionConfig
from partition_ops.options.arguments import config_of
from partition_ops.storage import open_store


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "root", metavar="ROOT", help="Root of a graph's runs, with latest.json: a folder or s3://…."
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, RetentionConfig)
    from partition_ops.artifacts.lock import locked
    from partition_ops.jobs.retention import check_root, retain_runs

    with open_store(arguments.root, settings(arguments)) as root:
        check_root(root)  # before the lock, which would make the folder
        with nullcontext() if config.dry_run else locked(root, None):
            retained = retain_runs(config, root)
    would = "would be removed" if config.dry_run else "removed"
    for uri in retained.removed:
        console.line(f"{would}  {uri}")
    for uri in retained.passed_over:
        console.line(f"skipped, not a run  {uri}")
    console.line(f"{len(retained.kept)} runs kept, {len(retained.removed)} {would}, {retained.bytes:,} bytes")
    return {"dry_run": config.dry_run, **vars(retained)}


VERB = Verb(
    description="""\
Keep the newest runs in ROOT/runs/ and remove older ones. ROOT is the root of a graph's runs, where Airflow
publishes; it must have latest.json. The run that latest.json names is always kept, and so is every run,
finished or not, in which a file was written within --grace. Folders in ROOT/runs/ that are not runs are
ignored.""",
    add_arguments=add_arguments,
    options=(RetentionConfig,),
    execute=execute,
)
