"""A finished output as PyG's feature store and graph store, and a neighbor sampler that needs no extension.

PyG's data loaders take the pair of stores as their ``data``. Importing this module imports torch_geometric
(the extra ``pyg``); no other module does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch_geometric.data import EdgeAttr, FeatureStore, GraphStore, TensorAttr
from torch_geometric.data.graph_store import EdgeLayout
from torch_geometric.sampler import BaseSampler, HeteroSamplerOutput, SamplerOutput
from torch_geometric.sampler.neighbor_sampler import edge_sample, node_sample

from partition_ops.artifacts import layout
from partition_ops.errors import UsageError
from partition_ops.formats.pyg.names import EDGE_NAMES, NODE_NAMES, names_by_type
from partition_ops.storage import Store
from partition_ops.train.cached_rows import CachedRows, cached_features
from partition_ops.train.in_edges import FoundNodes, sample_in_edges
from partition_ops.train.sorted_edges import Direction
from partition_ops.train.stored_graph import EType, StoredGraph
from partition_ops.train.tensors import readonly_tensor

Ids = npt.NDArray[np.int64]
NO_FEATURES = "n_id"  # the one feature of a node type without features, so that PyG's loaders know the type
LAYOUTS: dict[Any, Direction] = {EdgeLayout.CSC: "in", EdgeLayout.CSR: "out"}


def open_pyg_stores(
    output: Store | str, *, cached_rows: Path | str | None = None, part: int = 0, **options: Any
) -> tuple[PartitionedFeatureStore, PartitionedGraphStore]:
    """Open a finished output as the ``data`` of PyG's data loaders.

    Args:
        output: Root of the output, a store or a URI.
        cached_rows: Folder that ``fetch`` has filled with a partition and its cached rows. These rows of
            node features are read from there; all others from the output.
        part: This partition.
        **options: Options of `PartitionedGraph`. ``ids`` is ``original`` by default, as in the files of the
            format ``pyg``.

    Returns:
        The feature store and the graph store, over one `StoredGraph`.

    Raises:
        InvalidInputError: The output is not finished, or a file is damaged.
        UsageError: An option is wrong.

    Peak memory: as `PartitionedGraph`.
    """
    options = {"ids": "original", **options}
    graph = StoredGraph(output, **options)
    ids = layout.cached_orig_nodes if options["ids"] == "original" else layout.cached_nodes
    found = cached_features(Path(cached_rows), part, ids) if cached_rows is not None else ()
    rows = {(ntype, name): rows for ntype, name, rows in found}
    return PartitionedFeatureStore(graph, rows), PartitionedGraphStore(graph)


class PartitionedFeatureStore(FeatureStore):  # type: ignore[misc]  # torch_geometric is not followed
    """The features of an output, read when PyG's loaders ask for them.

    Features have the names that the format ``pyg`` gives them: ``x``, ``y``, ``edge_attr``, or their own. A
    node type without features has one feature ``n_id``, the IDs. In a homogeneous graph the types are None.

    PyG's loaders join node features only; `join_edge_features` adds those of edges.

    Args:
        graph: The output.
        cached: Rows of node features that are not read from the output, by node type and name in the input.
    """

    def __init__(
        self, graph: StoredGraph, cached: Mapping[tuple[str, str], CachedRows] | None = None
    ) -> None:
        super().__init__()
        self.graph = graph
        self.cached = cached or {}
        nodes = (f"{ntype}/{name}" for ntype in graph.ntypes for name in graph.node_features(ntype))
        self._node_names = names_by_type(nodes, NODE_NAMES)
        edges = (f"{':'.join(e)}/{name}" for e in graph.canonical_etypes for name in graph.edge_features(e))
        self._edge_names = names_by_type(edges, EDGE_NAMES)

    def __reduce__(self) -> Any:
        return type(self), (self.graph, self.cached)

    def get_all_tensor_attrs(self) -> list[TensorAttr]:
        """Return the features of all node types, which PyG's loaders join."""
        found = []
        for ntype in self.graph.ntypes:
            group = None if self.graph.is_homogeneous else ntype
            names = self._node_names.get(ntype, [NO_FEATURES])
            found += [TensorAttr(group, name, None) for name in names]
        return found

    def edge_features(self, edge_type: EType | None = None) -> list[str]:
        """Return the names of the features of an edge type."""
        return list(self._edge_names.get(":".join(self.graph.to_canonical_etype(self._etype(edge_type))), []))

    def join_edge_features(self, batch: Any) -> Any:
        """Add the features of the sampled edges to a batch: the argument ``transform`` of PyG's loaders.

        Args:
            batch: ``Data`` or ``HeteroData`` with the edge IDs ``e_id``.

        Returns:
            The batch. Peak memory: the features of its edges.
        """
        for store in batch.edge_stores:
            edge_type = None if self.graph.is_homogeneous else store._key
            if "e_id" in store:
                for name in self.edge_features(edge_type):
                    store[name] = self._rows(edge_type, name, store.e_id)
        return batch

    def _rows(self, group: Any, name: str, ids: Any) -> torch.Tensor:
        wanted = torch.as_tensor(ids)
        if self._of_edges(group, name):
            etype = self._etype(group)
            return _taken(self.graph.edge_rows(self._edge_names[":".join(etype)][name], etype), wanted)
        ntype = self.graph.ntypes[0] if group is None else group
        if name == NO_FEATURES and ntype not in self._node_names:
            return wanted
        original = self._node_names[ntype][name]
        rows = self.graph.node_rows(original, ntype)
        cached = self.cached.get((ntype, original))
        if cached is None:
            return _taken(rows, wanted)
        none = _taken(rows, wanted[:0])
        return cached.read(wanted, partial(_taken, rows), none.shape[1:], none.dtype)

    def _etype(self, group: Any) -> EType:
        etypes = self.graph.canonical_etypes
        return etypes[0] if group is None and len(etypes) == 1 else self.graph.to_canonical_etype(group)

    def _get_tensor(self, attr: TensorAttr) -> torch.Tensor | None:
        if not self._has(attr):
            return None
        index, everything = attr.index, torch.arange(self._count(attr))
        if index is None or isinstance(index, slice):
            index = everything if index is None else everything[index]
        index = torch.as_tensor(index)
        return self._rows(
            attr.group_name, attr.attr_name, everything[index] if index.dtype == torch.bool else index
        )

    def _get_tensor_size(self, attr: TensorAttr) -> tuple[int, ...] | None:
        if not self._has(attr):
            return None
        return self._count(attr), *self._rows(attr.group_name, attr.attr_name, torch.arange(0)).shape[1:]

    def _of_edges(self, group: Any, name: str) -> bool:
        return isinstance(group, tuple) or (group is None and name in self.edge_features())

    def _has(self, attr: TensorAttr) -> bool:
        if self._of_edges(attr.group_name, attr.attr_name):
            return attr.attr_name in self.edge_features(attr.group_name)
        known = [(one.group_name, one.attr_name) for one in self.get_all_tensor_attrs()]
        return (attr.group_name, attr.attr_name) in known

    def _count(self, attr: TensorAttr) -> int:
        if self._of_edges(attr.group_name, attr.attr_name):
            return self.graph.num_edges(self._etype(attr.group_name))
        return self.graph.num_nodes(attr.group_name)

    def _put_tensor(self, tensor: Any, attr: TensorAttr) -> bool:
        raise _read_only()

    def _remove_tensor(self, attr: TensorAttr) -> bool:
        raise _read_only()


class PartitionedGraphStore(GraphStore):  # type: ignore[misc]
    """The edges of an output by destination (CSC) and by source (CSR), as memory-mapped tensors.

    PyG's samplers read from the mapped files what they sample. The edge IDs of a batch, ``e_id``, are those
    of the output.

    Args:
        graph: The output.
    """

    def __init__(self, graph: StoredGraph) -> None:
        super().__init__()
        self.graph = graph

    def __reduce__(self) -> Any:
        return type(self), (self.graph,)

    def get_all_edge_attrs(self) -> list[EdgeAttr]:
        """Return CSC and CSR of every edge type."""
        graph = self.graph
        return [
            EdgeAttr(
                None if graph.is_homogeneous else etype,
                layout,
                size=(graph.num_nodes(etype[0]), graph.num_nodes(etype[2])),
            )
            for etype in graph.canonical_etypes
            for layout in LAYOUTS
        ]

    def _get_edge_index(self, attr: EdgeAttr) -> tuple[torch.Tensor, torch.Tensor] | None:
        layout = LAYOUTS.get(attr.layout)
        known = [None] if self.graph.is_homogeneous else self.graph.canonical_etypes
        if layout is None or attr.edge_type not in known:
            return None
        indptr, indices, _ = self._tensors(layout, attr.edge_type)
        return (indices, indptr) if layout == "in" else (indptr, indices)

    def _edge_to_layout(self, attr: EdgeAttr, layout: EdgeLayout, store: bool = False) -> Any:
        """Do what PyG does, and return the edge IDs, which PyG takes for the permutation of a conversion."""
        if layout == EdgeLayout.COO:
            indptr, src, ids = self._tensors("in", attr.edge_type)
            return src, torch.repeat_interleave(torch.arange(len(indptr) - 1), indptr.diff()), ids
        indptr, indices, ids = self._tensors(LAYOUTS[layout], attr.edge_type)
        return (indices, indptr, ids) if layout == EdgeLayout.CSC else (indptr, indices, ids)

    def _tensors(self, direction: Direction, etype: EType | None) -> list[torch.Tensor]:
        edges = self.graph.adjacency(direction, etype)
        return [readonly_tensor(array) for array in (edges.indptr, edges.indices, edges.eids)]

    def _put_edge_index(self, edge_index: Any, edge_attr: EdgeAttr) -> bool:
        raise _read_only()

    def _remove_edge_index(self, edge_attr: EdgeAttr) -> bool:
        raise _read_only()


class PartitionedNeighborSampler(BaseSampler):  # type: ignore[misc]
    """Samples in-neighbours as PyG's ``NeighborSampler``, without pyg-lib and torch-sparse.

    PyG's ``NodeLoader`` takes it as ``node_sampler``, ``LinkLoader`` as ``link_sampler``. Every node of the
    last hop gets up to so many of its in-edges of each edge type, uniformly. The output has the numbers of
    nodes and edges of each hop, which PyG's ``trim_to_layer`` takes.

    Args:
        store: The graph.
        num_neighbors: In-edges of each node and edge type by hop, -1 for all; or such a list by edge type.
        replace: Draw with replacement.

    Peak memory: a multiple of a batch. Reproducible by ``torch.manual_seed``.
    """

    def __init__(
        self,
        store: PartitionedGraphStore,
        num_neighbors: Sequence[int] | Mapping[EType, Sequence[int]],
        *,
        replace: bool = False,
    ) -> None:
        self._graph = store.graph
        self._replace = replace
        etypes = self._graph.canonical_etypes
        given = num_neighbors if isinstance(num_neighbors, Mapping) else dict.fromkeys(etypes, num_neighbors)
        self._fanouts = {
            self._graph.to_canonical_etype(etype): list(counts) for etype, counts in given.items()
        }
        hops = {len(counts) for counts in self._fanouts.values()}
        if hops != {max(hops, default=0)} or set(self._fanouts) != set(etypes):
            raise UsageError(
                "num_neighbors does not fit the graph",
                found=str(num_neighbors),
                expected="the same number of hops for every edge type",
            )
        self._hops = hops.pop()

    def sample_from_nodes(self, index: Any, **_: Any) -> Any:
        """Sample around nodes; see ``BaseSampler``."""
        return node_sample(index, self._sample)

    def sample_from_edges(self, index: Any, neg_sampling: Any = None, **_: Any) -> Any:
        """Sample around the ends of edges and of negative edges; see ``BaseSampler``."""
        types = self._graph.ntypes
        counts = {name: self._graph.num_nodes(name) for name in types}
        number = counts[types[0]] if self._graph.is_homogeneous else counts
        return edge_sample(index, self._sample, number, disjoint=False, neg_sampling=neg_sampling)

    def _sample(self, seed: Any, seed_time: Any = None, **_: Any) -> Any:
        if seed_time is not None:
            raise UsageError("This sampler does not sample by time", remedy="Use PyG's NeighborLoader.")
        graph = self._graph
        seeds = seed if isinstance(seed, dict) else {graph.ntypes[0]: seed}
        nodes = {name: FoundNodes(seeds[name].numpy() if name in seeds else None) for name in graph.ntypes}
        hops: dict[EType, list[tuple[Ids, Ids, Ids]]] = {etype: [] for etype in graph.canonical_etypes}
        for hop in range(self._hops):
            frontier = {name: found.next_hop() for name, found in nodes.items()}
            for etype in graph.canonical_etypes:
                first, ids = frontier[etype[2]]
                fanout, draw = self._fanouts[etype][hop], int(torch.randint(1 << 62, ()))
                known = graph.adjacency("in", etype)
                src, dst, eids = sample_in_edges(
                    known.indptr, known.indices, known.eids, ids, fanout, self._replace, draw
                )
                hops[etype].append((nodes[etype[0]].add(src), dst + first, eids))
        for found in nodes.values():
            found.next_hop()
        return self._output(nodes, hops)

    def _output(self, nodes: dict[str, FoundNodes], hops: dict[EType, list[tuple[Ids, Ids, Ids]]]) -> Any:
        node = {name: torch.from_numpy(found.ids) for name, found in nodes.items()}
        joined = {
            etype: [torch.from_numpy(np.concatenate(arrays)) for arrays in zip(*parts, strict=True)]
            for etype, parts in hops.items()
        }
        row, col, edge = ({etype: arrays[i] for etype, arrays in joined.items()} for i in range(3))
        sampled_nodes = {name: found.counts for name, found in nodes.items()}
        sampled_edges = {etype: [len(one[0]) for one in parts] for etype, parts in hops.items()}
        arrays: tuple[dict[Any, Any], ...] = (node, row, col, edge)
        counts: dict[str, dict[Any, Any]] = {
            "num_sampled_nodes": sampled_nodes,
            "num_sampled_edges": sampled_edges,
        }
        if not self._graph.is_homogeneous:
            return HeteroSamplerOutput(*arrays, None, **counts)
        of_one_type = {name: next(iter(by_type.values())) for name, by_type in counts.items()}
        return SamplerOutput(*(next(iter(by_type.values())) for by_type in arrays), None, **of_one_type)


def _taken(rows: Any, ids: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(rows.take(ids.numpy().astype(np.int64, copy=False)))


def _read_only() -> UsageError:
    return UsageError("The stores of a finished output are read-only")
