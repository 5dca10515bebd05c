"""``partition-ops convert-partition``: the arguments of DGL's convert_partition.py."""

from __future__ import annotations

import argparse
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.errors import UsageError
from partition_ops.formats.parmetis.options import ConvertPartitionConfig, OnMissing
from partition_ops.storage import open_store
from partition_ops.system.temporary_folders import remove_abandoned

NAME = "convert-partition"
SUMMARY = "turn what ParMETIS wrote into the files that DGL loads"
DESCRIPTION = """\
Read p<i>-<graph>_nodes.txt and p<i>-<graph>_edges.txt (or p000-…, with three digits), as ParMETIS's
pm_dglpart writes them, and write <graph>.json and part<i>/ with graph.dgl, node_feat.dgl, edge_feat.dgl,
orig_nids.dgl and orig_eids.dgl to --output. Where --input-dir has <graph>_removed_edges.txt, as
'prepare --format parmetis' leaves it, the edges in it are put back."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--input-dir", metavar="DIR", required=True, help="folder that pm_dglpart ran in, or s3://…"
    )
    parser.add_argument("--graph-name", metavar="NAME", required=True, help="the name in the files' names")
    parser.add_argument(
        "--schema",
        metavar="FILE",
        required=True,
        help="homogeneous ID ranges by type, as 'partition-ops schema' writes them; edge types may be plain"
        " names, whose node types are then found in the data",
    )
    parser.add_argument("--num-parts", metavar="K", type=int, required=True, help="number of partitions")
    parser.add_argument(
        "--num-node-weights", metavar="N", type=int, required=True, help="number of weights of a node"
    )
    parser.add_argument(
        "--workspace", metavar="DIR", help="local folder for copies of what is on S3 (default: TMPDIR)"
    )
    parser.add_argument(
        "--node-attr-dtype",
        metavar="DTYPE",
        help="dtype of what follows in the node files: it becomes the feature <type>/attr of every node type"
        " (default: passed over)",
    )
    parser.add_argument(
        "--edge-attr-dtype", metavar="DTYPE", help="the same of the edge files and edge types"
    )
    parser.add_argument(
        "--missing-edges",
        default="fail",
        choices=get_args(OnMissing),
        help="edges that the schema counts and that are in no file: fail (default), or accept, since ParMETIS"
        " drops duplicates",
    )
    common.add_output(parser)


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = ConvertPartitionConfig(
        graph_name=arguments.graph_name,
        num_parts=arguments.num_parts,
        num_node_weights=arguments.num_node_weights,
        node_attr_dtype=arguments.node_attr_dtype,
        edge_attr_dtype=arguments.edge_attr_dtype,
        missing_edges=arguments.missing_edges,
    )
    from partition_ops.formats.parmetis.convert import convert_parmetis
    from partition_ops.stages.schema.schema import read_schema

    settings = common.settings(arguments)
    root, name = common.split_file_uri(arguments.schema, "--schema")
    with open_store(root, settings) as folder:
        schema = read_schema(folder, name)
    with (
        _workspace(arguments),
        open_store(arguments.input_dir, settings) as source,
        common.locked_output(arguments) as destination,
    ):
        result = convert_parmetis(
            config,
            source,
            schema,
            destination,
            schema_where=arguments.schema,
            progress=common.progress(arguments),
        )
    common.show_result(console, result)
    return result.to_json()


@contextmanager
def _workspace(arguments: argparse.Namespace) -> Iterator[None]:
    """Have everybody make temporary folders in the workspace, if one is named."""
    if arguments.workspace is None:
        yield
        return
    folder = common.local_folder(arguments.workspace, "--workspace")
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
