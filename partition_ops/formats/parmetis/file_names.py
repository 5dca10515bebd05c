"""The text files of ParMETIS's ``pm_dglpart``: their names and columns.

Format: DGL guide, chapter 7.1. What ``pm_dglpart`` reads is named ``<graph>_nodes.txt`` and so on, what it
writes ``p<i>-<graph>_nodes.txt``; the binary of the ParMETIS project numbers with three digits, ``p000-…``.
"""

from __future__ import annotations

from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

EDGE_COLUMNS = ("src_id", "dst_id", "type_edge_id", "edge_type")
ASSIGNMENT_COLUMNS = ("node_id", "part")
PART_EDGE_COLUMNS = ("src_id", "dst_id", "orig_src_id", "orig_dst_id", "orig_type_edge_id", "edge_type")


def node_columns(num_weights: int) -> tuple[str, ...]:
    """Columns of ``<graph>_nodes.txt``, without the attributes."""
    return ("node_type", *(f"weight{i + 1}" for i in range(num_weights)), "orig_type_node_id")


def part_node_columns(num_weights: int) -> tuple[str, ...]:
    """Columns of ``p<i>-<graph>_nodes.txt``, without the attributes."""
    return ("node_id", *node_columns(num_weights))


def nodes_file(graph_name: str) -> str:
    return f"{graph_name}_nodes.txt"


def edges_file(graph_name: str) -> str:
    return f"{graph_name}_edges.txt"


def stats_file(graph_name: str) -> str:
    return f"{graph_name}_stats.txt"


def removed_edges_file(graph_name: str) -> str:
    """Duplicates and self-loops that were kept from ParMETIS, in the columns of the edge file."""
    return f"{graph_name}_removed_edges.txt"


def assignment_file(graph_name: str, num_parts: int) -> str:
    """What ``pm_dglpart3`` and PM4GNN write: `ASSIGNMENT_COLUMNS` of every node, in any order."""
    return f"{graph_name}_part.{num_parts}"


def find_part_file(folder: Store, part: int, name: str) -> str:
    """Key of a file that was written for one partition, whichever way the partition is numbered.

    Args:
        folder: Where ``pm_dglpart`` ran.
        part: Number of the partition.
        name: `nodes_file` or `edges_file` of the graph.

    Raises:
        InvalidInputError: There is none, or one of each numbering.
    """
    keys = list(dict.fromkeys((f"p{part}-{name}", f"p{part:03d}-{name}")))
    found = [key for key in keys if folder.exists(key)]
    if len(found) == 1:
        return found[0]
    raise InvalidInputError(
        f"The partition {part} has {len(found) or 'no'} files ...-{name} in {folder.uri}",
        found=" and ".join(found) or None,
        expected=("either " if found else "") + " or ".join(keys),
        remedy="Check the folder, the name of the graph and the number of partitions."
        if not found
        else "Remove the ones of an earlier run.",
    )
