"""``partition-ops fetch``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import RUN_HELP, open_run
from partition_ops.cli.verb import Verb
from partition_ops.storage.uris import local_folder
from partition_ops.system.progress import terminal_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("output", metavar="OUTPUT", help=RUN_HELP)
    parser.add_argument(
        "--part", metavar="I", type=int, nargs="+", required=True, help="Partitions to copy, from 0."
    )
    parser.add_argument(
        "--format",
        metavar="NAME",
        nargs="+",
        default=[],
        help="Output formats to copy. Default: all formats of OUTPUT.",
    )
    parser.add_argument("--to", metavar="DIR", required=True, help="Local folder to copy to.")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.jobs.fetch import fetch_partitions

    folder = local_folder(arguments.to, "--to")
    with open_run(arguments.output, arguments) as output:
        result = fetch_partitions(
            output, arguments.part, folder, formats=arguments.format, progress=terminal_progress()
        )
    fetched = f"{result['bytes']:,} bytes" if result["bytes"] else "nothing, all there already"
    console.line(f"fetched {fetched}; partition config {result['partition_config']}")
    return result


VERB = Verb(
    description="""\
Copy partitions of a finished output to a local folder: those of the format dgl as DGL's servers read them,
<graph>.json and part<i>/, those of other formats in formats/<name>/. Every file is compared with the SHA-256
in the manifest. A partition appears whole or not at all, and an existing one is not downloaded
again.""",
    add_arguments=add_arguments,
    execute=execute,
)
