"""An assignment from the node files that ``pm_dglpart`` wrote."""

from __future__ import annotations

import numpy as np

from partition_ops.errors import InvalidInputError
from partition_ops.graph import parmetis
from partition_ops.graph.assignment import Assignment
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.graph.text_table import TextTable
from partition_ops.partition.problem import Parts
from partition_ops.storage import Store


def read_parmetis_assignment(
    folder: Store, metadata: GraphMetadata, *, num_parts: int, num_weights: int
) -> Assignment:
    """The partition of every node, from ``p<i>-<graph>_nodes.txt``.

    Args:
        folder: Where ``pm_dglpart`` ran.
        metadata: The graph's metadata.
        num_parts: Number of partitions; each has a file.
        num_weights: Number of weights of a node.

    Raises:
        InvalidInputError: A file is missing, a row is no node of the graph, or a node is there twice or not
            at all; with file and line.

    Peak memory: 4 bytes a node, and 16 MiB of text.
    """
    parts = np.full(metadata.node_offsets[-1], -1, np.int32)
    name = parmetis.nodes_file(metadata.graph_name)
    for part in range(num_parts):
        key = parmetis.find_part_file(folder, part, name)
        columns = parmetis.part_node_columns(num_weights)
        _read_part(TextTable(folder.local_copy(key), folder.uri_of(key), columns), part, parts, metadata)
    missing = np.flatnonzero(parts < 0)
    if len(missing):
        type_id = int(np.searchsorted(metadata.node_offsets, missing[0], side="right")) - 1
        raise InvalidInputError(
            f"{len(missing)} nodes are in no file ...-{name} in {folder.uri}",
            found=f"no partition for ID {missing[0] - metadata.node_offsets[type_id]} of node type"
            f" {metadata.node_types[type_id]!r}",
            expected="every node once",
        )
    return Assignment(num_parts, "metis", parts)


def _read_part(table: TextTable, part: int, parts: Parts, metadata: GraphMetadata) -> None:
    offsets = np.array(metadata.node_offsets)
    for block in table.blocks():
        types, ids = block.columns["node_type"], block.columns["orig_type_node_id"]
        known = (types >= 0) & (types < len(metadata.node_types))
        table.require(block, known, "no such node type", lambda _: f"0 to {len(metadata.node_types) - 1}")
        inside = (ids >= 0) & (ids < np.diff(offsets)[types])
        table.require(block, inside, "no such node", lambda _: "an ID below the number of nodes of the type")
        nodes = offsets[types] + ids
        first = np.zeros(len(nodes), np.bool_)
        first[np.unique(nodes, return_index=True)[1]] = True
        fresh = first & (parts[nodes] < 0)
        table.require(block, fresh, "the node has a partition already", lambda _: "every node once")
        parts[nodes] = part
