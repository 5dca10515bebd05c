"""The text files of ParMETIS's ``pm_dglpart``: names, columns, and the files in the folder where it ran.

Format: DGL guide, chapter 7.1. The input of ``pm_dglpart`` is named ``<graph>_nodes.txt`` and so on, its
output ``p<i>-<graph>_nodes.txt``; the program of the ParMETIS project writes three digits, ``p000-…``.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.formats.parmetis.text_table import TextTable
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.store import sha256_of

Ids = npt.NDArray[np.int64]
FEATURE = "feat"  # the name that DGL's convert_partition.py gives to attributes
EDGE_COLUMNS = ("src_id", "dst_id", "type_edge_id", "edge_type")
ASSIGNMENT_COLUMNS = ("node_id", "part")
REMOVED_EDGE_COLUMNS = ("orig_src_id", "orig_dst_id", "orig_type_edge_id", "edge_type")
PART_EDGE_COLUMNS = ("src_id", "dst_id", *REMOVED_EDGE_COLUMNS)


def node_columns(num_weights: int) -> tuple[str, ...]:
    """Return the columns of ``<graph>_nodes.txt``, without the attributes."""
    return ("node_type", *(f"weight{i + 1}" for i in range(num_weights)), "orig_type_node_id")


def part_node_columns(num_weights: int) -> tuple[str, ...]:
    """Return the columns of ``p<i>-<graph>_nodes.txt``, without the attributes."""
    return ("node_id", *node_columns(num_weights))


def nodes_file(graph_name: str) -> str:
    return f"{graph_name}_nodes.txt"


def edges_file(graph_name: str) -> str:
    return f"{graph_name}_edges.txt"


def stats_file(graph_name: str) -> str:
    return f"{graph_name}_stats.txt"


def read_text_stats(source: Store, graph_name: str) -> tuple[int, int, int]:
    """Read ``<graph>_stats.txt``: the numbers of nodes, edges and node weights.

    Raises:
        InvalidInputError: The file is missing, or does not hold three numbers.
    """
    key = stats_file(graph_name)
    return parse_text_stats(source.read_bytes(key), source.uri_of(key))


def parse_text_stats(text: bytes, place: str) -> tuple[int, int, int]:
    """Return the three numbers in the content of a stats file, which ``place`` names in an error.

    Raises:
        InvalidInputError: It does not hold three numbers.
    """
    fields = text.split()
    if len(fields) != 3 or not all(field.isdigit() for field in fields):
        raise InvalidInputError(
            f"{place}, line 1: not the counts of a graph",
            found=repr(b" ".join(fields)[:100].decode(errors="replace")),
            expected="<num_nodes> <num_edges> <num_node_weights>",
        )
    nodes, edges, weights = (int(field) for field in fields)
    return nodes, edges, weights


def removed_edges_file(graph_name: str) -> str:
    """Return the name of the file with the duplicates and self-loops that ParMETIS does not get."""
    return f"{graph_name}_removed_edges.txt"


def assignment_file(graph_name: str, num_parts: int) -> str:
    """Return the name of the file of ``pm_dglpart3`` and PM4GNN: `ASSIGNMENT_COLUMNS` of every node."""
    return f"{graph_name}_part.{num_parts}"


def find_part_file(folder: Store, part: int, name: str) -> str:
    """Return the key of a file of one partition, with either way to number partitions.

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


class OutputFiles:
    """The output of ``pm_dglpart``; all files must exist before any is read.

    Raises:
        UsageError: DGL has no tensors of the dtype of the attributes.
        InvalidInputError: A partition's file is missing, or there are more partitions.
    """

    def __init__(self, config: ConvertPartitionConfig, source: Store) -> None:
        name = config.graph_name
        self._config = config
        self.source = self._source = source
        self._node_dtype = attribute_dtype("--node-attr-dtype", config.node_attr_dtype)
        self._edge_dtype = attribute_dtype("--edge-attr-dtype", config.edge_attr_dtype)
        self.removed_edges = config.removed_edges or removed_edges_file(name)
        parts = range(config.num_parts)
        self._nodes = [find_part_file(source, part, nodes_file(name)) for part in parts]
        self._edges = [find_part_file(source, part, edges_file(name)) for part in parts]
        self._check_last(nodes_file(name))
        if config.removed_edges is not None and not self._has_removed:
            raise InvalidInputError(
                f"There is no file {source.uri_of(self.removed_edges)}",
                remedy="Check --removed-edges: a name relative to --input-dir.",
            )

    def objects(self) -> list[StoredObject]:
        """Return the identity of every file."""
        keys = [*self._nodes, *self._edges, *([self.removed_edges] if self._has_removed else [])]
        return [found for key in keys if (found := self._source.stat(key)) is not None]

    def digests(self) -> list[dict[str, Any]]:
        """Return path, size and SHA-256 of every file, as a manifest lists them."""
        return [
            {"path": entry.key, "size": entry.size, "sha256": sha256_of(self._source.local_copy(entry.key))}
            for entry in self.objects()
        ]

    def node_tables(self, *, attributes: bool) -> list[TextTable]:
        """Return the node file of each partition."""
        columns = part_node_columns(self._config.num_node_weights)
        dtype = self._node_dtype if attributes else None
        return [self._table(key, columns, dtype) for key in self._nodes]

    def part_edge_tables(self, *, attributes: bool) -> list[TextTable]:
        """Return the edge file of each partition."""
        dtype = self._edge_dtype if attributes else None
        return [self._table(key, PART_EDGE_COLUMNS, dtype) for key in self._edges]

    def removed_edges_table(self, *, attributes: bool) -> TextTable | None:
        """Return the file of the edges that ParMETIS did not get; None if there is none."""
        if not self._has_removed:
            return None
        return self._table(self.removed_edges, REMOVED_EDGE_COLUMNS, self._edge_dtype if attributes else None)

    @cached_property
    def _has_removed(self) -> bool:
        return self._source.exists(self.removed_edges)

    def _table(self, key: str, columns: Sequence[str], dtype: np.dtype[Any] | None) -> TextTable:
        path, where = self._source.local_copy(key), self._source.uri_of(key)
        return TextTable(path, where, columns, attributes=dtype)

    def _check_last(self, nodes_file: str) -> None:
        beyond = self._config.num_parts
        for key in (f"p{beyond}-{nodes_file}", f"p{beyond:03d}-{nodes_file}"):
            if self._source.exists(key):
                raise InvalidInputError(
                    f"There are more partitions in {self._source.uri} than --num-parts says",
                    found=key,
                    expected=f"{beyond} partitions, numbered from 0",
                )


def running_ids(types: Ids, counts: Ids) -> tuple[Ids, Ids]:
    """Return the type-wise IDs of further nodes, if IDs run from 0 in each type.

    Args:
        types: (n,) int64, node type IDs of 0 or more.
        counts: (types,) int64, number of nodes before these, by type ID; may lack types.

    Returns:
        The IDs, (n,) int64, and the counts after these nodes.
    """
    size = int(types.max(initial=-1)) + 1
    counts = np.concatenate([counts, np.zeros(max(0, size - len(counts)), np.int64)])
    ids = np.zeros(len(types), np.int64)
    for kind in np.unique(types).tolist():
        rows = np.flatnonzero(types == kind)
        ids[rows] = counts[kind] + np.arange(len(rows))
        counts[kind] += len(rows)
    return ids, counts


def attribute_dtype(option: str, name: str | None) -> np.dtype[Any] | None:
    """Return the dtype of a name of NumPy or PyTorch, such as ``float32`` or ``torch.float32``.

    Raises:
        UsageError: There is no such dtype, or DGL has no tensors of it.
    """
    if name is None:
        return None
    try:
        dtype = np.dtype(name.rpartition(".")[2])
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(
            f"{option} is not a dtype of numbers",
            found=repr(name),
            expected="float32, float64, int64, uint8, …",
        )
    return dtype


def common_width(tables: Sequence[TextTable]) -> int:
    """Return the number of attributes in every row of some tables; 0 if they are not read.

    Raises:
        InvalidInputError: There are no attributes, or two files have different numbers of them.
    """
    widths = {table: table.width for table in tables if table.width is not None}
    if not widths or tables[0].dtype is None:
        return 0
    first, width = next(iter(widths.items()))
    for table, other in widths.items():
        if other != width or other == 0:
            raise InvalidInputError(
                f"{table.where}: the number of attributes in the first row is wrong",
                found=f"{other}",
                expected=f"{width}, as in {first.where}" if width else "at least 1, since a dtype is given",
                remedy="Nodes, and edges, of all types must have the same attributes; and check the options"
                " --num-node-weights, --node-attr-dtype and --edge-attr-dtype.",
            )
    return width
