"""Small graphs come out even."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import shares
from partition_ops.stages.partition.small_graphs import even_out


def symmetric(nodes: int, pairs: set[tuple[int, int]]) -> ParhipGraph:
    both = sorted({(a, b) for pair in pairs for a, b in (pair, pair[::-1]) if a != b})
    degrees = np.bincount([a for a, _ in both], minlength=nodes)
    return ParhipGraph(np.concatenate([[0], np.cumsum(degrees)]), np.array([b for _, b in both], np.int64))


@given(data=st.data(), parts=st.integers(2, 4), uneven=st.booleans())
def test_every_partition_gets_its_share_of_each_class(data: Any, parts: int, uneven: bool) -> None:
    count = data.draw(st.integers(1, 20 * parts - 1))
    ids = st.integers(0, count - 1)
    graph = symmetric(count, data.draw(st.sets(st.tuples(ids, ids), max_size=60)))
    classes = np.array(data.draw(st.lists(st.integers(0, 2), min_size=count, max_size=count)))
    before = np.array(
        data.draw(st.lists(st.integers(0, parts - 1), min_size=count, max_size=count)), np.int32
    )
    config = PartitionConfig(num_parts=parts, target_shares=tuple(range(1, parts + 1)) if uneven else None)
    found = even_out(config, graph, classes, before.copy())
    for which in range(classes.max() + 1):
        mine = found[classes == which]
        wanted = len(mine) * shares(config)
        counts = np.bincount(mine, minlength=parts)
        assert (counts >= np.floor(wanted + 1e-9)).all() and (counts <= np.ceil(wanted - 1e-9)).all()
    assert even_out(config, graph, classes, found).tolist() == found.tolist()


def test_the_node_whose_move_cuts_fewest_edges_moves() -> None:
    graph = symmetric(6, {(0, 1), (1, 2), (0, 2), (3, 4), (2, 5), (3, 5)})
    before = np.array([0, 0, 0, 0, 1, 1], np.int32)
    found = even_out(PartitionConfig(num_parts=2), graph, np.zeros(6, np.int64), before)
    assert found.tolist() == [0, 0, 0, 1, 1, 1]


@pytest.mark.parametrize("options", [{"tolerance": 1.5}, {"num_trainers_per_machine": 2}])
def test_what_asks_for_another_balance_stays(options: dict[str, Any]) -> None:
    graph = symmetric(6, {(0, 1), (2, 3)})
    before = np.zeros(6, np.int32)
    config = PartitionConfig(num_parts=2, **options)
    assert even_out(config, graph, np.zeros(6, np.int64), before).tolist() == [0] * 6


def test_a_large_graph_stays() -> None:
    graph, before = symmetric(40, {(0, 1)}), np.zeros(40, np.int32)
    found = even_out(PartitionConfig(num_parts=2), graph, np.zeros(40, np.int64), before)
    assert found.tolist() == before.tolist()
