"""The files in the folder that ``pm_dglpart`` ran in."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.formats.parmetis import file_names as parmetis
from partition_ops.formats.parmetis.edge_rows import ORIGINAL
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.formats.parmetis.text_table import TextTable
from partition_ops.storage import Store, StoredObject


class ParmetisFiles:
    """Finds and opens them; all must be there before any is read.

    Args:
        config: Names and numbers.
        source: The folder.

    Raises:
        UsageError: The dtype of the attributes is none that DGL can hold.
        InvalidInputError: A partition's file is missing, or there are more partitions.
    """

    def __init__(self, config: ConvertPartitionConfig, source: Store) -> None:
        name = config.graph_name
        self._config = config
        self._source = source
        self._node_dtype = attribute_dtype("--node-attr-dtype", config.node_attr_dtype)
        self._edge_dtype = attribute_dtype("--edge-attr-dtype", config.edge_attr_dtype)
        self.removed_edges = parmetis.removed_edges_file(name)
        parts = range(config.num_parts)
        self._nodes = [parmetis.find_part_file(source, part, parmetis.nodes_file(name)) for part in parts]
        self._edges = [parmetis.find_part_file(source, part, parmetis.edges_file(name)) for part in parts]
        self._check_last(parmetis.nodes_file(name))

    def objects(self) -> list[StoredObject]:
        """Identity of every file."""
        keys = [*self._nodes, *self._edges, *([self.removed_edges] if self._has_removed else [])]
        return [found for key in keys if (found := self._source.stat(key)) is not None]

    def node_tables(self, *, attributes: bool) -> list[TextTable]:
        """The node file of each partition."""
        columns = parmetis.part_node_columns(self._config.num_node_weights)
        dtype = self._node_dtype if attributes else None
        return [self._table(key, columns, dtype) for key in self._nodes]

    def part_edge_tables(self, *, attributes: bool) -> list[TextTable]:
        """The edge file of each partition."""
        dtype = self._edge_dtype if attributes else None
        return [self._table(key, parmetis.PART_EDGE_COLUMNS, dtype) for key in self._edges]

    def removed_edges_table(self, *, attributes: bool) -> TextTable | None:
        """The edges that were kept from ParMETIS, where that was recorded."""
        if not self._has_removed:
            return None
        return self._table(self.removed_edges, ORIGINAL, self._edge_dtype if attributes else None)

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


def attribute_dtype(option: str, name: str | None) -> np.dtype[Any] | None:
    """The dtype that an option names, as NumPy or as PyTorch does (``float32``, ``torch.float32``).

    Raises:
        UsageError: There is none, or DGL cannot hold it.
    """
    if name is None:
        return None
    try:
        dtype = np.dtype(name.rpartition(".")[2])
    except TypeError:
        dtype = np.dtype(object)
    if dtype.kind not in "biuf" or dtype.itemsize > 8:
        raise UsageError(
            f"{option} is no dtype of numbers", found=repr(name), expected="float32, float64, int64, uint8, …"
        )
    return dtype


def common_width(tables: Sequence[TextTable]) -> int:
    """Number of attributes in every row of some tables; 0 where they are not asked for.

    Raises:
        InvalidInputError: There are none, or two files have different numbers of them.
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
