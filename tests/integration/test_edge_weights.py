"""Weights of the edges of the input graph count in every step of the core, and in the engines."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.errors import EngineError
from partition_ops.stages.partition.engine import Engine
from partition_ops.stages.partition.engines import auto, metis, parmetis, two_level
from partition_ops.stages.partition.incremental.placement import place_new_nodes
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.cluster import contract, find_clusters
from partition_ops.stages.partition.multilevel.graph import Graph, constraints_of, cut_weight, edge_cut
from partition_ops.stages.partition.multilevel.improve import climb
from partition_ops.stages.partition.multilevel.kahypar import cut_by_kahypar
from partition_ops.stages.partition.multilevel.refine import refine
from partition_ops.stages.partition.multilevel.tries import Tries
from partition_ops.stages.partition.multilevel.tuning import DEFAULT
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.stages.partition.small_graphs import even_out
from tests.graphs import Edges, SmallGraph
from tests.integration.test_two_level import problem

WIDTH = 20
HEAVY = 50  # the edges of a row; those of a column weigh 1, so good partitions are bands of rows
BANDS = 4 * WIDTH  # the best cut: 4 bands of rows
TUNING = replace(DEFAULT, few_nodes=100)  # so that two-level makes clusters


@pytest.fixture(scope="module")
def weighted(tmp_path_factory: pytest.TempPathFactory) -> Problem:
    """A torus whose rows are heavy."""
    ids = np.arange(WIDTH * WIDTH).reshape(WIDTH, WIDTH)
    ends = [(ids, np.roll(ids, 1, axis=axis)) for axis in (0, 1)]
    src, dst = (np.concatenate([pair[i].ravel() for pair in ends]).tolist() for i in (0, 1))
    graph = SmallGraph({"n": WIDTH * WIDTH}, {"n:to:n": Edges(src, dst)})
    task = problem(graph, tmp_path_factory.mktemp("torus"), TUNING, num_parts=4)
    rows = np.repeat(np.arange(WIDTH * WIDTH), np.diff(task.graph.offsets))
    same_row = rows // WIDTH == np.asarray(task.graph.neighbours) // WIDTH
    return replace(task, edge_weights=np.where(same_row, HEAVY, 1))


def cut(task: Problem, parts: Parts) -> int:
    rows = np.repeat(np.arange(task.graph.num_nodes), np.diff(task.graph.offsets))
    return int(task.edge_weights[parts[rows] != parts[task.graph.neighbours]].sum()) // 2


def with_heavy_columns(weighted: Problem) -> Problem:
    return replace(weighted, edge_weights=HEAVY + 1 - weighted.edge_weights)


def whole(task: Problem) -> Graph:
    return Graph.of_input(task.graph, task.edge_weights)


def test_the_cut_is_a_weight_and_its_figure_counts_pairs(weighted: Problem) -> None:
    parts = np.random.default_rng(0).integers(0, 4, WIDTH * WIDTH).astype(np.int32)
    assert cut_weight(whole(weighted), parts) == cut(weighted, parts)
    assert edge_cut(whole(weighted), parts).pairs == cut(replace(weighted, edge_weights=np.ones(1600)), parts)


def test_clusters_follow_heavy_edges_and_keep_all_weight(weighted: Problem) -> None:
    smaller, numbers = contract(whole(weighted), find_clusters(whole(weighted), 5, 0))
    rows = np.repeat(np.arange(WIDTH * WIDTH), np.diff(weighted.graph.offsets))
    inside = numbers[rows] == numbers[weighted.graph.neighbours]
    heavy = weighted.edge_weights == HEAVY
    assert np.count_nonzero(inside & heavy) > 5 * np.count_nonzero(inside & ~heavy)
    assert smaller.edge_weights.sum() == 2 * cut(weighted, numbers)


def test_moves_and_searches_save_weight(weighted: Problem) -> None:
    graph, limits = whole(weighted), constraints_of(weighted)
    limits = limits._replace(most=limits.most + WIDTH)
    parts = np.random.default_rng(1).integers(0, 4, WIDTH * WIDTH).astype(np.int32)
    before = cut(weighted, parts)
    refine(graph, limits, parts)
    refined = cut(weighted, parts)
    assert refined < before
    assert climb(graph, limits, parts, 0) == refined - cut(weighted, parts) > 0


def test_new_nodes_go_where_heavy_edges_lead(weighted: Problem) -> None:
    rows = (np.arange(WIDTH * WIDTH) // WIDTH % 4).astype(np.int32)
    parts, limits = rows.copy(), constraints_of(weighted)
    parts[::7] = -1
    place_new_nodes(whole(weighted), limits._replace(most=limits.most * 2), parts)
    np.testing.assert_array_equal(parts, rows)


def test_small_graphs_are_evened_out_at_light_edges() -> None:
    """Of the path 0 - 1 = 2 - 3, node 2 would join node 3 if all edges weighed 1."""
    graph = ParhipGraph(np.array([0, 1, 3, 5, 6]), np.array([1, 0, 2, 1, 3, 2]))
    config, before = PartitionConfig(num_parts=2), np.array([0, 0, 0, 1], np.int32)
    for heavy, expected in ((1, [0, 0, 1, 1]), (9, [1, 0, 0, 1])):
        weights = np.array([1, 1, heavy, heavy, 1, 1])
        found = even_out(config, graph, np.zeros(4, np.int64), before, weights)
        assert found.tolist() == expected


@pytest.mark.parametrize("engine", [metis.ENGINE, two_level.ENGINE, auto.ENGINE], ids=lambda one: one.name)
def test_engines_cut_light_edges(engine: Engine, weighted: Problem) -> None:
    """Bands of rows cut 80 light edges; if columns are heavy, bands of columns cut 80 edges of rows."""
    turned = engine.partition(with_heavy_columns(weighted))
    assert 4 * cut(weighted, engine.partition(weighted)) < cut(weighted, turned)


def test_kahypar_gets_the_weights(weighted: Problem) -> None:
    level, turned = Tries(weighted).level, Tries(with_heavy_columns(weighted)).level
    assert cut(weighted, cut_by_kahypar(level, 0)) <= 2 * BANDS
    assert cut(weighted, cut_by_kahypar(turned, 0)) > 10 * BANDS


def test_incremental_runs_of_auto_cut_light_edges(weighted: Problem) -> None:
    homes = (np.arange(WIDTH * WIDTH) // (WIDTH * WIDTH // 4)).astype(np.int32)
    homes[::9] = -1
    for parts in auto.ENGINE.follow(weighted, PreviousAssignment(homes, None)):
        assert cut(weighted, parts) <= 2 * BANDS


def test_parmetis_refuses_weights(weighted: Problem) -> None:
    with pytest.raises(EngineError, match="without weights of edges"):
        parmetis.ENGINE.partition(weighted)
