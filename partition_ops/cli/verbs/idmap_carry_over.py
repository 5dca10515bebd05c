"""``partition-ops idmap carry-over``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console

NAME = "carry-over"
SUMMARY = "map the new IDs of an old run to those of a new one"
DESCRIPTION = """\
After the same graph has been partitioned again: write nodes/<type>.parquet and edges/<src:rel:dst>.parquet
below --output, with the columns old_new_id and old_type_new_id of the old run, new_id and type_new_id of
the new one, sorted by old_new_id. So embeddings that were learned on the old partitions can be carried
over to the new ones."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("old_run", metavar="OLD_RUN", help="the OUTPUT of the old run, or s3://…")
    parser.add_argument("new_run", metavar="NEW_RUN", help="the OUTPUT of the new run, or s3://…")
    parser.add_argument("--output", metavar="DIR", required=True, help="folder of the maps, or s3://…")
    parser.add_argument("--nodes-only", action="store_true", help="leave out the maps of edges")


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    from partition_ops.stages.idmap.carry_over import carry_over

    with (
        common.open_run(arguments.old_run, arguments) as old_run,
        common.open_run(arguments.new_run, arguments) as new_run,
        common.locked_output(arguments) as output,
    ):
        result = carry_over(
            old_run,
            new_run,
            output,
            edges=not arguments.nodes_only,
            progress=common.progress(arguments),
        )
    console.line(f"{result['rows']:,} rows in {len(result['output'])} files below {output.uri}")
    return result
