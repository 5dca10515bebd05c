"""New IDs as ParMETIS gave them, from its node files."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.assignment import Assignment
from partition_ops.artifacts.new_ids import NodeOrder
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable

Ids = npt.NDArray[np.int64]
NOWHERE = -1


@dataclass(frozen=True)
class NodeTypes:
    """Node types of a schema.

    Attributes:
        names: By node type ID.
        offsets: (types + 1,) int64, first homogeneous ID of each type, and the number of nodes.
    """

    names: Sequence[str]
    offsets: Ids

    def type_of(self, node: int) -> int:
        """Node type ID of a homogeneous ID."""
        return int(np.searchsorted(self.offsets, node, side="right")) - 1

    def ids_of(self, name: str) -> str:
        """The homogeneous IDs of a type, for messages."""
        begin, end = self.offsets[self.names.index(name) :][:2]
        return f"{begin} to {end - 1}" if end > begin else "none, the type has no nodes"


@dataclass(frozen=True)
class GivenOrder(NodeOrder):
    """A permutation that was made elsewhere.

    Attributes:
        given: (nodes,) int64, homogeneous ID of the input graph by new ID.
    """

    given: Ids

    @cached_property
    def _order(self) -> tuple[Ids, Ids]:
        new = np.empty(len(self.given), np.int64)
        new[self.given] = np.arange(len(new))
        return self.given, new


def read_node_order(tables: Sequence[TextTable], types: NodeTypes) -> GivenOrder:
    """Read the nodes of all partitions, checked: every node once, new IDs as DGL wants them.

    Args:
        tables: The node file of each partition.
        types: Node types of the input graph.

    Raises:
        InvalidInputError: A number cannot be, with file and line; a node is missing; the new IDs of a
            partition are not contiguous, or not by type.

    Peak memory: 28 bytes a node.
    """
    return _NodeReader(types).read(tables)


def read_node_attributes(table: TextTable, first: int, count: int, width: int) -> npt.NDArray[Any]:
    """(count, width) attributes of one partition's nodes, by new ID, which begin at ``first``."""
    rows = np.empty((count, width), table.dtype)
    for block in table.blocks():
        rows[block.columns["node_id"] - first] = block.attributes
    return rows


def first_of_each(ids: Ids) -> npt.NDArray[np.bool_]:
    """(n,) bool, whether each of some IDs has not occurred before."""
    first = np.zeros(len(ids), np.bool_)
    first[np.unique(ids, return_index=True)[1]] = True
    return first


class _NodeReader:
    """Collects the permutation from the node files."""

    def __init__(self, types: NodeTypes) -> None:
        nodes = int(types.offsets[-1])
        self.types = types
        self.old_ids = np.full(nodes, NOWHERE, np.int64)
        self.new_ids = np.full(nodes, NOWHERE, np.int64)
        self.parts = np.full(nodes, NOWHERE, np.int32)

    def read(self, tables: Sequence[TextTable]) -> GivenOrder:
        begin = 0
        for part, table in enumerate(tables):
            begin = self._read_part(part, table, begin)
        if begin != len(self.old_ids):
            self._complain_about_missing()
        return GivenOrder(Assignment(len(tables), "metis", self.parts), self.old_ids)

    def _read_part(self, part: int, table: TextTable, begin: int) -> int:
        """First new ID of the next partition."""
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
        """Enter a block and give back the homogeneous IDs, in the input graph, of its nodes."""
        offsets, names = self.types.offsets, self.types.names
        new, type_ids = block.columns["node_id"], block.columns["node_type"]
        orig = block.columns["orig_type_node_id"]
        table.require(
            block,
            (type_ids >= 0) & (type_ids < len(names)),
            "there is no such node type",
            lambda row: f"<node_type> 0 to {len(names) - 1}",
        )
        counts = np.diff(offsets)[type_ids]
        table.require(
            block,
            (orig >= 0) & (orig < counts),
            "the original ID is outside the range of its node type",
            lambda row: f"0 to {counts[row] - 1} for the node type {names[type_ids[row]]!r}",
        )
        table.require(
            block,
            (new >= 0) & (new < len(self.old_ids)),
            "the new ID is out of range",
            lambda row: f"<node_id> 0 to {len(self.old_ids) - 1}",
        )
        old = offsets[type_ids] + orig
        self._enter(table, block, old)
        return old

    def _enter(self, table: TextTable, block: TextBlock, old: Ids) -> None:
        new = block.columns["node_id"]
        free = (self.old_ids[new] == NOWHERE) & (self.new_ids[old] == NOWHERE)
        self.old_ids[new], self.new_ids[old] = old, new
        # of two rows of the block with the same old ID, the first is overwritten
        table.require(
            block,
            free & first_of_each(new) & (self.new_ids[old] == new),
            "the node, or its new ID, is there twice",
            lambda row: "every node in one row of one partition",
        )

    def _check_types_ascend(self, table: TextTable, begin: int, end: int) -> None:
        type_ids = np.searchsorted(self.types.offsets, self.old_ids[begin:end], side="right")
        falls = np.flatnonzero(np.diff(type_ids) < 0)
        if len(falls):
            raise InvalidInputError(
                f"{table.where}: the nodes of a type have no contiguous new IDs, in the order of the types",
                found=f"a type that comes before it again at the new ID {begin + int(falls[0]) + 1}",
                expected="new IDs by node type inside a partition, as DGL's partition book wants them",
            )

    def _complain_about_missing(self) -> None:
        missing = np.flatnonzero(self.new_ids == NOWHERE)
        first = int(missing[0])
        type_id = self.types.type_of(first)
        orig = first - int(self.types.offsets[type_id])
        raise InvalidInputError(
            f"{len(missing)} nodes of the schema are in no partition",
            found=f"no node {orig} of type {self.types.names[type_id]!r}, for one",
            remedy="Check --schema, --num-parts and --num-node-weights.",
        )
