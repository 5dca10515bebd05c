"""Read the nodes of each partition from the output of ``pm_dglpart``: new IDs, or only the assignment."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.assignment import Assignment
from partition_ops.artifacts.new_ids import NodeOrder
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.text_files import (
    ASSIGNMENT_COLUMNS,
    assignment_file,
    find_part_file,
    nodes_file,
    part_node_columns,
)
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]
Parts = npt.NDArray[np.int32]
NOWHERE = -1


@dataclass(frozen=True)
class NodeTypes:
    """Node types of a schema."""

    names: Sequence[str]  # by node type ID
    offsets: Ids  # (types + 1,) int64, first homogeneous ID of each type, and the number of nodes

    def type_of(self, node: int) -> int:
        """Return the node type ID of a homogeneous ID."""
        return int(np.searchsorted(self.offsets, node, side="right")) - 1


@dataclass(frozen=True)
class OutputOrder(NodeOrder):
    """New IDs of all nodes, as ParMETIS numbered them."""

    by_new_id: Ids  # (nodes,) int64, homogeneous ID of the input graph by new ID

    @cached_property
    def _order(self) -> tuple[Ids, Ids]:
        new = np.empty(len(self.by_new_id), np.int64)
        new[self.by_new_id] = np.arange(len(new))
        return self.by_new_id, new


def read_node_order(tables: Sequence[TextTable], types: NodeTypes) -> OutputOrder:
    """Read the nodes of all partitions, and check them: every node once, new IDs as DGL wants them.

    Args:
        tables: The node file of each partition.
        types: Node types of the input graph.

    Raises:
        InvalidInputError: A number is impossible, with file and line; a node is missing; the new IDs of a
            partition are not contiguous, or not by type.

    Peak memory: 28 bytes a node.
    """
    return _NodeReader(types).read(tables)


def read_node_attributes(table: TextTable, first: int, count: int, width: int) -> npt.NDArray[Any]:
    """Return the (count, width) attributes of one partition's nodes, by new ID, which begin at ``first``."""
    rows = np.empty((count, width), table.dtype)
    for block in table.blocks():
        rows[block.columns["node_id"] - first] = block.attributes
    return rows


def first_of_each(ids: Ids) -> npt.NDArray[np.bool_]:
    """Return (n,) bool, whether each of some IDs has not occurred before."""
    first = np.zeros(len(ids), np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return first


def _input_ids(table: TextTable, block: TextBlock, types: NodeTypes) -> Ids:
    """Return the homogeneous IDs in the input graph of the nodes of a block, checked."""
    names, type_ids, orig = types.names, block.columns["node_type"], block.columns["orig_type_node_id"]
    table.require(
        block,
        (type_ids >= 0) & (type_ids < len(names)),
        "there is no such node type",
        lambda row: f"<node_type> 0 to {len(names) - 1}",
    )
    counts = np.diff(types.offsets)[type_ids]
    table.require(
        block,
        (orig >= 0) & (orig < counts),
        "the original ID is outside the range of its node type",
        lambda row: f"0 to {counts[row] - 1} for the node type {names[type_ids[row]]!r}",
    )
    ids: Ids = types.offsets[type_ids] + orig
    return ids


class _NodeReader:
    """Collects the permutation from the node files."""

    def __init__(self, types: NodeTypes) -> None:
        nodes = int(types.offsets[-1])
        self.types = types
        self.old_ids = np.full(nodes, NOWHERE, np.int64)
        self.new_ids = np.full(nodes, NOWHERE, np.int64)
        self.parts = np.full(nodes, NOWHERE, np.int32)

    def read(self, tables: Sequence[TextTable]) -> OutputOrder:
        begin = 0
        for part, table in enumerate(tables):
            begin = self._read_part(part, table, begin)
        if begin != len(self.old_ids):
            self._raise_missing()
        return OutputOrder(Assignment(len(tables), "metis", self.parts), self.old_ids)

    def _read_part(self, part: int, table: TextTable, begin: int) -> int:
        """Return the first new ID of the next partition."""
        count = 0
        for block in table.blocks():
            old = self._checked(table, block)
            self.parts[old] = part
            count += len(old)
        end = begin + count
        if (self.old_ids[begin:end] == NOWHERE).any():
            missing = begin + int(np.flatnonzero(self.old_ids[begin:end] == NOWHERE)[0])
            raise InvalidInputError(
                f"{table.where}: the new IDs of partition {part} are not contiguous",
                found=f"{count} nodes, none of them {missing}",
                expected=f"{begin} to {end - 1}, from where the partition before it ends",
            )
        self._check_types_ascend(table, begin, end)
        return end

    def _checked(self, table: TextTable, block: TextBlock) -> Ids:
        """Enter a block, and return the homogeneous IDs of its nodes in the input graph."""
        old, new = _input_ids(table, block, self.types), block.columns["node_id"]
        table.require(
            block,
            (new >= 0) & (new < len(self.old_ids)),
            "the new ID is out of range",
            lambda row: f"<node_id> 0 to {len(self.old_ids) - 1}",
        )
        free = (self.old_ids[new] == NOWHERE) & (self.new_ids[old] == NOWHERE)
        self.old_ids[new], self.new_ids[old] = old, new
        # of two rows of the block with the same old ID, the first is overwritten
        table.require(
            block,
            free & first_of_each(new) & (self.new_ids[old] == new),
            "the node, or its new ID, occurs twice",
            lambda row: "every node in one row of one partition",
        )
        return old

    def _check_types_ascend(self, table: TextTable, begin: int, end: int) -> None:
        type_ids = np.searchsorted(self.types.offsets, self.old_ids[begin:end], side="right")
        falls = np.flatnonzero(np.diff(type_ids) < 0)
        if len(falls):
            raise InvalidInputError(
                f"{table.where}: the nodes of a type have no contiguous new IDs, in the order of the types",
                found=f"a type that comes before it again at the new ID {begin + int(falls[0]) + 1}",
                expected="new IDs by node type inside a partition, as DGL's partition book wants them",
            )

    def _raise_missing(self) -> None:
        missing = np.flatnonzero(self.new_ids == NOWHERE)
        first = int(missing[0])
        type_id = self.types.type_of(first)
        orig = first - int(self.types.offsets[type_id])
        raise InvalidInputError(
            f"{len(missing)} nodes of the schema are in no partition",
            found=f"for example, no node {orig} of type {self.types.names[type_id]!r}",
            remedy="Check --schema, --num-parts and --num-node-weights.",
        )


def read_parmetis_assignment(
    folder: Store, metadata: GraphMetadata, *, num_parts: int, num_weights: int
) -> Assignment:
    """Read the partition of every node from ``p<i>-<graph>_nodes.txt`` or ``<graph>_part.<partitions>``.

    Args:
        folder: Where ``pm_dglpart`` ran, or ``pm_dglpart3`` or PM4GNN, which write the single file.
        metadata: The graph's metadata.
        num_parts: Number of partitions; each has a node file.
        num_weights: Number of weights of a node in those.

    Raises:
        InvalidInputError: A file is missing, or there are both kinds; a row is not of a node of the graph, a
            partition is out of range, or a node occurs twice or not at all; names file and line.

    Peak memory: 4 bytes a node, and 16 MiB of text.
    """
    types = NodeTypes(metadata.node_types, np.array(metadata.node_offsets))
    parts = np.full(metadata.node_offsets[-1], -1, np.int32)
    single = assignment_file(metadata.graph_name, num_parts)
    if folder.exists(single):
        _check_single(folder, single, metadata.graph_name)
        name = single
        _read_single(_open(folder, single, ASSIGNMENT_COLUMNS), num_parts, parts)
    else:
        name = f"...-{nodes_file(metadata.graph_name)}"
        for part in range(num_parts):
            key = find_part_file(folder, part, nodes_file(metadata.graph_name))
            table = _open(folder, key, part_node_columns(num_weights))
            for block in table.blocks():
                _enter_parts(table, block, _input_ids(table, block, types), part, parts)
    missing = np.flatnonzero(parts < 0)
    if len(missing):
        type_id = types.type_of(int(missing[0]))
        raise InvalidInputError(
            f"{len(missing)} nodes are in no file {name} in {folder.uri}",
            found=f"no partition for ID {missing[0] - metadata.node_offsets[type_id]} of node type"
            f" {metadata.node_types[type_id]!r}",
            expected="every node once",
        )
    return Assignment(num_parts, "metis", parts)


def _open(folder: Store, key: str, columns: Sequence[str]) -> TextTable:
    return TextTable(folder.local_copy(key), folder.uri_of(key), columns)


def _check_single(folder: Store, single: str, graph_name: str) -> None:
    other = f"p0-{nodes_file(graph_name)}"
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
        _enter_parts(table, block, nodes, found, parts)


def _enter_parts(table: TextTable, block: TextBlock, nodes: Ids, found: Ids | int, parts: Parts) -> None:
    fresh = first_of_each(nodes) & (parts[nodes] < 0)
    table.require(block, fresh, "the node has a partition already", lambda _: "every node once")
    parts[nodes] = found
