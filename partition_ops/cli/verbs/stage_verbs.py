"""The verbs ``prepare``, ``partition``, ``quality`` and ``publish``: one stage from an input to an output."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

from partition_ops.artifacts.tasks import StageResult
from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input_and_output, locked_output, open_input, open_previous
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.options.declare import StageConfig
from partition_ops.stages.partition.options import PartitionConfig, PreviousOptions
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.quality.options import EarlierReport, QualityConfig
from partition_ops.system.progress import terminal_progress


def prepare(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, PrepareConfig)
    from partition_ops.stages.prepare.prepare import prepare_graph

    return _run_stage(prepare_graph, config, arguments, console)


def partition(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, PartitionConfig)
    from partition_ops.stages.partition.partition import partition_nodes

    return _run_stage(partition_nodes, config, arguments, console)


def quality(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, QualityConfig)
    from partition_ops.stages.quality.quality import report_quality

    return _run_stage(report_quality, config, arguments, console)


def publish(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, PublishConfig)
    from partition_ops.stages.publish.publish import publish_run

    return _run_stage(publish_run, config, arguments, console)


def _run_stage(
    stage: Callable[..., StageResult], config: StageConfig, arguments: argparse.Namespace, console: Console
) -> Any:
    with (
        open_input(arguments) as source,
        open_previous(arguments) as previous,
        locked_output(arguments) as destination,
    ):
        earlier = {} if previous is None else {"previous": previous}
        result = stage(config, source, destination, progress=terminal_progress(), **earlier)
    console.line(result_line(result))
    return result.to_json()


PREPARE = Verb(
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
    execute=prepare,
)
PARTITION = Verb(
    name="partition",
    summary="assign every node to a partition",
    description="""\
Write the assignment to assignment/ below --output, in DGL's text format. 'prepare' must have been done there,
unless the engine does not read edges.""",
    add_arguments=add_input_and_output,
    options=(PreviousOptions, PartitionConfig),
    execute=partition,
)
QUALITY = Verb(
    name="quality",
    summary="report edge cut, balance and replication",
    description="""\
Write quality/report.json, quality/history.json and quality/report.html below --output. 'convert' must have
been done there.""",
    add_arguments=add_input_and_output,
    options=(QualityConfig, EarlierReport),
    execute=quality,
)
PUBLISH = Verb(
    name="publish",
    summary="write the manifest of a finished output",
    description="""\
Write manifest.json below --output after every stage has been done there: the input, the options, the
versions, and size and SHA-256 of every artifact.""",
    add_arguments=add_input_and_output,
    options=(PublishConfig,),
    execute=publish,
)
