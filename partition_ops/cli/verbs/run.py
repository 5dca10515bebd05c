"""``partition-ops run``: the whole job without Airflow."""

from __future__ import annotations

import argparse
from contextlib import closing
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import StageResult
from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input, add_output, settings
from partition_ops.cli.text_tables import defect_lines, quality_lines, result_line
from partition_ops.cli.verb import Verb
from partition_ops.jobs.options import RunConfig
from partition_ops.options.arguments import config_of
from partition_ops.stages.ingest.options import is_graph_file
from partition_ops.stages.partition.options import PreviousOptions
from partition_ops.stages.validate.options import ExpectationSuites
from partition_ops.storage import open_store
from partition_ops.storage.uris import ListingAhead
from partition_ops.system.progress import terminal_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    add_output(parser)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, RunConfig)
    with closing(ListingAhead(settings(arguments))) as opener:
        if not is_graph_file(arguments.input):
            opener.list(arguments.input)
        return _run(arguments, console, config, opener)


def _run(arguments: argparse.Namespace, console: Console, config: RunConfig, opener: ListingAhead) -> Any:
    from partition_ops.jobs.whole_job import run_graph  # loads numba, while a server may list the input

    def report(result: StageResult) -> None:
        console.line(result_line(result))
        if result.task == "validate":
            with open_store(result.output, settings(arguments)) as output:
                for line in defect_lines(output.read_json(layout.VALIDATION_REPORT)):
                    console.line(line)

    done = run_graph(
        config,
        arguments.input,
        arguments.output,
        settings=settings(arguments),
        opened=opener,
        expectations=getattr(arguments, "expectations", None),
        previous=getattr(arguments, "previous", None),
        progress=terminal_progress(),
        report=report,
    )
    with open_store(done.output, settings(arguments)) as output:
        page = output.uri_of(layout.QUALITY_PAGE)
    for line in (
        "",
        *quality_lines(done.quality),
        "",
        f"partitions      {done.partition_config}",
        f"quality page    {page}",
    ):
        console.line(line)
    return {
        "output": done.output,
        "partition_config": done.partition_config,
        "tasks": [result.to_json() for result in done.tasks],
        "quality": done.quality,
    }


VERB = Verb(
    description="""\
Take the graph at INPUT through every stage and write to OUTPUT the partitions that DGL's distributed training
loads, the ID maps, a quality report and a manifest. The manifest is written last: an OUTPUT without
manifest.json is not finished. To resume an interrupted command, run it again: finished stages whose
inputs and options have not changed are skipped.""",
    add_arguments=add_arguments,
    options=(PreviousOptions, RunConfig, ExpectationSuites),
    execute=execute,
)
