"""Edges between the same two nodes are sampled together."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest

from partition_ops.traffic.model import Sampling, TrafficModel
from partition_ops.traffic.sampled_edges import SampledEdges, collect_edges


def collected(num_nodes: int, types: list[tuple[list[int], list[int]]]) -> SampledEdges:
    blocks = [(number, np.array(src), np.array(dst)) for number, (src, dst) in enumerate(types)]
    count = sum(len(src) for src, _ in types)
    return collect_edges(num_nodes, [(0, num_nodes)] * len(types), count, blocks)


@pytest.mark.parametrize("types", [1, 2, 3])
def test_a_row_is_read_once_by_all_edges_of_a_pair(types: int) -> None:
    """Half of the batches have node 1, which samples one of its two in-edges of each type."""
    edges = collected(4, [([0, 2], [1, 1])] * types)
    model = TrafficModel(edges, np.array([False, True, False, True]), Sampling((1,), 1))
    assert edges.destinations().tolist() == [1, 1]
    found = model.traffic(np.array([0, 1, 1, 1], np.int32), 2)
    assert found.remote_rows_per_batch.tolist() == pytest.approx([0, 0.5 * (1 - 0.5**types)])
    np.testing.assert_allclose(found.neighbours[1] / 2, [0.25 * types, 0.25 * types], rtol=1e-6)
    assert model.edge_weights(model.edge_chances()).tolist() == pytest.approx([0.5 * (1 - 0.5**types)] * 2)


def test_parallel_edges_of_one_type() -> None:
    edges = collected(2, [([0, 0, 0], [1, 1, 1])])
    assert edges.num_edges == 1
    assert edges.group_sizes[0] == 3
    model = TrafficModel(edges, np.array([False, True]), Sampling((2,), 1))
    assert model.edge_weights(model.edge_chances()).tolist() == pytest.approx([1 - (1 / 3) ** 3])


def members(edges: SampledEdges, group: int) -> list[int]:
    real = edges.num_groups - len(edges.joined)
    if group < real:
        return [group]
    first, second = edges.joined[group - real].tolist()
    return [*members(edges, first), *members(edges, second)]


def test_joined_groups_stand_for_the_groups_of_all_edges() -> None:
    random = np.random.default_rng(2)
    types = [tuple(random.integers(0, 40, (2, 300)).tolist()) for _ in range(4)]
    edges = collected(40, types)
    sources = np.repeat(np.arange(40), np.diff(edges.first)).tolist()
    pairs = list(zip(sources, edges.destinations().tolist(), strict=True))
    every = Counter(pair for src, dst in types for pair in zip(src, dst, strict=True))
    assert Counter(pairs) == Counter(every.keys())
    expanded = Counter()
    for pair, group in zip(pairs, edges.groups.tolist(), strict=True):
        found = members(edges, group)
        assert len(found) == every[pair]
        assert {int(edges.group_nodes[one]) for one in found} == {pair[1]}
        expanded.update(found)
    real = edges.num_groups - len(edges.joined)
    assert [expanded[group] for group in range(real)] == edges.group_sizes[:real].tolist()
    assert len({tuple(pair) for pair in edges.joined.tolist()}) == len(edges.joined)
    assert (edges.group_sizes >= 1).all()
