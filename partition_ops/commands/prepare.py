"""``partition-ops prepare``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.commands import common
from partition_ops.commands.console import Console
from partition_ops.config import PrepareConfig

NAME = "prepare"
SUMMARY = "write the graph as a partitioner wants it"
DESCRIPTION = """\
Write the symmetric homogeneous graph, without duplicates and self-loops, to prepare/ below --output:
as ParHIP binary, which the engines read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    common.add_output(parser)
    parser.add_argument(
        "--format", default="parhip", choices=["parhip"], help="binary for the engines of this tool (default)"
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = PrepareConfig(graph_name=arguments.graph_name, format=arguments.format)
    from partition_ops.prepare import prepare_graph

    with common.open_input(arguments) as source, common.open_output(arguments) as destination:
        result = prepare_graph(config, source, destination, progress=common.progress(arguments))
    common.show_result(console, result)
    return result.to_json()
