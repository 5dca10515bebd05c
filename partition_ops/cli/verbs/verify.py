"""``partition-ops verify``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.errors import VerificationError

NAME = "verify"
SUMMARY = "check every invariant of a finished output against its input"
DESCRIPTION = """\
Read a finished output and its input and check, with code of its own: ranges tile the ID space, ID maps
are bijections, every edge that was not dropped is there exactly once in the partition of its destination,
halo nodes are exactly those that the hops reach, features are those of the input row, DGL loads every
partition, and the manifest tells the truth."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("output", metavar="OUTPUT", help="root of the output, a folder or s3://…")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.verification import check_finished, verify_output

    with common.open_input(arguments) as source, common.open_output(arguments) as destination:
        check_finished(destination)
        report = verify_output(
            source, destination, graph_name=arguments.graph_name, progress=common.progress(arguments)
        )
    for line in report.summary().splitlines():
        console.line(line)
    if not report.passed:
        failed = [check for check in report.checks if not check.passed]
        raise VerificationError(
            f"{destination.uri} breaks {len(failed)} of {len(report.checks)} invariants",
            report=report.to_json(),
            found=", ".join(check.name for check in failed),  # the lines above have the details
            remedy="Do not train on it: remove the artifacts that are named and run the job again, which"
            " makes what is missing; report it if that does not mend it.",
        )
    return report.to_json()
