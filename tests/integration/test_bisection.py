"""METIS's recursive bisection of a graph of clusters into many partitions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from partition_ops.stages.partition import metis_library
from partition_ops.stages.partition.multilevel import levels
from partition_ops.stages.partition.multilevel.graph import NO_LABELS, NOTHING, Constraints, Graph
from partition_ops.stages.partition.multilevel.levels import Level, cut_by_metis
from partition_ops.stages.partition.multilevel.tuning import Tuning
from partition_ops.stages.partition.options import PartitionConfig

TOLERANCE = 1.1


def level_of_clusters(num_parts: int, shares: np.ndarray) -> Level:
    """A graph of 60 clusters a partition, in a grid, with nodes of three types in each."""
    count, width = 60 * num_parts, 40
    at = np.arange(count)
    ends = [(at[at % width > 0], -1), (at[at >= width], -width)]
    src = np.concatenate([one for nodes, step in ends for one in (nodes, nodes + step)])
    dst = np.concatenate([one for nodes, step in ends for one in (nodes + step, nodes)])
    order = np.lexsort((dst, src))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(src, minlength=count))])
    weights = np.random.default_rng(7).integers(1, 30, (count, 3)) ** 2
    most = np.floor(TOLERANCE * shares[:, None] * weights.sum(axis=0)).astype(np.int64)
    graph = Graph(offsets, dst[order].astype(np.int32), NOTHING, weights.sum(axis=1))
    columns = np.arange(3, dtype=np.int32)
    return Level(graph, Constraints(NO_LABELS, NOTHING, columns, weights, most))


@pytest.mark.parametrize("num_parts", [17, 33, 64])
@pytest.mark.parametrize("unequal", [False, True])
def test_the_bisections_keep_the_tolerance_together(
    num_parts: int, unequal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    shares = np.ones(num_parts)
    if unequal:
        shares[::2] = 2
    shares /= shares.sum()
    level, bisected = level_of_clusters(num_parts, shares), []

    def cut_graph(*graph: object, **options: object) -> object:
        bisected.append(options["bisect"])
        return metis_library.cut_graph(*graph, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(levels, "cut_graph", cut_graph)
    config = PartitionConfig(num_parts=num_parts, target_shares=tuple(shares) if unequal else None)
    parts = cut_by_metis(config, level, 0, by_limits=True)
    assert bisected == [True]
    assert (level.constraints.loads(parts) <= level.constraints.most).all()


@pytest.mark.parametrize(
    ("options", "contracted", "most", "bisected"),
    [
        ({"num_parts": 17}, True, 60, True),
        ({"num_parts": 17}, True, 59, False),
        ({"num_parts": 17}, False, 60, False),
        ({"num_parts": 17, "objective": "vol"}, True, 60, False),
        ({"num_parts": 16}, True, 60, False),
    ],
)
def test_other_graphs_are_left_to_the_k_way_method(
    options: dict[str, Any], contracted: bool, most: int, bisected: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = options["num_parts"]
    level = level_of_clusters(count, np.full(count, 1 / count))
    if not contracted:
        level = level._replace(graph=level.graph._replace(node_weights=NOTHING))
    monkeypatch.setattr(levels, "cut_graph", lambda *graph, bisect, **others: bisect)
    config, tuning = PartitionConfig(**options), Tuning(bisected=most)
    assert cut_by_metis(config, level, 0, by_limits=True, tuning=tuning) == bisected
