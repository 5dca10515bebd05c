"""An assignment from the node files that ``pm_dglpart`` wrote."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.assignment import Assignment
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis import file_names as parmetis
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable
from partition_ops.stages.partition.problem import Parts
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]


def read_parmetis_assignment(
    folder: Store, metadata: GraphMetadata, *, num_parts: int, num_weights: int
) -> Assignment:
    """The partition of every node, from ``p<i>-<graph>_nodes.txt`` or ``<graph>_part.<partitions>``.

    Args:
        folder: Where ``pm_dglpart`` ran, or ``pm_dglpart3`` or PM4GNN, which write the single file.
        metadata: The graph's metadata.
        num_parts: Number of partitions; each has a node file.
        num_weights: Number of weights of a node in those.

    Raises:
        InvalidInputError: A file is missing, or there are both kinds; a row is no node of the graph, a
            partition is out of range, or a node is there twice or not at all; with file and line.

    Peak memory: 4 bytes a node, and 16 MiB of text.
    """
    parts = np.full(metadata.node_offsets[-1], -1, np.int32)
    single = parmetis.assignment_file(metadata.graph_name, num_parts)
    if folder.exists(single):
        _refuse_both(folder, single, metadata.graph_name)
        name = single
        _read_single(_table(folder, single, parmetis.ASSIGNMENT_COLUMNS), num_parts, parts)
    else:
        name = f"...-{parmetis.nodes_file(metadata.graph_name)}"
        for part in range(num_parts):
            key = parmetis.find_part_file(folder, part, parmetis.nodes_file(metadata.graph_name))
            _read_part(_table(folder, key, parmetis.part_node_columns(num_weights)), part, parts, metadata)
    missing = np.flatnonzero(parts < 0)
    if len(missing):
        type_id = int(np.searchsorted(metadata.node_offsets, missing[0], side="right")) - 1
        raise InvalidInputError(
            f"{len(missing)} nodes are in no file {name} in {folder.uri}",
            found=f"no partition for ID {missing[0] - metadata.node_offsets[type_id]} of node type"
            f" {metadata.node_types[type_id]!r}",
            expected="every node once",
        )
    return Assignment(num_parts, "metis", parts)


def _table(folder: Store, key: str, columns: Sequence[str]) -> TextTable:
    return TextTable(folder.local_copy(key), folder.uri_of(key), columns)


def _refuse_both(folder: Store, single: str, graph_name: str) -> None:
    other = f"p0-{parmetis.nodes_file(graph_name)}"
    if folder.exists(other) or folder.exists(other.replace("p0-", "p000-", 1)):
        raise InvalidInputError(
            f"{folder.uri} has two assignments",
            found=f"{single}, of pm_dglpart3 or PM4GNN, and {other}, of pm_dglpart",
            expected="one of them",
            remedy="Remove the files of an earlier run.",
        )


def _read_single(table: TextTable, num_parts: int, parts: Parts) -> None:
    for block in table.blocks():
        nodes, found = block.columns["node_id"], block.columns["part"]
        table.require(
            block, (nodes >= 0) & (nodes < len(parts)), "no such node", lambda _: f"0 to {len(parts) - 1}"
        )
        table.require(
            block,
            (found >= 0) & (found < num_parts),
            "no such partition",
            lambda _: f"0 to {num_parts - 1}",
        )
        _enter(table, block, nodes, found, parts)


def _enter(table: TextTable, block: TextBlock, nodes: Ids, found: Ids | int, parts: Parts) -> None:
    first = np.zeros(len(nodes), np.bool_)
    first[np.unique(nodes, return_index=True)[1]] = True
    fresh = first & (parts[nodes] < 0)
    table.require(block, fresh, "the node has a partition already", lambda _: "every node once")
    parts[nodes] = found


def _read_part(table: TextTable, part: int, parts: Parts, metadata: GraphMetadata) -> None:
    offsets = np.array(metadata.node_offsets)
    for block in table.blocks():
        types, ids = block.columns["node_type"], block.columns["orig_type_node_id"]
        known = (types >= 0) & (types < len(metadata.node_types))
        table.require(block, known, "no such node type", lambda _: f"0 to {len(metadata.node_types) - 1}")
        inside = (ids >= 0) & (ids < np.diff(offsets)[types])
        table.require(block, inside, "no such node", lambda _: "an ID below the number of nodes of the type")
        nodes = offsets[types] + ids
        _enter(table, block, nodes, part, parts)
