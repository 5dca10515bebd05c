"""What ``idmap restore`` and ``idmap apply`` have in common."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.stages.idmap.options import RemapConfig
from partition_ops.storage import open_store


def add_arguments(parser: argparse.ArgumentParser, output: str) -> None:
    parser.add_argument("run", metavar="RUN", help="the OUTPUT of a run, with its ID maps, or s3://…")
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--node-type", metavar="T", help="the rows are those of its nodes")
    which.add_argument("--edge-type", metavar="SRC:REL:DST", help="the rows are those of its edges")
    parser.add_argument(
        "--input", metavar="FILE", required=True, nargs="+", help=".npy, .pt or .parquet, local or s3://…"
    )
    parser.add_argument("--output", metavar="FILE", required=True, help=output)


def execute(
    remap: Callable[..., dict[str, Any]],
    arguments: argparse.Namespace,
    console: Console,
    more: Callable[[ExitStack], dict[str, Any]] = lambda stack: {},
) -> Any:
    """Open what the arguments name, do the work and show it in a line.

    Args:
        remap: Does the work.
        arguments: Those of the command line.
        console: Shows the result.
        more: Gives further arguments of ``remap``; the stack closes what it opens.
    """
    config = RemapConfig(node_type=arguments.node_type, edge_type=arguments.edge_type)
    from partition_ops.stages.idmap.row_files import RowFile

    with ExitStack() as stack:

        def open_file(uri: str, option: str) -> RowFile:
            root, key = common.split_file_uri(uri, option)
            return RowFile(stack.enter_context(open_store(root, common.settings(arguments))), key)

        run = stack.enter_context(common.open_run(arguments.run, arguments))
        inputs = [open_file(uri, "--input") for uri in arguments.input]
        output = open_file(arguments.output, "--output")
        shown = common.progress(arguments)
        result = remap(config, run, inputs, output, progress=shown, **more(stack))
    files = result["output"]
    others = f" and {len(files) - 1} more" if len(files) > 1 else ""
    console.line(
        f"{result['rows']:,} rows of the {result['type']} in {files[0] if files else 'no file'}{others}"
    )
    return result
