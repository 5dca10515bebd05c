"""``partition-ops convert``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.artifacts.tasks import StageResult
from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.errors import UsageError
from partition_ops.options.stage_config import MOST_PARTS, StageConfig
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.storage import open_store

NAME = "convert"
SUMMARY = "write the files that DGL's distributed training loads"
DESCRIPTION = """\
Write partitions/ below --output: the partition config <graph>.json and, for each partition, graph.dgl,
node_feat.dgl, edge_feat.dgl, orig_nids.dgl and orig_eids.dgl. The assignment is the one that
'partition' left there, or any folder with partition_meta.json and <node type>.txt, or the text that
pm_dglpart wrote (--parmetis-parts)."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument(
        "--assignment", metavar="DIR", help="folder of the assignment (default: assignment/ below --output)"
    )
    parser.add_argument(
        "--parmetis-parts",
        metavar="K",
        type=int,
        help="--assignment is the folder where pm_dglpart wrote K partitions",
    )
    parser.add_argument(
        "--num-node-weights", metavar="N", type=int, help="weights of a node in that text (default 0)"
    )
    common.add_halo_options(parser)
    parser.add_argument(
        "--memory",
        metavar="SIZE",
        type=common.parse_size,
        help="memory for building several partitions at a time, such as 512M or 4G (default: three quarters"
        " of what there is)",
    )
    common.add_output(parser)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = ConvertConfig(
        graph_name=arguments.graph_name,
        memory=arguments.memory,
        num_hops=arguments.num_hops,
        graph_formats=arguments.graph_formats,
    )
    _check_assignment(arguments)
    from partition_ops.stages.convert.convert import convert_graph
    from partition_ops.stages.partition.assignment import import_assignment

    results: list[StageResult] = []

    def report(result: StageResult) -> None:
        results.append(result)
        common.show_result(console, result)

    with common.open_input(arguments) as source, common.locked_output(arguments) as destination:
        if arguments.assignment is not None:
            with open_store(arguments.assignment, common.settings(arguments)) as assignment:
                result = import_assignment(
                    StageConfig(graph_name=arguments.graph_name),
                    source,
                    assignment,
                    destination,
                    parmetis_parts=arguments.parmetis_parts,
                    parmetis_weights=arguments.num_node_weights or 0,
                )
                report(result)
        convert_graph(config, source, destination, progress=common.progress(arguments), report=report)
    return [result.to_json() for result in results]


def _check_assignment(arguments: argparse.Namespace) -> None:
    """Refuse options about a text that is not there, and numbers that cannot be."""
    parts, weights = arguments.parmetis_parts, arguments.num_node_weights
    if parts is not None and arguments.assignment is None:
        raise UsageError("--parmetis-parts needs --assignment, the folder where pm_dglpart wrote")
    if weights is not None and parts is None:
        raise UsageError("--num-node-weights needs --parmetis-parts, the number of partitions in that text")
    if parts is not None and not 1 <= parts <= MOST_PARTS:
        raise UsageError("--parmetis-parts is out of range", found=parts, expected=f"1 to {MOST_PARTS}")
    if weights is not None and weights < 0:
        raise UsageError("--num-node-weights is out of range", found=weights, expected="0 or more")
