"""Small graphs that have grown: new nodes and edges come after the old ones."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tests.graphs import Edges, SmallGraph, Values


def grown(graph: SmallGraph, *, share: float = 0.1, seed: int = 1) -> SmallGraph:
    """The graph with more nodes and edges of every type; old ones keep their type-wise IDs."""
    rng = np.random.default_rng(seed)
    nodes = {name: count + int(np.ceil(share * count)) for name, count in graph.nodes.items()}
    edges = {name: _more_edges(name, old, nodes, share, rng) for name, old in graph.edges.items()}
    sizes = {name: len(found.src) for name, found in edges.items()}
    return replace(
        graph,
        nodes=nodes,
        edges=edges,
        node_values=[_more_values(values, nodes[values.type_name], rng) for values in graph.node_values],
        edge_values=[_more_values(values, sizes[values.type_name], rng) for values in graph.edge_values],
        node_chunks={},
    )


def _more_edges(
    name: str, old: Edges, nodes: dict[str, int], share: float, rng: np.random.Generator
) -> Edges:
    src_type, _, dst_type = name.split(":")
    known = set(zip(old.src, old.dst, strict=True))
    ends = rng.integers(0, (nodes[src_type], nodes[dst_type]), (int(np.ceil(share * len(old.src))), 2))
    new = {(int(a), int(b)) for a, b in ends if src_type != dst_type or a != b} - known
    pairs = [*zip(old.src, old.dst, strict=True), *sorted(new)]
    return Edges([a for a, _ in pairs], [b for _, b in pairs], replace(old.layout, chunks=None))


def _more_values(values: Values, rows: int, rng: np.random.Generator) -> Values:
    array = values.array
    more = array[rng.integers(0, len(array), rows - len(array))]
    return replace(values, array=np.concatenate([array, more]), layout=replace(values.layout, chunks=None))
