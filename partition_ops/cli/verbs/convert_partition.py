"""``partition-ops convert-partition``: the arguments of DGL's convert_partition.py."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from partition_ops.cli.console import Console
from partition_ops.cli.locations import add_output_option, locked_output, settings
from partition_ops.cli.text_tables import result_line
from partition_ops.cli.verb import Verb
from partition_ops.errors import UsageError
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.options.arguments import config_of
from partition_ops.storage import open_store
from partition_ops.storage.uris import local_folder, split_file_uri
from partition_ops.system.progress import terminal_progress
from partition_ops.system.temporary_folders import remove_abandoned


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input-dir", metavar="DIR", required=True, help="Folder that pm_dglpart ran in, or s3://…."
    )
    parser.add_argument(
        "--schema",
        metavar="FILE",
        required=True,
        help="Homogeneous ID ranges by type, as 'partition-ops schema' writes them. Edge types may be plain"
        " names; their node types are then found in the data.",
    )
    parser.add_argument(
        "--workspace",
        metavar="DIR",
        help="Local folder for temporary copies of files on S3. Default: TMPDIR.",
    )
    add_output_option(parser)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = config_of(arguments, ConvertPartitionConfig)
    from partition_ops.formats.parmetis.schema_metadata import read_schema
    from partition_ops.jobs.convert_text import convert_text

    root, name = split_file_uri(arguments.schema, "--schema")
    with open_store(root, settings(arguments)) as folder:
        schema = read_schema(folder, name)
    with (
        _workspace(arguments),
        open_store(arguments.input_dir, settings(arguments)) as source,
        locked_output(arguments) as destination,
    ):
        result = convert_text(
            config,
            source,
            schema,
            destination,
            schema_where=arguments.schema,
            progress=terminal_progress(),
            report=lambda done: console.line(result_line(done)),
        )
    return result.to_json()


@contextmanager
def _workspace(arguments: argparse.Namespace) -> Iterator[None]:
    """Make temporary folders in the workspace, if one is named."""
    if arguments.workspace is None:
        yield
        return
    folder = local_folder(arguments.workspace, "--workspace")
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"--workspace cannot be made: {error.strerror}", found=repr(str(folder))) from error
    before, tempfile.tempdir = tempfile.tempdir, str(folder)
    try:
        remove_abandoned()
        yield
    finally:
        tempfile.tempdir = before


VERB = Verb(
    description="""\
Read p<i>-<graph>_nodes.txt and p<i>-<graph>_edges.txt (or p000-…, with three digits), as ParMETIS's
pm_dglpart writes them, and write <graph>.json and part<i>/ with graph.dgl, node_feat.dgl, edge_feat.dgl,
orig_nids.dgl and orig_eids.dgl to --output, with the ID maps, the quality report and the manifest of a
finished output. If --input-dir has <graph>_removed_edges.txt, which 'prepare --format parmetis' writes, the
edges in it are added again.""",
    add_arguments=add_arguments,
    options=(ConvertPartitionConfig,),
    execute=execute,
)
