"""``partition-ops convert``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import find_stage
from partition_ops.artifacts.tasks import StageResult
from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input_and_output, locked_output, open_input, settings
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.options.arguments import config_of
from partition_ops.options.declare import StageConfig
from partition_ops.stages.convert.options import ConvertConfig, ForeignAssignment
from partition_ops.storage import open_store
from partition_ops.system.progress import terminal_progress


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, ConvertConfig)
    foreign = config_of(arguments, ForeignAssignment)
    from partition_ops.artifacts.assignment import num_parts_of
    from partition_ops.jobs.estimate import check_stage
    from partition_ops.jobs.one_stage import run_stage
    from partition_ops.stages.partition.write_assignment import import_assignment

    results: list[StageResult] = []

    def report(result: StageResult) -> None:
        results.append(result)
        console.line(result_line(result))

    with open_input(arguments) as source, locked_output(arguments) as destination:
        if foreign.assignment is not None:
            with open_store(foreign.assignment, settings(arguments)) as assignment:
                result = import_assignment(
                    StageConfig(graph_name=config.graph_name),
                    source,
                    assignment,
                    destination,
                    parmetis_parts=foreign.parmetis_parts,
                    parmetis_weights=foreign.num_node_weights or 0,
                )
                report(result)
        if config.memory is not None:
            parts = num_parts_of(destination.child(layout.ASSIGNMENT))
            check_stage("convert", config, source, num_parts=parts)
        stage = find_stage("convert")
        run_stage(stage, config, source, destination, progress=terminal_progress(), report=report)
    return [result.to_json() for result in results]


VERB = Verb(
    description="""\
Write the partitions to --output in every format of --formats. The format dgl is in partitions/: the
partition config <graph>.json and, for each partition, graph.dgl, node_feat.dgl, edge_feat.dgl, orig_nids.dgl
and orig_eids.dgl. Other formats are in formats/<name>/. convert/book.json describes them all. The assignment
is the one that 'partition' left there, or that in any folder with partition_meta.json and <node type>.txt
(--assignment), or the text that pm_dglpart wrote (--assignment and --parmetis-parts).""",
    add_arguments=add_input_and_output,
    options=(ConvertConfig, ForeignAssignment),
    execute=execute,
)
