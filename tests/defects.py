"""Graphs with duplicate and self-loop edges, and the same graphs without them."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import product

import numpy as np

from tests.graphs import Edges, Layout, SmallGraph

CHECKS = ("duplicate_edges", "self_loop_edges")
CHOICES = [dict(zip(CHECKS, pair, strict=True)) for pair in product(("drop", "exclude", "warn"), repeat=2)]


def with_defects(graph: SmallGraph, *, seed: int = 0) -> SmallGraph:
    """Return the graph with duplicates, self-loops and duplicate self-loops, in one chunk a type."""
    rng = np.random.default_rng(seed)
    edges, edge_values = {}, list(graph.edge_values)
    for name, ends in graph.edges.items():
        src_type, _, dst_type = name.split(":")
        pairs = np.array([ends.src, ends.dst], np.int64).reshape(2, -1).T
        loops = np.array([(1, 1), (2, 2), (1, 1)])[: 3 * (src_type == dst_type)]
        added = np.concatenate([pairs[:4], pairs[:2], loops])
        places = np.sort(rng.integers(0, len(pairs), len(added)))
        mixed = np.insert(pairs, places, added, axis=0)
        edges[name] = Edges(mixed[:, 0].tolist(), mixed[:, 1].tolist())
        for index, value in enumerate(edge_values):
            if value.type_name == name:
                rows = np.insert(value.array, places, value.array[: len(added)], axis=0)
                edge_values[index] = replace(value, array=rows)
    return replace(graph, edges=edges, edge_values=edge_values)


def findings(name: str, edges: Edges) -> list[set[str]]:
    """Return the findings of each edge."""
    src_type, _, dst_type = name.split(":")
    seen: set[tuple[int, int]] = set()
    found: list[set[str]] = []
    for pair in zip(edges.src, edges.dst, strict=True):
        wrong = {"duplicate_edges"} if pair in seen else set()
        if src_type == dst_type and pair[0] == pair[1]:
            wrong.add("self_loop_edges")
        found.append(wrong)
        seen.add(pair)
    return found


def kept_edges(graph: SmallGraph, checks: Collection[str]) -> dict[str, list[int]]:
    """Return by edge type the ascending type-wise IDs of the edges without a finding of these checks."""
    return {
        name: [index for index, wrong in enumerate(findings(name, ends)) if not wrong & set(checks)]
        for name, ends in graph.edges.items()
    }


def cleaned(graph: SmallGraph, checks: Collection[str]) -> SmallGraph:
    """Return the graph without the edges that these checks find, and without their features."""
    kept = kept_edges(graph, checks)
    edges = {
        name: Edges(
            [ends.src[i] for i in kept[name]],
            [ends.dst[i] for i in kept[name]],
            _cut(ends.layout, len(ends.src), kept[name]),
        )
        for name, ends in graph.edges.items()
    }
    values = [
        replace(
            value,
            array=value.array[kept[value.type_name]],
            layout=_cut(value.layout, len(value.array), kept[value.type_name]),
        )
        for value in graph.edge_values
    ]
    return replace(graph, edges=edges, edge_values=values)


def _cut(layout: Layout, rows: int, kept: list[int]) -> Layout:
    """Return the layout with as many chunks, each with the rows of it that are kept."""
    ends = np.cumsum([0, *(layout.chunks or (rows,))])
    return replace(layout, chunks=tuple(np.diff(np.searchsorted(kept, ends)).tolist()))
