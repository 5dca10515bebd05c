"""``partition-ops prepare``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input_and_output, locked_output, open_input
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.system.progress import terminal_progress


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, PrepareConfig)
    from partition_ops.stages.prepare.prepare import prepare_graph

    with open_input(arguments) as source, locked_output(arguments) as destination:
        result = prepare_graph(config, source, destination, progress=terminal_progress())
    console.line(result_line(result))
    return result.to_json()


VERB = Verb(
    name="prepare",
    summary="write the graph for the engines, or as text for ParMETIS",
    description="""\
Write the graph to prepare/ below --output, for the engines or as text for ParMETIS.

parhip: graph.parhip, symmetric and without duplicates and self-loops, which the engines of this tool read.

parmetis: the text files <graph>_nodes.txt, <graph>_edges.txt and <graph>_stats.txt of the DGL guide, with the
node weights that --weights names, and <graph>_removed_edges.txt with the self-loops and the duplicates of any
edge type, in the columns of the edge file. pm_dglpart reads its files from the folder that it is started in:
  cd DIR/prepare && mpirun -np 4 partition-ops pm-dglpart <graph> 2
'partition-ops convert-partition --input-dir DIR/prepare …' reads what it writes there.""",
    add_arguments=add_input_and_output,
    options=(PrepareConfig,),
    execute=execute,
)
