"""``partition-ops run``: the whole job without Airflow."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import StageResult
from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.cli.text_tables import defect_lines, quality_lines
from partition_ops.stages.validate.checks import parse_actions

NAME = "run"
SUMMARY = "the whole job: validate, partition, convert, map, report"
DESCRIPTION = """\
Take the graph at INPUT through every stage and leave at OUTPUT what DGL's distributed training loads,
the ID maps, a quality report and a manifest. The manifest is written last: an OUTPUT without
manifest.json is not finished. A call that was stopped goes on where it was when it is repeated, and
what has not changed is not done again."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("output", metavar="OUTPUT", help="root of the output, a folder or s3://…")
    common.add_partition_options(parser)
    common.add_halo_options(parser)
    common.add_on_defect(parser)
    common.add_expectations(parser)
    parser.add_argument(
        "--data-docs", action="store_true", help="also write Great Expectations' Data Docs, some seconds more"
    )
    common.add_gate(parser)
    parser.add_argument(
        "--probe",
        action="store_true",
        help="also sample mini-batches as trainers would, for the quality report (see 'probe')",
    )
    parser.add_argument(
        "--ignore-estimate",
        action="store_true",
        help="go on even if this machine is estimated to have too little memory or disk (see 'estimate')",
    )
    parser.add_argument(
        "--check-artifacts",
        action="store_true",
        help="read all that an earlier call has left, and make again what is damaged, even if its size is the"
        " same",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = common.run_config(
        arguments,
        on_defect=parse_actions(arguments.on_defect),
        ignore_estimate=arguments.ignore_estimate,
        check_artifacts=arguments.check_artifacts,
        probe=arguments.probe,
        gate=common.gate(arguments),
    )
    from partition_ops.jobs.whole_job import run_job

    def report(result: StageResult) -> None:
        common.show_result(console, result)
        if result.task == "validate":
            for line in defect_lines(destination.read_json(layout.VALIDATION_REPORT)):
                console.line(line)

    with (
        common.open_input(arguments) as source,
        common.open_output(arguments) as destination,
        common.open_expectations(arguments) as expectations,
        common.open_previous(arguments) as previous,
    ):
        results = run_job(
            config,
            source,
            destination,
            expectations=expectations,
            previous=previous,
            progress=common.progress(arguments),
            report=report,
        )
        quality = destination.read_json(layout.QUALITY_REPORT)
        partition_config = destination.uri_of(layout.partition_config(quality["graph_name"]))
        page = destination.uri_of(layout.QUALITY_PAGE)
    for line in (
        "",
        *quality_lines(quality),
        "",
        f"partitions      {partition_config}",
        f"quality page    {page}",
    ):
        console.line(line)
    return {
        "output": destination.uri,
        "partition_config": partition_config,
        "tasks": [result.to_json() for result in results],
        "quality": quality,
    }
