"""Graphs in memory as inputs, and inputs as graphs in memory.

Importing this module is cheap: libraries are imported by the function that needs them.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from partition_ops.stages.ingest.memory.arrays import ArrayGraph, MemoryGraph
    from partition_ops.storage import StorageSettings

__all__ = [
    "MemoryGraph",
    "from_dgl",
    "from_edge_tables",
    "from_networkx",
    "from_pyg",
    "to_dgl",
    "to_pyg",
]


def from_dgl(graph: Any, *, graph_name: str = "graph") -> MemoryGraph:
    """Take a DGLGraph as an input graph.

    Node and edge IDs, names of types, and features in ``ndata`` and ``edata`` stay as they are. The fields
    ``_ID`` and ``_TYPE``, which DGL adds to subgraphs, are left out.

    Args:
        graph: A ``dgl.DGLGraph``, homogeneous or heterogeneous, on any device.
        graph_name: Name of the graph: letters, digits and underscores.

    Returns:
        The graph, for `run`, `verify` and its method ``write``. It shares the memory of the features.

    Raises:
        UsageError: It is not a DGLGraph, or a block of a mini-batch.
        InvalidInputError: A name, or the dtype of a feature such as bfloat16, cannot be stored.

    Peak memory: 16 bytes an edge.

    Example:
        >>> graph = partition_ops.ingest.from_dgl(dgl_graph, graph_name="mag")
        >>> partition_ops.run(graph, "out", num_parts=4)
    """
    from partition_ops.stages.ingest.memory.libraries import arrays_of_dgl

    return arrays_of_dgl(graph, graph_name)


def from_pyg(data: Any, *, graph_name: str = "graph") -> MemoryGraph:
    """Take a PyG graph as an input graph.

    Every tensor of a node or edge type becomes a feature with its name. Other attributes of the types are
    rejected; attributes of the whole ``HeteroData`` are left out.

    Args:
        data: A ``HeteroData``, or a ``Data``, whose types get DGL's names of homogeneous graphs: ``_N`` and
            ``_N:_E:_N``.
        graph_name: Name of the graph: letters, digits and underscores.

    Returns:
        The graph, for `run`, `verify` and its method ``write``. It shares the memory of the tensors.

    Raises:
        UsageError: It is not a PyG graph.
        InvalidInputError: A number of nodes is not known, an edge type names a node type without data, an
            attribute is not a tensor with a row for each node or edge, or an ID in ``edge_index`` is out of
            range.
    """
    from partition_ops.stages.ingest.memory.libraries import arrays_of_pyg

    return arrays_of_pyg(data, graph_name)


def from_networkx(
    graph: Any,
    *,
    graph_name: str = "graph",
    node_type: str | None = None,
    edge_type: str | None = None,
    node_attrs: Sequence[str] = (),
    edge_attrs: Sequence[str] = (),
) -> MemoryGraph:
    """Take a NetworkX graph as an input graph.

    The nodes of a type are numbered in the order of ``graph.nodes``. Their keys are kept as ``node_ids``:
    integers if all of a type are integers, otherwise ``str(key)``. An undirected edge becomes two edges.

    Args:
        graph: A ``Graph``, ``DiGraph``, ``MultiGraph`` or ``MultiDiGraph``.
        graph_name: Name of the graph: letters, digits and underscores.
        node_type: The node attribute with the name of the node type; without it there is one type, ``_N``.
        edge_type: The edge attribute with the name of the relation; without it, the relation is ``_E`` if
            ``node_type`` is None, and ``to`` otherwise.
        node_attrs: Node attributes to take as features: numbers, or lists of numbers of one length.
        edge_attrs: Edge attributes, likewise.

    Returns:
        The graph, for `run`, `verify` and its method ``write``.

    Raises:
        UsageError: It is not a NetworkX graph.
        InvalidInputError: It has no edges, a node or an edge lacks its type or an attribute that others of
            its type have, or an attribute is not a number.

    Peak memory: about 300 bytes a node and an edge.
    """
    from partition_ops.stages.ingest.memory.libraries import arrays_of_networkx

    return arrays_of_networkx(
        graph,
        graph_name,
        node_type=node_type,
        edge_type=edge_type,
        node_attrs=node_attrs,
        edge_attrs=edge_attrs,
    )


def from_edge_tables(
    edges: Mapping[str, pa.Table],
    nodes: Mapping[str, pa.Table] | None = None,
    *,
    graph_name: str = "graph",
    src: str = "src",
    dst: str = "dst",
    key: str = "key",
) -> MemoryGraph:
    """Take Arrow tables with keys as an input graph.

    Tables are ingested as those of a ``graph.yaml`` are: keys are text or integers, nodes are numbered by
    their keys in ascending order, and ``idmap restore`` returns the keys. Columns without a key become
    features as they are: numbers, booleans, or lists of numbers of one length. For transforms, labels, splits
    and other actions than ``fail``, write the tables to files, and a ``graph.yaml``.

    Args:
        edges: By edge type as ``src:rel:dst``, a table with the keys of both ends.
        nodes: By node type, a table with a key in each row. The nodes of types without a table are the keys
            that edges name.
        graph_name: Name of the graph: letters, digits and underscores.
        src: The column of edges with the key of the source.
        dst: The column of edges with the key of the destination.
        key: The column of nodes with the key.

    Returns:
        The graph, for `run`, `verify` and its method ``write``, which raises `InvalidInputError` if keys are
        null, or twice in a node table, or absent there.

    Raises:
        InvalidInputError: A table has no column with a key, or a name of a type is not valid.

    Example:
        >>> cites = pyarrow.table({"src": ["p9", "p7"], "dst": ["p7", "p1"]})
        >>> graph = partition_ops.ingest.from_edge_tables({"paper:cites:paper": cites})
        >>> graph.write("my-graph").counters["nodes"]
        3
    """
    from partition_ops.stages.ingest.memory.tables import TableGraph

    return TableGraph(graph_name, edges, nodes or {}, src, dst, key)


def to_dgl(input: str | os.PathLike[str] | MemoryGraph, *, storage: StorageSettings | None = None) -> Any:
    """Read an input graph as a DGLGraph.

    Args:
        input: As for `run`.
        storage: How to reach S3; by default boto3 finds credentials and the endpoint itself.

    Returns:
        A ``dgl.DGLGraph`` on the CPU with int64 IDs, whose node and edge IDs are the type-wise IDs of the
        input, and whose features have the input's names and dtypes. DGL sorts the types by name.

    Raises:
        InvalidInputError: The graph is missing or damaged.

    Peak memory: the graph and its features, and 32 bytes an edge.
    """
    from partition_ops.stages.ingest.memory.libraries import dgl_of_arrays

    return dgl_of_arrays(_read(input, storage))


def to_pyg(input: str | os.PathLike[str] | MemoryGraph, *, storage: StorageSettings | None = None) -> Any:
    """Read an input graph as a PyG graph.

    Args:
        input: As for `run`.
        storage: How to reach S3; by default boto3 finds credentials and the endpoint itself.

    Returns:
        A ``HeteroData`` whose node and edge IDs are the type-wise IDs of the input, and whose features have
        the input's names and dtypes; a ``Data`` if the only types are ``_N`` and ``_N:_E:_N``.

    Raises:
        UsageError: PyG is not installed.
        InvalidInputError: The graph is missing or damaged.

    Peak memory: the graph and its features, and 32 bytes an edge.
    """
    from partition_ops.stages.ingest.memory.libraries import pyg_of_arrays

    return pyg_of_arrays(_read(input, storage))


def _read(input: str | os.PathLike[str] | MemoryGraph, storage: StorageSettings | None) -> ArrayGraph:
    from partition_ops.jobs.open_graph import open_graph
    from partition_ops.stages.ingest.memory.arrays import ArrayGraph, MemoryGraph, read_arrays
    from partition_ops.storage import open_store

    if isinstance(input, ArrayGraph):
        return input
    given = input if isinstance(input, MemoryGraph) else os.fspath(input)
    with open_graph(given, partial(open_store, settings=storage)) as source:
        return read_arrays(source)


def __getattr__(name: str) -> Any:
    if name != "MemoryGraph":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from partition_ops.stages.ingest.memory.arrays import MemoryGraph

    return MemoryGraph
