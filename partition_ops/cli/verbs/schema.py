"""``partition-ops schema``."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import find_stage
from partition_ops.artifacts.write_access import check_apart, check_file
from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_input, open_input, settings
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.errors import UsageError
from partition_ops.options.arguments import config_of
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.storage import Store, open_store
from partition_ops.storage.local_store import LocalStore, check_folder
from partition_ops.storage.uris import split_file_uri

if TYPE_CHECKING:
    from partition_ops.chunked.metadata import GraphMetadata


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_input(parser)
    parser.add_argument(
        "--output",
        metavar="OUT",
        required=True,
        help="Root of an output, a folder that exists or ends with /, or the file to write; local or s3://….",
    )
    parser.add_argument(
        "--canonical",
        action="store_true",
        help="Name every edge type src:rel:dst, instead of only those whose relation is not unique or has no"
        " edges.",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, SchemaConfig)
    from partition_ops.artifacts.graph_schema import schema_of
    from partition_ops.chunked.metadata import load_metadata

    if not arguments.output.endswith("/"):
        split_file_uri(arguments.output, "--output")  # a misspelt one is wrong before anything is opened
    with open_input(arguments) as source:
        metadata = load_metadata(source, graph_name=config.graph_name)
        root = _root(arguments, metadata.graph_name)
        if root is not None:
            return _run(config, arguments, console, source, metadata, root)
        schema = schema_of(metadata, plain=not arguments.canonical)
        folder, name = split_file_uri(arguments.output, "--output")
        with open_store(folder, settings(arguments)) as target:
            check_file(target, name, reads=[source], document="schema")
            target.write_json(name, schema)
    console.line(f"{len(schema['nid'])} node types and {len(schema['eid'])} edge types in {arguments.output}")
    return schema


def _run(
    config: SchemaConfig,
    arguments: argparse.Namespace,
    console: Console,
    source: Store,
    metadata: GraphMetadata,
    root: str,
) -> Any:
    from partition_ops.artifacts.lock import locked
    from partition_ops.jobs.one_stage import run_stage

    with open_store(root, settings(arguments)) as destination:
        check_folder(destination)
        check_apart(source, destination, metadata)
        with locked(destination):
            result = run_stage(find_stage("schema"), config, source, destination)
    console.line(result_line(result))
    return result.to_json()


def _root(arguments: argparse.Namespace, graph_name: str) -> str | None:
    """Return the root of the output to run the stage in; None if ``--output`` is a file of its own."""
    output: str = arguments.output
    if output.endswith("/"):
        return output
    folder, name = split_file_uri(output, "--output")
    if _is_output(arguments, output):
        return output
    own = layout.schema_file(graph_name)
    above = f"/{folder}".removesuffix(f"/{own.rpartition('/')[0]}").removeprefix("/")
    root = above or ("/" if output.startswith("/") else ".")
    if above == folder or not _is_output(arguments, root, folder=False):
        return None
    if name != own.rpartition("/")[2]:
        raise UsageError(
            "--output lies where an output has its schema, and is not that of this graph",
            found=repr(output),
            expected=f"{own} below the output {root}, or a file elsewhere",
        )
    return root


def _is_output(arguments: argparse.Namespace, uri: str, *, folder: bool = True) -> bool:
    """Return whether a root has been worked in; if ``folder`` is set, a local folder is enough."""
    with open_store(uri, settings(arguments)) as store:
        if folder and isinstance(store, LocalStore):
            return store.root.is_dir()
        if any(map(store.exists, (layout.MARKER, layout.LOCK, layout.MANIFEST))):
            return True
        return any(True for _ in store.list(f"{layout.RECORDS}/"))


VERB = Verb(
    description="""\
Write the half-open homogeneous ID ranges of every node and edge type, as the DGL guide shows them:
{"nid": {type: [start, end]}, "eid": {type: [start, end]}}. Only metadata.json is read.

If --output is a folder, or the file schema/<graph>.json of an output, the verb works as the stage of a whole
job: it writes schema/<graph>.json and the record below the root of that output, and names every edge type
src:rel:dst. Any other --output is a single file, which is written without a record.""",
    add_arguments=add_arguments,
    options=(SchemaConfig,),
    execute=execute,
)
