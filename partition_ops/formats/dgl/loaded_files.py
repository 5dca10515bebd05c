"""DGL's files as its users load them: by DGL itself, or mapped by our own code if DGL is not installed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from partition_ops.formats.columns import Array
from partition_ops.formats.dgl.array_places import TENSOR_FILES, complete_copy, graph_places, tensor_places
from partition_ops.storage import Store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.system.extras import is_installed


@dataclass(frozen=True)
class LoadedGraph:
    """The graph of a partition."""

    formats: tuple[str, ...]  # its sparse formats
    src: Array  # (edges,) local IDs of the sources, by edge ID
    dst: Array  # (edges,) local IDs of the destinations
    nodes: dict[str, Array]  # node data by name
    edges: dict[str, Array]  # edge data by name


def has_dgl() -> bool:
    """Return whether DGL, and torch with it, are installed."""
    return is_installed("dgl") and is_installed("torch")


def load_graph_file(output: Store, key: str) -> LoadedGraph:
    """Load a graph file.

    Raises:
        InvalidInputError: The file is missing or incomplete; DGL crashes on incomplete ones.
    """
    path = complete_copy(output, key)
    if has_dgl():
        (graph,), _ = import_dgl().load_graphs(str(path))
        formats = tuple(graph.formats()["created"])  # before the ends are asked for, which adds coo
        src, dst = (ends.numpy() for ends in graph.edges(order="eid"))
        nodes, edges = (
            {name: values.numpy() for name, values in data.items()} for data in (graph.ndata, graph.edata)
        )
        return LoadedGraph(formats, src, dst, nodes, edges)
    places = graph_places(output, key)
    sparse, arrays = next(iter(places.formats.items()))
    first, second, ids = (array.map(output) for array in arrays)
    src, dst = (first, second) if sparse == "coo" else _ends(sparse, first, second, ids)
    nodes, edges = (
        {name: array.map(output) for name, array in data.items()} for data in (places.nodes, places.edges)
    )
    return LoadedGraph(tuple(places.formats), src, dst, nodes, edges)


def load_tensor_files(output: Store, folder: str, groups: Collection[str]) -> dict[str, Array]:
    """Load the tensor files of groups of columns, in the folder of a partition.

    Raises:
        InvalidInputError: A file is missing or incomplete; DGL crashes on incomplete ones.
    """
    found: dict[str, Array] = {}
    for group, file in TENSOR_FILES.items():
        if group in groups:
            key = f"{folder}/{file}"
            path = complete_copy(output, key)
            if has_dgl():
                tensors = import_dgl().data.utils.load_tensors(str(path))
                found |= {f"{group}/{column}": tensor.numpy() for column, tensor in tensors.items()}
            else:
                places = tensor_places(output, key)
                found |= {f"{group}/{column}": place.map(output) for column, place in places.items()}
    return found


def _ends(sparse: str, begins: Array, others: Array, ids: Array) -> tuple[Array, Array]:
    """Return sources and destinations by edge ID of a CSR or CSC matrix."""
    near, far = np.empty(len(ids), np.int64), np.empty(len(ids), np.int64)
    near[ids] = np.repeat(np.arange(len(begins) - 1), np.diff(begins))
    far[ids] = others
    return (near, far) if sparse == "csr" else (far, near)
