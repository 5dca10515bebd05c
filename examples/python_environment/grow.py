"""A graph of an environment that has grown, with the type-wise IDs of the previous graph.

Nodes keep their IDs by name, and new nodes are appended. A removed node keeps its ID, without edges and with
zeros as features, because the IDs of a type have no gaps.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

from examples.python_environment.tables import Array, Edges, Graph, Ints, Nodes


def previous_classes(previous: Path) -> list[str]:
    """Return the distributions that the labels of an earlier graph stand for."""
    classes: list[str] = pq.read_table(previous / "names" / "label.parquet")["distribution"].to_pylist()
    return classes


def keep_ids(graph: Graph, previous: Path) -> Graph:
    """Return the same graph with the IDs of an earlier graph."""
    new_ids: dict[str, Ints] = {}
    nodes = {}
    for node_type, table in graph.nodes.items():
        names: list[str] = pq.read_table(previous / "names" / f"{node_type}.parquet")["name"].to_pylist()
        new_ids[node_type] = _new_ids(table.names, names)
        nodes[node_type] = _moved(table, names, new_ids[node_type])
    edges = {}
    for edge_type, edge_table in graph.edges.items():
        src_type, _, dst_type = edge_type.split(":")
        edges[edge_type] = _renumbered(edge_table, new_ids[src_type], new_ids[dst_type])
    return Graph(nodes, edges, graph.classes, graph.calls)


def _new_ids(names: list[str], before: list[str]) -> Ints:
    ids = {name: number for number, name in enumerate(before)}
    for name in names:
        ids.setdefault(name, len(ids))
    return np.array([ids[name] for name in names], np.int64)


def _moved(table: Nodes, before: list[str], new_ids: Ints) -> Nodes:
    known = set(before)
    names = before + [name for name in table.names if name not in known]
    return Nodes(names, {key: _spread(values, new_ids, len(names)) for key, values in table.features.items()})


def _spread(values: Array, new_ids: Ints, rows: int) -> Array:
    spread = np.zeros((rows, *values.shape[1:]), values.dtype)
    spread[new_ids] = values
    return spread


def _renumbered(table: Edges, src_ids: Ints, dst_ids: Ints) -> Edges:
    src, dst = src_ids[table.src], dst_ids[table.dst]
    order = np.lexsort((dst, src))
    return Edges(src[order], dst[order], {key: values[order] for key, values in table.features.items()})
