"""``partition-ops schema``."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from partition_ops import artifacts
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

    folder, name = common.split_file_uri(arguments.output, "--output")
    with common.open_input(arguments) as source, open_store(folder, common.settings(arguments)) as target:
        metadata = load_metadata(source, graph_name=arguments.graph_name)
        schema = schema_of(metadata, plain=not arguments.canonical)
        with _alone_at(arguments, metadata.graph_name):
            target.write_json(name, schema)
    console.line(f"{len(schema['nid'])} node types and {len(schema['eid'])} edge types in {arguments.output}")
    return schema


@contextmanager
def _alone_at(arguments: argparse.Namespace, graph_name: str) -> Iterator[None]:
    """Keep other calls out of the output whose own schema the file is; any other file is nobody else's."""
    key = artifacts.schema_file(graph_name)
    root = arguments.output.removesuffix(key)
    if root == arguments.output or not f"/{root}".endswith("/"):
        yield
        return
    with open_store(root or ".", common.settings(arguments)) as output:
        is_output = output.exists(artifacts.LOCK) or output.exists(artifacts.record("schema"))
        with common.alone_in(output) if is_output else nullcontext():
            yield
