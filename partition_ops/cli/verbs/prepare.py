"""``partition-ops prepare``."""

from __future__ import annotations

import argparse
from typing import Any, get_args

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.stages.prepare.options import PrepareConfig, PrepareFormat

NAME = "prepare"
SUMMARY = "write the graph as a partitioner wants it"
DESCRIPTION = """\
Write the graph to prepare/ below --output, as a partitioner wants it.

parhip: graph.parhip, symmetric and without duplicates and self-loops, which the engines of this tool read.

parmetis: the text files <graph>_nodes.txt, <graph>_edges.txt and <graph>_stats.txt of the DGL guide, with
the node weights that --weights names, and <graph>_removed_edges.txt with the self-loops and the duplicates,
of whatever edge type, in the columns of the edge file. pm_dglpart reads its files from the folder that it is
started in, so:
  cd DIR/prepare && mpirun -np 4 partition-ops pm-dglpart <graph> 2
and 'partition-ops convert-partition --input-dir DIR/prepare …' takes what it writes there."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    common.add_output(parser)
    parser.add_argument(
        "--format",
        default="parhip",
        choices=get_args(PrepareFormat),
        help="binary for the engines of this tool (default), or text for ParMETIS",
    )
    parser.add_argument(
        "--weights",
        default="node-types",
        metavar="KIND",
        help="weights in the text for ParMETIS: node-types (one a type, default), one, degree, column=FEATURE"
        " (a node feature of whole numbers) or mask=FEATURE (two: inside and outside, such as a train mask)",
    )
    parser.add_argument(
        "--attributes",
        default=[],
        action="append",
        metavar="NAME",
        help="a feature that the text for ParMETIS gets behind its columns, in node file, edge file or both;"
        " may be repeated, 'all' means all (default: none)",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = PrepareConfig(
        graph_name=arguments.graph_name,
        format=arguments.format,
        weights=arguments.weights,
        attributes=tuple(arguments.attributes),
    )
    from partition_ops.stages.prepare.prepare import prepare_graph

    with common.open_input(arguments) as source, common.locked_output(arguments) as destination:
        result = prepare_graph(config, source, destination, progress=common.progress(arguments))
    common.show_result(console, result)
    return result.to_json()
