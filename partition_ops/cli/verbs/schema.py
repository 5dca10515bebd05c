"""``partition-ops schema``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import check_apart
from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.errors import UsageError
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.storage import Store, open_store
from partition_ops.storage.local_store import LocalStore, check_folder

if TYPE_CHECKING:
    from partition_ops.chunked.metadata import GraphMetadata

NAME = "schema"
SUMMARY = "write the ID ranges of every type"
DESCRIPTION = """\
Write the half-open homogeneous ID ranges of every node and edge type, as the DGL guide shows them:
{"nid": {type: [start, end]}, "eid": {type: [start, end]}}. Only metadata.json is read.

Where --output is a folder, or the file schema/<graph>.json of an output, it is the stage of a whole job: it
writes schema/<graph>.json below the root of that output, and its record, and names every edge type
src:rel:dst. Any other file is written alone."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    parser.add_argument(
        "--output",
        metavar="OUT",
        required=True,
        help="root of an output, a folder that is there or ends with /, or the file to write; local or s3://…",
    )
    parser.add_argument(
        "--canonical",
        action="store_true",
        help="name every edge type src:rel:dst, not just those whose relation is not unique or has no edges",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.chunked.metadata import load_metadata
    from partition_ops.stages.schema.schema import schema_of

    with common.open_input(arguments) as source:
        metadata = load_metadata(source, graph_name=arguments.graph_name)
        root = _root(arguments, metadata.graph_name)
        if root is not None:
            return _do_stage(arguments, console, source, metadata, root)
        schema = schema_of(metadata, plain=not arguments.canonical)
    folder, name = common.split_file_uri(arguments.output, "--output")
    with open_store(folder, common.settings(arguments)) as target:
        target.write_json(name, schema)
    console.line(f"{len(schema['nid'])} node types and {len(schema['eid'])} edge types in {arguments.output}")
    return schema


def _do_stage(
    arguments: argparse.Namespace, console: Console, source: Store, metadata: GraphMetadata, root: str
) -> Any:
    from partition_ops.stages.schema.schema import write_schema

    with open_store(root, common.settings(arguments)) as destination:
        check_folder(destination)
        check_apart(source, destination, metadata)
        with common.alone_in(destination):
            result = write_schema(SchemaConfig(graph_name=arguments.graph_name), source, destination)
    common.show_result(console, result)
    return result.to_json()


def _root(arguments: argparse.Namespace, graph_name: str) -> str | None:
    """The root of the output to do the stage in; None where ``--output`` is a file of one's own."""
    given: str = arguments.output
    if given.endswith("/"):
        return given
    folder, name = common.split_file_uri(given, "--output")
    if _is_output(arguments, given):
        return given
    own = layout.schema_file(graph_name)
    above = f"/{folder}".removesuffix(f"/{own.rpartition('/')[0]}").removeprefix("/")
    root = above or ("/" if given.startswith("/") else ".")
    if above == folder or not _is_output(arguments, root, folder=False):
        return None
    if name != own.rpartition("/")[2]:
        raise UsageError(
            "--output lies where an output has its schema, and is not that of this graph",
            found=repr(given),
            expected=f"{own} below the output {root}, or a file elsewhere",
        )
    return root


def _is_output(arguments: argparse.Namespace, uri: str, *, folder: bool = True) -> bool:
    """Whether a root has been worked in; where ``folder`` is set, a local folder is enough."""
    with open_store(uri, common.settings(arguments)) as store:
        if folder and isinstance(store, LocalStore):
            return store.root.is_dir()
        if store.exists(layout.LOCK) or store.exists(layout.MANIFEST):
            return True
        return any(True for _ in store.list(f"{layout.RECORDS}/"))
