"""``partition-ops estimate``."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from typing import Any

from partition_ops.artifacts.tasks import input_objects
from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input, open_input, open_output, open_previous
from partition_ops.cli.text_tables import estimate_lines, workers_lines
from partition_ops.cli.verb import Verb
from partition_ops.jobs.options import RunConfig
from partition_ops.options.arguments import config_of
from partition_ops.stages.partition.options import PreviousOptions
from partition_ops.stages.validate.options import ExpectationSuites


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--output",
        metavar="DIR",
        help="Root of the output, a folder or s3://…, whose free disk space is checked too.",
    )
    parser.add_argument(
        "--workers",
        type=_number_of_workers,
        metavar="N",
        help="Say whether the job fits on N workers of --memory each, per task and MPI rank, with each stage"
        " split as far as it can be. Default: the whole job is one process on this machine.",
    )


def _number_of_workers(text: str) -> int:
    from partition_ops.jobs.estimate.workers import MOST_WORKERS

    if not text.isascii() or not text.isdecimal() or not 1 <= int(text) <= MOST_WORKERS:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of workers, 1 to {MOST_WORKERS}")
    return int(text)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, RunConfig)
    from partition_ops.jobs.checks import check_earlier, check_graph
    from partition_ops.jobs.estimate import Estimate, estimate_job
    from partition_ops.jobs.estimate.workers import WorkersEstimate, estimate_workers
    from partition_ops.system.memory import memory_limit
    from partition_ops.system.parallel import cores

    with (
        open_input(arguments, read_only=True) as source,
        open_output(arguments) if arguments.output else nullcontext() as destination,
        open_previous(arguments) as previous,
    ):
        if previous is not None:
            check_earlier(previous, destination)
        metadata = check_graph(config, source)
        estimate: Estimate | WorkersEstimate
        if arguments.workers is None:
            estimate = estimate_job(config, source, destination)
        else:
            memory = config.memory or memory_limit()
            workers = arguments.workers
            estimate = estimate_workers(
                config, source, destination, workers=workers, memory=memory, cores=cores()
            )
        if estimate.missing:
            input_objects(source, metadata)  # names the missing files
    document = estimate.to_json()
    for line in estimate_lines(document) if arguments.workers is None else workers_lines(document):
        console.line(line)
    return document


VERB = Verb(
    description="""\
Estimate what each stage of 'run' with the same options needs: peak memory, disk and a rough time. It accepts
all options of 'run', also those that do not change the estimate. Only metadata.json, the sizes of the files,
the headers of the feature to balance by and of the masks of train nodes, and the assignment of a previous run
are read. The needs are compared with the memory of this machine, or of the cgroup of this process, and
with the free disk space.
With --workers, they are compared with that many workers, which share the stages that can be split.
The exit code is 0 in either case; 'run' rejects a job that does not fit.""",
    add_arguments=add_arguments,
    options=(PreviousOptions, RunConfig, ExpectationSuites),
    execute=execute,
)
