"""``partition-ops idmap restore``."""

from __future__ import annotations

import argparse
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.cli.verbs import remap
from partition_ops.errors import UsageError
from partition_ops.storage import open_store

if TYPE_CHECKING:
    from partition_ops.stages.idmap.string_ids import StringIds

NAME = "restore"
SUMMARY = "put embeddings back in the order of the input graph"
DESCRIPTION = """\
Row i of the input files, taken together, belongs to the type-wise new ID i, as DistTensor and DistGraph
count the nodes of a type: one file for the type, or one for each partition, in their order. Row i of the
output belongs to the type-wise ID i of the input graph. The files may be .npy, .pt or .parquet, by their
names, and larger than memory. A .parquet output can have your own IDs beside the rows, in a column 'id'."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    remap.add_arguments(parser, "the file to write, local or s3://…")
    parser.add_argument(
        "--ids",
        metavar="FILE",
        nargs="+",
        help="your own IDs, by type-wise ID: .parquet, .csv with a header, or .txt with one a line",
    )
    parser.add_argument("--ids-column", metavar="NAME", help="the column of --ids, where there are several")
    parser.add_argument(
        "--ids-from", metavar="INPUT", help="the graph whose metadata.json names them (node_ids, edge_ids)"
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.stages.idmap.restore import restore_rows

    def ids(stack: ExitStack) -> dict[str, Any]:
        return {"ids": _open_ids(arguments, stack)}

    return remap.execute(restore_rows, arguments, console, ids)


def _open_ids(arguments: argparse.Namespace, stack: ExitStack) -> StringIds | None:
    from partition_ops.stages.idmap.string_ids import StringIds, ids_of_input

    settings = common.settings(arguments)
    if arguments.ids and arguments.ids_from:
        raise UsageError("IDs are named twice", expected="either --ids or --ids-from")
    if arguments.ids_column and not arguments.ids:
        raise UsageError("--ids-column needs --ids")
    if arguments.ids_from:
        source = stack.enter_context(open_store(arguments.ids_from, settings))
        type_name = arguments.node_type or arguments.edge_type
        return ids_of_input(source, type_name, edges=arguments.node_type is None)
    if not arguments.ids:
        return None
    roots, keys = zip(*(common.split_file_uri(uri, "--ids") for uri in arguments.ids), strict=True)
    if len(set(roots)) > 1:
        raise UsageError("The files of --ids are in several folders", found=", ".join(sorted(set(roots))))
    return StringIds(stack.enter_context(open_store(roots[0], settings)), keys, arguments.ids_column)
