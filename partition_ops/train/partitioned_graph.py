"""A finished output as a graph for DGL's data loaders, without loading it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import Any, Literal

import torch

from partition_ops.errors import UsageError
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train.open_output import OpenOutput, Tensors
from partition_ops.train.sorted_edges import Direction

dgl = import_dgl()
READERS = ("in_subgraph", "_sample_neighbors", "_sample_labors")  # functions of DGL that only read a CSC


class PartitionedGraph(OpenOutput):
    """The graph of a finished output, as ``dgl.dataloading.DataLoader`` and DGL's samplers take it.

    It has the methods of ``DGLGraph`` that they call in dgl 1.1.3, with the same arguments and results, and
    its data: ``ndata``, ``edata``, ``nodes[type].data`` and ``edges[type].data`` are features whose rows are
    read when they are indexed. Frontiers, subgraphs and blocks have them too, and read them on access.
    ``dgl.in_subgraph``, ``dgl.sampling.sample_neighbors`` and ``dgl.sampling.sample_labors`` take it as their
    graph, for in-edges; instead of other functions of DGL, call its method of that name.

    Nothing of the graph is loaded: its edges are memory-mapped, sorted by destination and by type, and its
    features are read row by row. The sorted edges are made when the output is opened for the first time, into
    a cache that later openings, also by other processes, use again.

    IDs in and out are type-wise, as int64 tensors: *new* IDs, which count the nodes or edges of a type by
    partition as DGL's ``DistGraph`` does, or *original* IDs, those of the input. If validation dropped edges,
    the original edge IDs have holes.

    With some of the partitions, the graph has all nodes but only the edges that those partitions own: nodes
    of other partitions have no in-edges. Their features can be read.

    Pickling it, as data loader workers started by ``spawn`` do, opens it again by its URI. A subclass stays
    that subclass, and keeps the attributes that it added; its constructor is not called again.

    Args:
        output: Root of the output, a store or a URI: a local path or ``s3://…``.
        parts: Partitions to open; all if omitted.
        ids: ``new`` or ``original``.
        cache: Folder of the cache; ``~/.cache/partition-ops/train`` if omitted.
        cache_bytes: Limit of the cache on disk.
        features: ``mapped`` maps the feature files, ``read`` reads rows of them by system calls; both fetch
            whole files into the cache if they are on S3. ``ranges`` reads rows by range requests through
            blocks in memory. Default: ``ranges`` on S3; on a local disk ``mapped``, or ``read`` with
            `resident_bytes`.
        asynchronous: Read every feature of a batch in a thread of its own.
        resident_bytes: Limit of the resident bytes of mapped files, after each call and while features are
            read. Default: no limit; the kernel reclaims pages when memory is short. DGL's kernels may map
            more while they sample.
        row_cache_bytes: Memory for the blocks of ``ranges``.
        unpublished: Open an output that has been converted and has no manifest yet.

    Raises:
        InvalidInputError: The output is not finished, or a file is damaged.
        UsageError: A partition does not exist, or the cache is too small.
        TransientStorageError: A file is not what the manifest lists.

    Peak memory: `row_cache_bytes`, 64 MiB, and a batch, in addition to mapped files. While the cache is
    filled, also 24 bytes a node of the largest type or partition. Disk: 32 bytes an edge and 8 bytes a node
    for each edge type in the cache; while it is filled from S3, also the files of the graph of the largest
    partition; 16 bytes an edge more when out-edges are first asked for.
    """

    def sample_neighbors(
        self,
        seed_nodes: Tensors,
        fanout: int | Mapping[Any, int],
        edge_dir: Direction = "in",
        prob: str | None = None,
        replace: bool = False,
        exclude_edges: Tensors = None,
        output_device: Any = None,
        *,
        copy_ndata: bool = True,
        copy_edata: bool = True,
    ) -> Any:
        """Sample edges of each node, by ``dgl.sampling.sample_neighbors``.

        The arguments and their order are those of DGL's note on custom graphs. Others of DGL's function are
        passed by name.

        Args:
            seed_nodes: Type-wise IDs, a tensor or a dict by node type.
            fanout: Edges of each edge type for each node, -1 for all; or a dict with every edge type.
            edge_dir: ``in`` or ``out``.
            prob: Name of a scalar edge feature: edges are drawn in proportion to it, or a mask.
            replace: Draw with replacement.
            exclude_edges: Type-wise IDs of edges not to draw, a tensor or a dict by edge type.
            output_device: Device of the result.
            copy_ndata: Give the result the node features of the graph; their rows are read on access.
            copy_edata: The same for edge features.

        Returns:
            A ``DGLGraph`` with all nodes and the edges that were drawn; their type-wise IDs, int64, are its
            edge data ``dgl.EID``. Peak memory: a multiple of that.

        Raises:
            InvalidIdError: There is no such node.
        """
        self._check_nodes(seed_nodes)
        frontier = dgl.sampling.sample_neighbors(
            self._sorted(edge_dir),
            seed_nodes,
            fanout,
            edge_dir=edge_dir,
            prob=None if prob is None else self._probability(prob),
            replace=replace,
            copy_ndata=copy_ndata,
            copy_edata=copy_edata,
            exclude_edges=self._canonical(exclude_edges),
        )
        return self._delivered(frontier, output_device)

    def sample_labors(
        self,
        seed_nodes: Tensors,
        fanout: int | Mapping[Any, int],
        edge_dir: Direction = "in",
        prob: str | None = None,
        importance_sampling: int = 0,
        random_seed: Any = None,
        seed2_contribution: float = 0,
        copy_ndata: bool = True,
        copy_edata: bool = True,
        exclude_edges: Tensors = None,
        output_device: Any = None,
    ) -> tuple[Any, list[Any]]:
        """Sample edges of each node by LABOR, with arguments and results of ``dgl.sampling.sample_labors``.

        Edge IDs and data of the result, errors and memory are those of `sample_neighbors`.
        """
        self._check_nodes(seed_nodes)
        weights = None
        if prob is not None:  # DGL's kernels take arrays of one dtype, empty ones instead of None
            known = self._probability(prob)
            none = torch.empty(0, dtype=next(one.dtype for one in known if one is not None))
            weights = [dgl.backend.to_dgl_nd(none if one is None else one) for one in known]
        frontier, importances = dgl.sampling.sample_labors(
            self._sorted(edge_dir),
            seed_nodes,
            fanout,
            edge_dir=edge_dir,
            prob=weights,
            importance_sampling=importance_sampling,
            random_seed=random_seed,
            seed2_contribution=seed2_contribution,
            copy_ndata=copy_ndata,
            copy_edata=copy_edata,
            exclude_edges=self._canonical(exclude_edges),
            output_device=output_device,
        )
        self._resident.check()
        return frontier, importances

    def in_subgraph(
        self,
        nodes: Tensors,
        *,
        relabel_nodes: bool = False,
        store_ids: bool = True,
        output_device: Any = None,
    ) -> Any:
        """Return all in-edges of some nodes, as ``dgl.in_subgraph``; edge IDs as in `sample_neighbors`."""
        return self._induced(dgl.in_subgraph, "in", nodes, relabel_nodes, store_ids, output_device)

    def out_subgraph(
        self,
        nodes: Tensors,
        *,
        relabel_nodes: bool = False,
        store_ids: bool = True,
        output_device: Any = None,
    ) -> Any:
        """Return all out-edges of some nodes, as ``dgl.out_subgraph``; edge IDs as in `sample_neighbors`."""
        return self._induced(dgl.out_subgraph, "out", nodes, relabel_nodes, store_ids, output_device)

    def subgraph(
        self,
        nodes: Tensors,
        *,
        relabel_nodes: bool = True,
        store_ids: bool = True,
        output_device: Any = None,
    ) -> Any:
        """Return some nodes and the edges between them, as ``dgl.node_subgraph``.

        Peak memory: several times the in-edges of the nodes.
        """
        between = self.in_subgraph(nodes)  # dgl 1.1.3 mixes up rows and columns of a CSC without a CSR
        by_type = nodes if isinstance(nodes, Mapping) else {self.ntypes[0]: nodes}
        none = torch.empty(0, dtype=torch.int64)
        kept = {ntype: torch.as_tensor(by_type.get(ntype, none), dtype=torch.int64) for ntype in self.ntypes}
        ordered = {ntype: ids.sort() for ntype, ids in kept.items()}
        ends, eids = {}, []
        for etype in self.canonical_etypes:
            src, dst = between.edges(etype=etype)
            inside = torch.isin(src, kept[etype[0]])
            if relabel_nodes:
                src, dst = (
                    ordered[t].indices[torch.searchsorted(ordered[t].values, end[inside])]
                    for t, end in ((etype[0], src), (etype[2], dst))
                )
            else:
                src, dst = src[inside], dst[inside]
            ends[etype] = src, dst
            eids.append(between.edges[etype].data[dgl.EID][inside])
        counts = {t: len(kept[t]) if relabel_nodes else self.num_nodes(t) for t in self.ntypes}
        found = dgl.heterograph(ends, counts, idtype=torch.int64)
        self._copy_data(found, eids, list(kept.values()) if relabel_nodes else None, store_ids)
        return self._delivered(found, output_device)

    def _copy_data(self, made: Any, edges: list[Any], nodes: list[Any] | None, store_ids: bool) -> None:
        """Give a graph the data of some edges, by type, and of some nodes, or of all."""
        utils = dgl.utils
        utils.set_new_frames(
            made,
            node_frames=utils.extract_node_subframes(self._in, nodes, store_ids),
            edge_frames=utils.extract_edge_subframes(self._in, edges, store_ids),
        )

    def _induced(
        self,
        function: Any,
        direction: Direction,
        nodes: Tensors,
        relabel_nodes: bool,
        store_ids: bool,
        device: Any,
    ) -> Any:
        self._check_nodes(nodes)
        found = function(self._sorted(direction), nodes, store_ids=store_ids)
        if relabel_nodes:  # DGL's function cannot, because it needs a COO
            by_type = nodes if isinstance(nodes, Mapping) else {self.ntypes[0]: nodes}
            seeds = {ntype: torch.as_tensor(ids, dtype=torch.int64) for ntype, ids in by_type.items()}
            found = dgl.compact_graphs(
                found, always_preserve={t: ids.reshape(-1) for t, ids in seeds.items()}
            )
            for ntype in () if store_ids else found.ntypes:
                del found.nodes[ntype].data[dgl.NID]
        return self._delivered(found, device)

    def edge_subgraph(
        self,
        seed_edges: Tensors,
        relabel_nodes: bool = False,
        output_device: Any = None,
        *,
        store_ids: bool = True,
    ) -> Any:
        """Return some edges with all nodes, as ``DGLGraph.edge_subgraph``.

        The arguments and their order are those of DGL's note on custom graphs.

        Args:
            seed_edges: Type-wise edge IDs, a tensor or a dict by edge type.
            relabel_nodes: Keep only the nodes that the edges have, renumbered; then the node data ``dgl.NID``
                are their type-wise IDs.
            output_device: Device of the result.
            store_ids: Store the IDs of edges and nodes.

        Returns:
            A ``DGLGraph``; its edge data ``dgl.EID`` are the type-wise IDs of the edges.

        Raises:
            InvalidIdError: There is no such edge, or its partition is not open.
        """
        by_type = seed_edges if isinstance(seed_edges, Mapping) else {self._etype(None): seed_edges}
        wanted = self._canonical(by_type)
        none = torch.empty(0, dtype=torch.int64)
        ids = {etype: torch.as_tensor(wanted.get(etype, none)) for etype in self.canonical_etypes}
        ends = {etype: self.find_edges(eids, etype) for etype, eids in ids.items()}
        found = dgl.heterograph(
            ends, {name: self.num_nodes(name) for name in self.ntypes}, idtype=torch.int64
        )
        self._copy_data(found, list(ids.values()), None, store_ids)
        if relabel_nodes:
            found = dgl.compact_graphs(found)
            for etype, eids in ids.items() if store_ids else ():
                found.edges[etype].data[dgl.EID] = eids
        return self._delivered(found, output_device)

    def find_edges(self, eid: Any, etype: Any = None) -> tuple[Any, Any]:
        """Return sources and destinations of some edges, (n,) tensors of type-wise IDs.

        Raises:
            InvalidIdError: There is no such edge, or its partition is not open.
        """
        found = self._graphs.find_edges(torch.as_tensor(eid), self._etype(etype))
        self._resident.check()
        return found

    def has_edges_between(self, u: Any, v: Any, etype: Any = None) -> Any:
        """Return whether an edge joins each pair, (n,) bool tensor."""
        found = self._graphs.has_edges(torch.as_tensor(u), torch.as_tensor(v), self._etype(etype))
        self._resident.check()
        return found

    def in_degrees(self, v: Any = None, etype: Any = None) -> Any:
        """Return the number of in-edges of nodes of the destination type, or of all: (n,) int64 tensor."""
        return self._graphs.degrees("in", v, self._etype(etype))

    def out_degrees(self, u: Any = None, etype: Any = None) -> Any:
        """Return the number of out-edges of nodes of the source type, or of all: (n,) int64 tensor."""
        return self._graphs.degrees("out", u, self._etype(etype))

    def adj_tensors(self, fmt: Literal["csc", "csr"], etype: Any = None) -> tuple[Any, Any, Any]:
        """Return the edges of a type by destination or by source, as ``DGLGraph.adj_tensors``; not copied.

        Args:
            fmt: ``csc`` or ``csr``.
            etype: Edge type.

        Returns:
            int64 tensors over mapped files: (nodes + 1,) where the edges of each node begin, (edges,) the
            other ends, and (edges,) the edge IDs, ascending for each node.

        Raises:
            UsageError: Another format is asked for; `find_edges` returns the ends of edges by ID.
        """
        if fmt not in ("csc", "csr"):
            raise UsageError("The graph is not stored in this format", found=repr(fmt), expected="csc or csr")
        self._resident.check()
        return self._graphs.tensors("in" if fmt == "csc" else "out", self._etype(etype))

    def global_uniform_negative_sampling(
        self,
        num_samples: int,
        exclude_self_loops: bool = True,
        replace: bool = False,
        etype: Any = None,
        redundancy: float | None = None,
    ) -> tuple[Any, Any]:
        """Draw pairs of nodes that no edge joins, as ``dgl.sampling.global_uniform_negative_sampling``.

        Args:
            num_samples: Number of pairs; there are fewer if the graph is dense, as in DGL.
            exclude_self_loops: Leave out pairs of a node with itself.
            replace: Allow the same pair several times.
            etype: Edge type.
            redundancy: Share of additional pairs to draw; derived from the density if omitted.

        Returns:
            (n,) sources and (n,) destinations, type-wise. Reproducible by ``torch.manual_seed``.
        """
        found = self._graphs.pairs_without_edge(
            num_samples,
            self._etype(etype),
            loops=not exclude_self_loops,
            repeat=replace,
            redundancy=redundancy,
        )
        self._resident.check()
        return found

    def _delivered(self, found: Any, device: Any) -> Any:
        """Return a sampled graph on the device where it is wanted."""
        self._resident.check()
        return found if device is None else found.to(device)

    def _probability(self, name: str) -> list[Any]:
        """Return an edge feature by edge ID for each edge type in DGL's order, as tensors or None."""
        if name not in self._probabilities:
            self._probabilities[name] = self._graphs.in_dgl_order(self._edge_features.scalars(name))
        return self._probabilities[name]

    def _sorted(self, direction: Direction) -> Any:
        """Return the graph to sample from, which has the features as data."""
        made = self._graphs.get(direction)
        return made if direction == "in" else self._data.attach(made)

    @property
    def _graph(self) -> Any:
        """The index of the graph, for functions of DGL that take it in place of a ``DGLGraph``.

        Other functions need COO or CSR, mix up rows and columns, or sort the mapped files in place, which
        ends the process. So does a node ID that does not exist, which is why IDs are checked here.
        """
        caller = sys._getframe(1)
        if caller.f_code.co_name not in READERS:
            raise UsageError(
                "A function of DGL does not take a PartitionedGraph",
                found=caller.f_code.co_name,
                expected="dgl.in_subgraph, dgl.sampling.sample_neighbors or dgl.sampling.sample_labors",
                remedy="If PartitionedGraph has a method of that name, call it.",
            )
        self._check_nodes(caller.f_locals["nodes"])
        return self._in._graph

    @property
    def _node_frames(self) -> Any:
        return self._in._node_frames

    @property
    def _edge_frames(self) -> Any:
        return self._in._edge_frames
