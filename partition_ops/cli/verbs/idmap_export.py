"""``partition-ops idmap export``."""

from __future__ import annotations

import argparse
from typing import Any

from partition_ops.cli import common
from partition_ops.cli.console import Console
from partition_ops.stages.idmap.options import IdMapConfig

NAME = "export"
SUMMARY = "write where every node and edge went"
DESCRIPTION = """\
Write idmap/nodes/<type>.parquet and idmap/edges/<src:rel:dst>.parquet below --output, with the columns
orig_id, new_id, type_new_id and part_id, sorted by new_id. 'convert' must have been done there.
Where the output was finished already, 'publish' it again afterwards: its manifest is void."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    common.add_input(parser)
    common.add_output(parser)
    parser.add_argument(
        "--vectors",
        action="store_true",
        help="also write idmap/nodes/<type>.npy and idmap/edges/<src:rel:dst>.npy: original IDs by type-wise"
        " new ID, the vectors that DGL's partition_graph returns with return_mapping=True",
    )
    parser.add_argument(
        "--part-maps",
        action="store_true",
        help="also write partitions/node_map.npy and partitions/edge_map.npy: the partition of every node and"
        " edge, by homogeneous ID of the input",
    )


def execute(arguments: argparse.Namespace, console: Console) -> Any:
    config = IdMapConfig(
        graph_name=arguments.graph_name, vectors=arguments.vectors, part_maps=arguments.part_maps
    )
    from partition_ops.stages.idmap.export import export_id_maps

    with common.open_input(arguments) as source, common.locked_output(arguments) as destination:
        result = export_id_maps(config, source, destination, progress=common.progress(arguments))
    common.show_result(console, result)
    return result.to_json()
