"""``partition-ops ingest``: a graph from tables."""

from __future__ import annotations

import argparse
from contextlib import nullcontext
from functools import partial
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import OUTPUT_HELP, open_output, settings
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.errors import UsageError, some_of
from partition_ops.options.arguments import config_of
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file, is_saved_graph
from partition_ops.storage import open_store
from partition_ops.storage.uris import split_file_uri, split_uri
from partition_ops.system.progress import terminal_progress


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "graph_file",
        metavar="GRAPH.yaml",
        nargs="?",
        help="The tables of the graph, or a GRAPH.bin that DGL saved: a file or s3://….",
    )
    parser.add_argument("output", metavar="OUTPUT", nargs="?", help=OUTPUT_HELP)
    parser.add_argument(
        "--previous",
        metavar="DIR",
        help="Root of an earlier ingested graph, which has grown since: its nodes keep their IDs, new nodes"
        " come behind them, and its transforms are applied unchanged.",
    )
    parser.add_argument("--example", action="store_true", help="Print an example of GRAPH.yaml.")
    parser.add_argument(
        "--infer",
        metavar="PATH",
        help="Print a proposal of GRAPH.yaml for the tables below a folder, or in one file.",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    if arguments.example or arguments.infer is not None:
        return _print_graph_file(arguments, console)
    if arguments.graph_file is None or arguments.output is None:
        raise UsageError(
            "ingest needs GRAPH.yaml and OUTPUT",
            remedy="'partition-ops ingest --example' prints a GRAPH.yaml, --infer PATH proposes one.",
        )
    if not is_graph_file(arguments.graph_file):
        raise UsageError("GRAPH.yaml does not end with .yaml, .yml or .bin", found=repr(arguments.graph_file))
    config = config_of(arguments, IngestConfig)
    if is_saved_graph(arguments.graph_file) and arguments.previous is not None:
        raise UsageError(
            "--previous is for tables", remedy="Leave it out: a saved graph has the IDs of its nodes."
        )
    split_file_uri(arguments.graph_file, "GRAPH.yaml")
    from partition_ops.artifacts.lock import locked
    from partition_ops.jobs.open_graph import findings_of, ingest_graph_file

    opened = partial(open_store, settings=settings(arguments))
    with (
        open_output(arguments) as destination,
        nullcontext() if arguments.previous is None else opened(arguments.previous) as previous,
        locked(destination, "ingest", reads=[] if previous is None else [previous]),
    ):
        result = ingest_graph_file(
            config,
            arguments.graph_file,
            destination,
            opened,
            previous=previous,
            progress=terminal_progress(),
        )
        findings = findings_of(destination)
    console.line(result_line(result))
    for one in findings:
        console.line(f"  {one['check']} ({one['action']}): {one['sentence']}: {some_of(one['examples'], 3)}")
    return {**result.to_json(), "findings": findings}


def _print_graph_file(arguments: argparse.Namespace, console: Console) -> Any:
    if arguments.example and arguments.infer is not None:
        raise UsageError("--example and --infer exclude each other")
    if arguments.graph_file is not None:
        raise UsageError(
            "--example and --infer print a GRAPH.yaml, and take none", found=repr(arguments.graph_file)
        )
    if arguments.example:
        from partition_ops.stages.ingest.graph_file import EXAMPLE as text
    else:
        from partition_ops.stages.ingest.infer import infer_graph_file
        from partition_ops.stages.ingest.sources import database_suffixes, file_suffixes

        with open_store(arguments.infer, settings(arguments)) as folder:
            root, name = split_uri(arguments.infer)
            if name.lower().endswith((*file_suffixes(), *database_suffixes())) and not any(folder.list()):
                with open_store(root, settings(arguments)) as above:
                    text = infer_graph_file(above, name)
            else:
                text = infer_graph_file(folder)
    for line in text.rstrip("\n").split("\n"):
        console.line(line)
    return {"graph_file": text}


VERB = Verb(
    description="""\
Make a graph in the chunked format from the tables that GRAPH.yaml names: Parquet, CSV, JSON lines, Arrow IPC
or queries, with keys of any kind. Nodes are numbered by their keys, whatever the order of the rows, and
metadata.json names the keys under node_ids. Wherever another verb takes an INPUT, it takes GRAPH.yaml as well
and ingests it first. A GRAPH.bin that dgl.save_graphs has written is taken like GRAPH.yaml.""",
    add_arguments=add_arguments,
    options=(IngestConfig,),
    execute=execute,
)
