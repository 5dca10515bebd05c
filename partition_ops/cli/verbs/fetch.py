"""``partition-ops fetch``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console

NAME = "fetch"
SUMMARY = "copy one partition to the machine that serves it"
DESCRIPTION = """\
Copy partitions of a finished output to a local folder, as DGL's servers read them: <graph>.json and
part<i>/. Every file is compared with the SHA-256 in the manifest; a partition appears whole or not at all,
and one that is there already is not fetched again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "output",
        metavar="OUTPUT",
        help="root of the output, or of a graph whose newest run it is; a folder or s3://…",
    )
    parser.add_argument(
        "--part", metavar="I", type=int, nargs="+", required=True, help="which partition, or several"
    )
    parser.add_argument("--to", metavar="DIR", required=True, help="local folder")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.jobs.fetch import fetch_partitions

    folder = common.local_folder(arguments.to, "--to")
    with common.open_run(arguments.output, arguments) as output:
        result = fetch_partitions(output, arguments.part, folder, progress=common.progress(arguments))
    fetched = f"{result['bytes']:,} bytes" if result["bytes"] else "nothing, all there already"
    console.line(f"fetched {fetched}; partition config {result['partition_config']}")
    return result
