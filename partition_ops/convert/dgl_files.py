"""DGL's own file formats, through DGL itself: dgl is imported when the first file is written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.convert.local_graph import LocalGraph
from partition_ops.dgl_import import import_dgl
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.tasks import Task

HEADER_BYTES = 4096
HEADER_USED = 32


def write_graph(
    task: Task, key: str, metadata: GraphMetadata, local: LocalGraph, *, first_edge_id: int
) -> None:
    """Write a partition's ``graph.dgl`` with the fields and dtypes of dgl 1.1.3, and ``orig_id``.

    Nodes: ``_ID`` int64 (new ID), ``orig_id`` int64 (type-wise, input graph), ``part_id`` int64,
    ``inner_node`` uint8. Edges: ``_ID`` int64, ``orig_id`` int64, ``inner_edge`` uint8. ``_TYPE`` int32
    on both, unless the graph is homogeneous, when DGL has none.

    Args:
        task: Collects what is written.
        key: Where to.
        metadata: The graph's metadata.
        local: The partition.
        first_edge_id: New ID of its first edge; those of the others follow.
    """
    dgl = import_dgl()
    import torch

    nodes, edges = len(local.node_ids), len(local.src)
    graph = dgl.graph((torch.from_numpy(local.src), torch.from_numpy(local.dst)), num_nodes=nodes)
    graph.ndata["_ID"] = torch.from_numpy(local.node_ids)
    graph.ndata["orig_id"] = torch.from_numpy(local.node_orig_ids)
    graph.ndata["part_id"] = torch.from_numpy(local.node_parts)
    graph.ndata["inner_node"] = torch.arange(nodes).lt(local.num_inner).to(torch.uint8)
    graph.edata["_ID"] = torch.arange(first_edge_id, first_edge_id + edges)
    graph.edata["orig_id"] = torch.from_numpy(local.edge_orig_ids)
    graph.edata["inner_edge"] = torch.ones(edges, dtype=torch.uint8)
    if not metadata.is_homogeneous:
        graph.ndata["_TYPE"] = torch.from_numpy(local.node_type_ids)
        sizes = np.diff(local.edge_type_starts)
        types = np.repeat(np.arange(len(sizes), dtype=np.int32), sizes)
        graph.edata["_TYPE"] = torch.from_numpy(types)
    with task.destination.create(key) as new:
        dgl.save_graphs(str(new.path), [graph], formats="coo")
        _clear_padding(new.path)
    task.wrote(new.published())


def _clear_padding(path: Path) -> None:
    """Zero what DGL leaves uninitialised in the header of a graph file.

    DGL writes four 64-bit words (magic number, version, kind, number of graphs) and fills the header with
    whatever its memory held: other bytes at every run, and perhaps something that is nobody's business.
    """
    with path.open("r+b") as stream:
        stream.seek(HEADER_USED)
        stream.write(bytes(HEADER_BYTES - HEADER_USED))


def write_tensors(task: Task, key: str, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
    """Write named arrays as DGL's tensor file; booleans become uint8 in it, as in DGL's own partitions."""
    dgl = import_dgl()
    import torch

    tensors = {name: torch.from_numpy(np.ascontiguousarray(array)) for name, array in arrays.items()}
    with task.destination.create(key) as new:
        dgl.data.utils.save_tensors(str(new.path), tensors)
    task.wrote(new.published())
