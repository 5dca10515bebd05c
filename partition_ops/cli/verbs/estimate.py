"""``partition-ops estimate``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

from partition_ops.artifacts.tasks import input_objects
from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.cli.text_tables import estimate_lines

NAME = "estimate"
SUMMARY = "what the whole job will take: memory, disk and time"
DESCRIPTION = """\
Say, from metadata.json and the sizes of the files alone, what each stage of 'run' with the same options
takes: peak memory, disk and a rough time; and whether this machine, or the cgroup around this process,
has as much. The exit code is 0 in either case; 'run' refuses what does not fit. What --probe takes is not
estimated."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="where the output would go, a folder or s3://…: its disk is looked at too",
    )
    common.add_partition_options(parser)
    common.add_halo_options(parser)
    common.add_memory(parser)
    parser.add_argument("--data-docs", action="store_true", help="as of 'run': it takes some seconds more")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = common.run_config(arguments)
    from partition_ops.chunked.metadata import load_metadata
    from partition_ops.jobs.estimate import estimate_job
    from partition_ops.stages.partition.partition import check_options

    with (
        common.open_input(arguments) as source,
        common.open_output(arguments) if arguments.output else nullcontext() as destination,
    ):
        metadata = load_metadata(source, graph_name=config.graph_name)
        check_options(config.partition, metadata, source)
        estimate = estimate_job(config, source, destination)
        if estimate.missing:
            input_objects(source, metadata)  # says which
    for line in estimate_lines(estimate.to_json()):
        console.line(line)
    return estimate.to_json()
