"""``partition-ops retain``."""

from __future__ import annotations

import argparse
import re
from contextlib import nullcontext
from datetime import timedelta
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.storage import open_store

NAME = "retain"
SUMMARY = "remove older published runs of a graph"
DESCRIPTION = """\
Keep the newest runs in ROOT/runs/ and remove older ones. ROOT is the root of a graph's runs, where Airflow
publishes; it must have latest.json. The run that latest.json names stays in any case, and so does every run
in which something was written within --grace, finished or not. A folder in ROOT/runs/ that is not a run is
passed over."""
UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "root", metavar="ROOT", help="the root of a graph's runs, with latest.json; a folder or s3://…"
    )
    parser.add_argument("--keep", metavar="N", type=int, required=True, help="how many runs to keep")
    parser.add_argument(
        "--grace", metavar="TIME", type=parse_time, default="7d", help="such as 12h or 7d (default 7d)"
    )
    parser.add_argument("--dry-run", action="store_true", help="only say what would be removed")


def parse_time(text: str) -> timedelta:
    """A time such as ``12h`` or ``7d``."""
    match = re.fullmatch(r"(\d+(?:\.\d+)?)([mhdw])", text.strip())
    if match is None:
        raise argparse.ArgumentTypeError(f"{text!r} is no time, such as 12h or 7d")
    try:
        return timedelta(**{UNITS[match[2]]: float(match[1])})
    except OverflowError:
        raise argparse.ArgumentTypeError(f"{text!r} is too long a time") from None


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.jobs.retention import RetentionConfig, check_root, retain_runs

    config = RetentionConfig(keep=arguments.keep, grace=arguments.grace, dry_run=arguments.dry_run)
    with open_store(arguments.root, common.settings(arguments)) as root:
        check_root(root)  # before the lock, which would make the folder
        with nullcontext() if config.dry_run else common.alone_in(root):
            retained = retain_runs(config, root)
    would = "would be removed" if config.dry_run else "removed"
    for uri in retained.removed:
        console.line(f"{would}  {uri}")
    for uri in retained.passed_over:
        console.line(f"passed over, not a run  {uri}")
    console.line(f"{len(retained.kept)} runs kept, {len(retained.removed)} {would}, {retained.bytes:,} bytes")
    return {"dry_run": config.dry_run, **vars(retained)}
