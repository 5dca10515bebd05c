"""Graphs of clusters without their lightest edges, for METIS and searches."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.stages.partition.multilevel.graph import NOTHING, Graph, value_at, without_light_edges
from partition_ops.stages.partition.multilevel.tuning import DEFAULT

DENSE, MANY = DEFAULT.dense, DEFAULT.many_parts + 1
NODES = 4 * DENSE  # each a neighbour of all others


def complete(weights: np.ndarray) -> Graph:
    """A graph with an edge between any two of its clusters, of symmetric weights."""
    offsets = np.arange(0, NODES * NODES, NODES - 1)[: NODES + 1]
    others = np.array([np.delete(np.arange(NODES), node) for node in range(NODES)])
    edge_weights = np.array([np.delete(row, node) for node, row in enumerate(weights)])
    ones = np.ones(NODES, np.int64)
    return Graph(offsets, others.ravel().astype(np.int32), edge_weights.ravel(), ones)


def communities(heavy: int) -> np.ndarray:
    groups = np.arange(NODES) // (DENSE // 2)
    return np.where(groups[:, None] == groups, heavy, 1).astype(np.int64)


def test_the_heavy_edges_stay() -> None:
    found = without_light_edges(complete(communities(100)), MANY, DEFAULT)
    rows = np.repeat(np.arange(NODES), np.diff(found.offsets))
    assert (found.edge_weights == 100).all()
    assert found.num_half_edges == NODES * (DENSE // 2 - 1)
    assert (rows // (DENSE // 2) == found.neighbours // (DENSE // 2)).all()


def test_light_edges_with_most_of_the_weight_stay() -> None:
    graph = complete(communities(2))
    assert without_light_edges(graph, MANY, DEFAULT) is graph


def test_a_graph_of_nodes_keeps_its_edges() -> None:
    graph = complete(communities(100))._replace(node_weights=NOTHING)
    assert without_light_edges(graph, MANY, DEFAULT) is graph


def test_a_sparse_graph_keeps_its_edges() -> None:
    heavy = without_light_edges(complete(communities(100)), MANY, DEFAULT)
    assert without_light_edges(heavy, MANY, DEFAULT) is heavy


def test_few_partitions_get_all_edges() -> None:
    graph = complete(communities(100))
    assert without_light_edges(graph, MANY - 1, DEFAULT) is graph


WEIGHTS = st.one_of(st.integers(0, 3), st.integers(0, 2**17), st.integers(0, 2**62))


@given(st.lists(WEIGHTS, min_size=1), st.data())
def test_the_value_at_a_place_is_that_of_the_sorted_values(values: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(values) - 1))
    assert value_at(np.array(values, np.int64), place) == sorted(values)[place]
