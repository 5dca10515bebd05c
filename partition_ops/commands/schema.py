"""``partition-ops schema``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.commands import common
from partition_ops.commands.console import Console
from partition_ops.storage import open_store

NAME = "schema"
SUMMARY = "write the ID ranges of every type"
DESCRIPTION = """\
Write the half-open homogeneous ID ranges of every node and edge type, as the DGL guide shows them:
{"nid": {type: [start, end]}, "eid": {type: [start, end]}}. Only metadata.json is read."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument("--output", metavar="FILE", required=True, help="the file to write, local or s3://…")
    parser.add_argument(
        "--canonical",
        action="store_true",
        help="name every edge type src:rel:dst, not just those whose relation is not unique or has no edges",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.graph.metadata import load_metadata
    from partition_ops.schema import schema_of

    root, name = common.split_file_uri(arguments.output, "--output")
    with common.open_input(arguments) as source, open_store(root, common.settings(arguments)) as target:
        schema = schema_of(
            load_metadata(source, graph_name=arguments.graph_name), plain=not arguments.canonical
        )
        target.write_json(name, schema)
    console.line(f"{len(schema['nid'])} node types and {len(schema['eid'])} edge types in {arguments.output}")
    return schema
