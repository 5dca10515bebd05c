"""Graphs of DGL, PyG and NetworkX as `ArrayGraph`, and back to DGL and PyG."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from partition_ops.artifacts.tasks import Task
from partition_ops.chunked.names import EdgeType
from partition_ops.errors import InvalidInputError, UsageError, one_of, some_of
from partition_ops.options.declare import StageConfig
from partition_ops.stages.ingest.graph_file import graph_name_of
from partition_ops.stages.ingest.memory.arrays import Array, ArrayGraph, array_task, numbers_only
from partition_ops.storage import Store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.system.extras import check_installed

NODES, EDGES = "_N", "_E"  # DGL's names of the types of a homogeneous graph
OF_DGL = {"_ID", "_TYPE"}  # fields that DGL adds to subgraphs and to homogeneous graphs
# of the process that loads a file of DGL first, beside what the imports take
LEAST_SECONDS, BYTES_A_SECOND = 20, 20_000_000  # of processor time
LEAST_MEMORY, MEMORY_A_BYTE = 1 << 30, 4
LOADER = """
import resource, sys
import dgl
path, seconds, size = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
used = resource.getrusage(resource.RUSAGE_SELF)
seconds += int(used.ru_utime + used.ru_stime) + 1
resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
try:
    lines = open("/proc/self/status").read().splitlines()
except OSError:
    lines = []
for line in lines:
    if line.startswith("VmData:"):
        size += int(line.split()[1]) * 1024
        resource.setrlimit(resource.RLIMIT_DATA, (size, size))
dgl.load_graphs(path)
"""


def arrays_of_dgl(graph: Any, graph_name: str, where: str = "the DGLGraph") -> ArrayGraph:
    """Return a DGLGraph as arrays; its features share their memory."""
    if not hasattr(graph, "canonical_etypes"):
        raise UsageError("from_dgl needs a DGLGraph", found=type(graph).__name__)
    if graph.is_block:
        raise UsageError(f"{where} is a block of a mini-batch", expected="a graph whose types are the same")
    edges, edge_data = {}, {}
    for triple in graph.canonical_etypes:
        kind = EdgeType(*triple)
        src, dst = graph.edges(order="eid", etype=triple)
        edges[kind] = (src.cpu().numpy(), dst.cpu().numpy())
        edge_data[str(kind)] = _fields(_own(graph.edges[triple].data), f"{where}: edges '{kind}'")
    return ArrayGraph(
        where=where,
        graph_name=graph_name,
        num_nodes={name: graph.num_nodes(name) for name in graph.ntypes},
        edges=edges,
        node_data={n: _fields(_own(graph.nodes[n].data), f"{where}: nodes {n!r}") for n in graph.ntypes},
        edge_data=edge_data,
    )


def _fields(data: Mapping[str, Any], where: str) -> dict[str, Array]:
    return {name: numbers_only(f"{where}: {name!r}", value) for name, value in data.items()}


def _own(data: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in data.items() if name not in OF_DGL}


def dgl_of_arrays(graph: ArrayGraph) -> Any:
    """Return a DGLGraph with int64 IDs; DGL sorts the types by name."""
    import torch

    dgl = import_dgl()
    ends = {
        kind.triple: (torch.from_numpy(src), torch.from_numpy(dst))
        for kind, (src, dst) in graph.edges.items()
    }
    made = dgl.heterograph(ends, dict(graph.num_nodes))
    for node_type, arrays in graph.node_data.items():
        for name, array in arrays.items():
            made.nodes[node_type].data[name] = torch.from_numpy(array)
    for edge_type, arrays in graph.edge_data.items():
        for name, array in arrays.items():
            made.edges[tuple(edge_type.split(":"))].data[name] = torch.from_numpy(array)
    return made


def saved_graph_task(config: StageConfig, source: Store, destination: Store, *, graph_file: str) -> Task:
    """Return the task that writes a graph which ``dgl.save_graphs`` saved in the chunked format.

    Args:
        config: ``graph_name`` is used instead of the name of the file.
        source: Folder of the file.
        destination: Root of the graph.
        graph_file: Name of the file, which ends with ``.bin``.

    Raises:
        InvalidInputError: The file is missing or damaged, has several graphs, or has features whose dtypes
            cannot be stored.

    Peak memory: the graph with its features, twice while DGL reads it. A process of its own reads it first.
    """
    where = source.uri_of(graph_file)
    entry = source.stat(graph_file)
    if entry is None:
        raise InvalidInputError(f"There is no {where}", expected="a file that dgl.save_graphs has written")
    name = config.graph_name or graph_name_of(source, graph_file)

    def load() -> ArrayGraph:
        path = source.local_copy(graph_file)
        dgl = import_dgl()
        try:
            _try_to_load(path)
            graphs, _ = dgl.load_graphs(str(path))
        except Exception as error:  # DGL raises errors of many classes for files that it cannot read
            raise InvalidInputError(
                f"{where} cannot be read by DGL",
                found="a damaged or truncated file, or one of another kind, of"
                f" {path.stat().st_size:,} bytes",
                expected="a file that dgl.save_graphs has written",
                remedy="Save the graph again.",
            ) from error
        if len(graphs) != 1:
            raise InvalidInputError(
                f"{where} has {len(graphs)} graphs",
                expected="one graph",
                remedy="Save one of them: dgl.save_graphs('one.bin', [graphs[0]]).",
            )
        return arrays_of_dgl(graphs[0], name, where)

    options = {"graph_name": name}
    return array_task(load, destination, graph_name=name, options=options, inputs=[entry])


def _try_to_load(path: Path) -> None:
    """Load a file of DGL in a process of its own, because DGL ends the process for some damaged files.

    Sizes and counts in such a file may be wrong, so the process may use processor time and memory only in
    proportion to the file.

    Raises:
        RuntimeError: The process was killed or ended with an error.
    """
    size = path.stat().st_size
    limits = (LEAST_SECONDS + size // BYTES_A_SECOND, LEAST_MEMORY + MEMORY_A_BYTE * size)
    environment = {"DGLBACKEND": "pytorch", **os.environ}
    command = [sys.executable, "-c", LOADER, str(path), *map(str, limits)]
    done = subprocess.run(command, env=environment, capture_output=True, check=False)
    if done.returncode:
        raise RuntimeError(f"the process that loaded it ended with {done.returncode}")


def arrays_of_pyg(data: Any, graph_name: str) -> ArrayGraph:
    """Return a ``HeteroData`` or ``Data`` as arrays; its tensors share their memory."""
    where = "the PyG graph"
    if not hasattr(data, "edge_stores"):
        raise UsageError("from_pyg needs a HeteroData or Data", found=type(data).__name__)
    hetero = hasattr(data, "node_types")
    num_nodes, node_data = {}, {}
    for store in data.node_stores:
        node_type = store._key if hetero else NODES
        known = f"data[{node_type!r}]" if hetero else "data"
        count = None if "num_nodes" not in store and not _tensors(store, hetero, False) else store.num_nodes
        if count is None and not hetero and len(data.edge_stores[0]):
            count = data.num_nodes
        if count is None:
            raise InvalidInputError(
                f"{where}: the number of nodes {node_type!r} is not known",
                remedy=f"Set {known}.num_nodes.",
            )
        num_nodes[node_type] = int(count)
        node_data[node_type] = _fields(_tensors(store, hetero, False), f"{where}: nodes {node_type!r}")
    edges, edge_data = {}, {}
    for store in data.edge_stores:
        kind = EdgeType(*store._key) if hetero else EdgeType(NODES, EDGES, NODES)
        for end in (kind.src, kind.dst):
            if end not in num_nodes:
                raise InvalidInputError(
                    f"{where}: edges '{kind}' name a node type without data",
                    found=repr(end),
                    expected=one_of([*num_nodes]),
                    remedy=f"Set data[{end!r}].num_nodes.",
                )
        edges[kind] = _edge_index(store, f"{where}: edges '{kind}'")
        edge_data[str(kind)] = _fields(_tensors(store, hetero, True), f"{where}: edges '{kind}'")
    return ArrayGraph(where, graph_name, num_nodes, edges, node_data, edge_data)


def _tensors(store: Any, hetero: bool, edges: bool) -> dict[str, Any]:
    """Return what a store has for each node or edge; ``Data`` has one store for both."""
    taken = {"num_nodes", "edge_index", "adj_t"}
    names = [name for name in store if name not in taken]
    if not hetero:
        names = [name for name in names if store.is_edge_attr(name) == edges]
    return {name: store[name] for name in names}


def _edge_index(store: Any, where: str) -> tuple[Array, Array]:
    if "edge_index" not in store:
        raise InvalidInputError(
            f"{where} have no edge_index",
            found=some_of([*store], 5) if len(store) else "no tensor",
            remedy="If they have adj_t, remove the transform ToSparseTensor.",
        )
    index = numbers_only(f"{where}: edge_index", store["edge_index"])
    if index.ndim != 2 or len(index) != 2:
        raise InvalidInputError(
            f"{where}: edge_index has a wrong shape", found=str(index.shape), expected="(2, edges)"
        )
    return index[0], index[1]


def pyg_of_arrays(graph: ArrayGraph) -> Any:
    """Return a ``HeteroData``, or ``Data`` if the types have DGL's names of homogeneous graphs.

    Raises:
        UsageError: PyG is not installed.
    """
    check_installed("A graph of PyG", "torch", "torch_geometric")
    import torch
    from torch_geometric.data import Data, HeteroData

    hetero = [*graph.num_nodes] != [NODES] or [*graph.edges] != [EdgeType(NODES, EDGES, NODES)]
    data = HeteroData() if hetero else Data()
    for node_type, count in graph.num_nodes.items():
        store = data[node_type] if hetero else data
        store.num_nodes = count
        for name, array in graph.node_data.get(node_type, {}).items():
            store[name] = torch.from_numpy(array)
    for kind, (src, dst) in graph.edges.items():
        store = data[kind.triple] if hetero else data
        store.edge_index = torch.from_numpy(np.stack([src, dst]))
        for name, array in graph.edge_data.get(str(kind), {}).items():
            store[name] = torch.from_numpy(array)
    return data


def arrays_of_networkx(
    graph: Any,
    graph_name: str,
    *,
    node_type: str | None = None,
    edge_type: str | None = None,
    node_attrs: Sequence[str] = (),
    edge_attrs: Sequence[str] = (),
) -> ArrayGraph:
    """Return a NetworkX graph as arrays; see `partition_ops.ingest.from_networkx`."""
    where = "the NetworkX graph"
    if not hasattr(graph, "is_multigraph"):
        raise UsageError("from_networkx needs a NetworkX graph", found=type(graph).__name__)
    keys: dict[str, list[Hashable]] = {}
    places: dict[Hashable, tuple[str, int]] = {}
    for key, values in graph.nodes(data=True):
        kind = _type_name(values, node_type, NODES, f"{where}: node {key!r}")
        of_type = keys.setdefault(kind, [])
        places[key] = (kind, len(of_type))
        of_type.append(key)
    pairs: dict[EdgeType, list[tuple[int, int]]] = {}
    rows: dict[EdgeType, list[tuple[Any, Mapping[str, Any]]]] = {}
    relation = EDGES if node_type is None else "to"
    for src, dst, values in graph.edges(data=True):
        name = _type_name(values, edge_type, relation, f"{where}: edge {src!r} to {dst!r}")
        for one, other in ((src, dst), (dst, src)):
            (src_type, src_id), (dst_type, dst_id) = places[one], places[other]
            triple = EdgeType(src_type, name, dst_type)
            pairs.setdefault(triple, []).append((src_id, dst_id))
            rows.setdefault(triple, []).append(((one, other), values))
            if graph.is_directed() or src == dst:
                break
    ends = {kind: np.array(ids, np.int64).T for kind, ids in pairs.items()}
    return ArrayGraph(
        where=where,
        graph_name=graph_name,
        num_nodes={kind: len(of_type) for kind, of_type in keys.items()},
        edges={kind: (pair[0], pair[1]) for kind, pair in ends.items()},
        node_data={
            kind: _attributes([(key, graph.nodes[key]) for key in of_type], node_attrs, f"{where}: node")
            for kind, of_type in keys.items()
        },
        edge_data={
            str(kind): _attributes(of_type, edge_attrs, f"{where}: edge") for kind, of_type in rows.items()
        },
        node_ids={kind: _keys(of_type) for kind, of_type in keys.items()},
    )


def _type_name(values: Mapping[str, Any], attribute: str | None, default: str, where: str) -> str:
    if attribute is None:
        return default
    if not isinstance(values.get(attribute), str):
        raise InvalidInputError(
            f"{where} has no type",
            found=repr(values.get(attribute)),
            expected=f"a name as the attribute {attribute!r}",
        )
    return str(values[attribute])


def _attributes(
    rows: Sequence[tuple[Any, Mapping[str, Any]]], names: Sequence[str], where: str
) -> dict[str, Array]:
    """Return the attributes that any row of a type has; the others must have them as well."""
    found = {}
    for name in names:
        if not any(name in values for _, values in rows):
            continue
        missing = next((key for key, values in rows if name not in values), None)
        if missing is not None:
            raise InvalidInputError(
                f"{where} {missing!r} has no attribute {name!r}", expected="all of a type, or none"
            )
        found[name] = numbers_only(f"{where}s: attribute {name!r}", [values[name] for _, values in rows])
    return found


def _keys(keys: Sequence[Hashable]) -> pa.Array:
    if all(isinstance(key, int) and not isinstance(key, bool) for key in keys):
        return pa.array(keys, pa.int64())
    return pa.array([str(key) for key in keys], pa.string())
