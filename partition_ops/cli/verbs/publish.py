"""``partition-ops publish``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.stages.publish.options import PublishConfig

NAME = "publish"
SUMMARY = "write the manifest of a finished output"
DESCRIPTION = """\
Write manifest.json below --output once every stage has been done there: what came in, the options, the
versions, and size and SHA-256 of every artifact."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    common.add_output(parser)
    common.add_gate(parser)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = PublishConfig(graph_name=arguments.graph_name, gate=common.gate(arguments))
    from partition_ops.stages.publish.publish import publish_run

    with common.open_input(arguments) as source, common.locked_output(arguments) as destination:
        result = publish_run(config, source, destination, progress=common.progress(arguments))
    common.show_result(console, result)
    return result.to_json()
