"""The files of a partition in DGL's formats; dgl itself is not imported."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, BinaryIO

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.formats.columns import Column
from partition_ops.formats.dgl.binary_format import (
    GraphColumns,
    Sparse,
    write_graph_file,
    write_tensor_file,
)
from partition_ops.formats.parmetis.local_graph import LocalGraph

NODE_FIELDS = ("inner_node", "_TYPE", "part_id", "orig_id", "_ID")  # the order in which DGL writes them
EDGE_FIELDS = ("inner_edge", "_TYPE", "orig_id", "_ID")


def write_graph(task: ArtifactWriter, key: str, graph: GraphColumns) -> None:
    """Write a partition's ``graph.dgl`` with the fields and dtypes of dgl 1.1.3, and ``orig_id``.

    Nodes: ``_ID`` int64 (new ID), ``orig_id`` int64 (type-wise, input graph), ``part_id`` int64,
    ``inner_node`` uint8. Edges: ``_ID`` int64, ``orig_id`` int64, ``inner_edge`` uint8. ``_TYPE`` int32
    on both, unless the graph is homogeneous, when DGL has none.

    Args:
        task: Collects what is written.
        key: Where to.
        graph: The partition; fields in any order. Peak memory: some blocks of 1 MiB.
    """
    ordered = GraphColumns(
        graph.num_nodes,
        graph.formats,
        {name: graph.node_data[name] for name in NODE_FIELDS if name in graph.node_data},
        {name: graph.edge_data[name] for name in EDGE_FIELDS if name in graph.edge_data},
    )
    with task.destination.create(key) as new, new.path.open("wb") as stream:
        write_graph_file(_plain(stream), ordered)
    task.wrote(new.published())


def write_tensors(
    task: ArtifactWriter,
    key: str,
    arrays: Mapping[str, Column | npt.NDArray[Any]],
    *,
    read_again: bool = False,
) -> None:
    """Write named arrays as DGL's tensor file; booleans become uint8 in it, as in DGL's own partitions.

    ``read_again`` is that of `NewObject`.

    Peak memory: some blocks of 1 MiB.
    """
    columns = {
        name: array if isinstance(array, Column) else Column.of(array) for name, array in arrays.items()
    }
    with task.destination.create(key) as new, new.path.open("wb") as stream:
        new.read_again = read_again
        write_tensor_file(_plain(stream), columns)
    task.wrote(new.published())


def local_columns(metadata: GraphMetadata, local: LocalGraph, *, first_edge_id: int) -> GraphColumns:
    """The fields of a partition that is in memory.

    Args:
        metadata: The graph's metadata.
        local: The partition.
        first_edge_id: New ID of its first edge; those of the others follow.
    """
    nodes, edges = len(local.node_ids), len(local.src)
    node_data = {
        "_ID": Column.of(local.node_ids),
        "orig_id": Column.of(local.node_orig_ids),
        "part_id": Column.of(local.node_parts),
        "inner_node": Column.of((np.arange(nodes) < local.num_inner).astype(np.uint8)),
    }
    edge_data = {
        "_ID": Column.count(first_edge_id, edges),
        "orig_id": Column.of(local.edge_orig_ids),
        "inner_edge": Column.constant(1, np.uint8, edges),
    }
    if not metadata.is_homogeneous:
        node_data["_TYPE"] = Column.of(local.node_type_ids)
        sizes = np.diff(local.edge_type_starts)
        edge_data["_TYPE"] = Column.of(np.repeat(np.arange(len(sizes), dtype=np.int32), sizes))
    coo = Sparse("coo", (Column.of(local.src), Column.of(local.dst)))
    return GraphColumns(nodes, [coo], node_data, edge_data)


def _plain(stream: Any) -> BinaryIO:
    written: BinaryIO = stream
    return written
