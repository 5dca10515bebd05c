"""Engine ``two-level``: each of its steps against NumPy, and the whole on graphs with a known cut."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.partition.engine import Engine
from partition_ops.stages.partition.engines import auto, metis, two_level
from partition_ops.stages.partition.multilevel import batches, cluster, improve
from partition_ops.stages.partition.multilevel.cluster import find_clusters
from partition_ops.stages.partition.multilevel.graph import NOTHING, Constraints, Graph, Labels
from partition_ops.stages.partition.multilevel.graph import constraints_of as limits_of
from partition_ops.stages.partition.multilevel.graph import edge_cut as counted_cut
from partition_ops.stages.partition.multilevel.refine import State, refine
from partition_ops.stages.partition.multilevel.search import border_of
from partition_ops.stages.partition.multilevel.tuning import TUNINGS, Tuning
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.partition.problem import Problem
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from tests.graphs import Edges, SmallGraph

SMALL = settings(max_examples=60)


def symmetric(matrix: np.ndarray) -> Graph:
    """The graph of an upper triangle of edge weights."""
    full = np.triu(matrix, 1)
    full = full + full.T
    rows, columns = np.nonzero(full)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=len(full)))])
    return Graph(offsets, columns.astype(np.int32), full[rows, columns], np.ones(len(full), np.int64))


def dense(graph: Graph) -> np.ndarray:
    rows = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
    matrix = np.zeros((graph.num_nodes, graph.num_nodes), np.int64)
    matrix[rows, graph.neighbours] = graph.edge_weights
    return matrix


def cut_of(graph: Graph, parts: np.ndarray) -> int:
    return int(dense(graph)[parts[:, None] != parts[None, :]].sum()) // 2


@st.composite
def weighted_graphs(draw: st.DrawFn) -> Graph:
    nodes = draw(st.integers(2, 60))
    rng = np.random.default_rng(draw(st.integers(0, 10_000)))
    return symmetric(
        rng.integers(0, draw(st.sampled_from([2, 5])), (nodes, nodes)) * (rng.random((nodes,) * 2) < 0.2)
    )


def constraints_of(classes: np.ndarray, degrees: np.ndarray, parts: int, tolerance: float) -> Constraints:
    count = int(classes.max()) + 1
    sums = np.bincount(classes, minlength=count)
    if len(degrees):
        sums = np.concatenate([sums, np.bincount(classes, weights=degrees, minlength=count).astype(np.int64)])
    most = np.ceil(np.tile(sums / parts * tolerance, (parts, 1))).astype(np.int64)
    columns = np.arange(count, 2 * count, dtype=np.int32)
    return Constraints(classes.astype(np.int32), degrees, columns, np.zeros((0, len(sums)), np.int64), most)


@SMALL
@given(graph=weighted_graphs(), most=st.integers(1, 20), seed=st.integers(0, 5))
def test_clusters_are_no_larger_than_they_may_be(graph: Graph, most: int, seed: int) -> None:
    labels = find_clusters(graph, most, seed)
    assert np.bincount(labels).max() <= most
    np.testing.assert_array_equal(labels, find_clusters(graph, most, seed))


@SMALL
@given(graph=weighted_graphs(), homes=st.integers(1, 4), seed=st.integers(0, 5))
def test_clusters_keep_to_one_home(graph: Graph, homes: int, seed: int) -> None:
    theirs = np.random.default_rng(seed).integers(-1, homes, graph.num_nodes).astype(np.int32)
    labels = find_clusters(graph, 20, seed, theirs)
    assert all(len(np.unique(theirs[labels == label])) == 1 for label in np.unique(labels))


@given(data=st.data(), labels=st.integers(1, 30), most=st.integers(0, 6), salt=st.integers(0, 1 << 40))
def test_the_heaviest_label_with_room_is_proposed(
    data: st.DataObject, labels: int, most: int, salt: int
) -> None:
    """However many heavier clusters are full, and whichever label is the node's own."""
    numbers = st.lists(st.integers(1, 6), min_size=labels, max_size=labels)
    sums, sizes = np.array(data.draw(numbers)), np.array(data.draw(numbers), np.int32)
    homes = np.array(data.draw(st.one_of(st.just([]), numbers)), np.int32) // 4
    own = data.draw(st.integers(0, labels - 1))
    table = np.array([np.arange(labels) + 1, sums, np.arange(labels)])
    found = cluster._best_label(own, sums[own], np.uint64(labels), table, homes, sizes, most, salt)
    better = [
        (int(sums[label]), int(cluster._mix(label, salt)), label)
        for label in range(labels)
        if sums[label] > sums[own] and sizes[label] <= most and (not len(homes) or homes[label] == homes[own])
    ]
    assert found == max(better, default=(0, 0, own))[2]


@SMALL
@given(graph=weighted_graphs(), seed=st.integers(0, 99))
def test_contraction_adds_up_what_lies_between_clusters(graph: Graph, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, graph.num_nodes, graph.num_nodes).astype(np.int32)
    smaller, numbers = cluster.contract(graph, labels)
    member = np.arange(smaller.num_nodes)[:, None] == numbers[None, :]
    expected = member.astype(np.int64) @ dense(graph) @ member.T
    np.fill_diagonal(expected, 0)
    np.testing.assert_array_equal(dense(smaller), expected)
    np.testing.assert_array_equal(smaller.node_weights, member.sum(axis=1))
    same = labels[:, None] == labels[None, :]
    np.testing.assert_array_equal(same, numbers[:, None] == numbers[None, :])


@SMALL
@given(graph=weighted_graphs(), seed=st.integers(0, 99))
def test_contraction_in_many_pieces_is_the_same(graph: Graph, seed: int) -> None:
    labels = np.random.default_rng(seed).integers(0, graph.num_nodes, graph.num_nodes).astype(np.int32)
    whole, _ = cluster.contract(graph, labels)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cluster, "ENTRIES_AT_ONCE", 3)
        pieces, _ = cluster.contract(graph, labels)
    np.testing.assert_array_equal(dense(whole), dense(pieces))


@pytest.mark.long
@SMALL
@given(
    graph=weighted_graphs(),
    parts=st.integers(2, 5),
    types=st.integers(1, 3),
    by_degree=st.booleans(),
    seed=st.integers(0, 99),
)
def test_refinement_keeps_the_constraints_and_cuts_no_more(
    graph: Graph, parts: int, types: int, by_degree: bool, seed: int
) -> None:
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, types, graph.num_nodes)
    degrees = np.diff(graph.offsets) if by_degree else NOTHING
    given_parts = rng.integers(0, parts, graph.num_nodes).astype(np.int32)
    constraints = constraints_of(classes, degrees, parts, 1.1)
    loads = constraints.loads(given_parts)
    constraints = constraints._replace(most=np.maximum(constraints.most, loads))  # so that it holds at first
    refined = given_parts.copy()
    refine(graph, constraints, refined)
    assert cut_of(graph, refined) <= cut_of(graph, given_parts)
    assert (constraints.loads(refined) <= constraints.most).all()


@pytest.mark.long
@SMALL
@given(graph=weighted_graphs(), parts=st.integers(2, 5), types=st.integers(1, 3), seed=st.integers(0, 99))
def test_refinement_balances_what_was_not(graph: Graph, parts: int, types: int, seed: int) -> None:
    classes = np.random.default_rng(seed).integers(0, types, graph.num_nodes)
    constraints = constraints_of(classes, NOTHING, parts, 1.0)
    refined = np.zeros(graph.num_nodes, np.int32)
    refine(graph, constraints, refined)
    assert (constraints.loads(refined) <= constraints.most).all()


@SMALL
@given(graph=weighted_graphs(), seed=st.integers(0, 99), by_degree=st.booleans())
def test_the_loads_of_a_contracted_graph_are_those_of_its_nodes(
    graph: Graph, seed: int, by_degree: bool
) -> None:
    rng = np.random.default_rng(seed)
    degrees = np.diff(graph.offsets) if by_degree else NOTHING
    fine = constraints_of(rng.integers(0, 3, graph.num_nodes), degrees, 3, 1.1)
    smaller, numbers = cluster.contract(
        graph, rng.integers(0, 8, graph.num_nodes).astype(np.int32) % graph.num_nodes
    )
    coarse = fine.contracted(numbers, smaller.num_nodes)
    parts = rng.integers(0, 3, smaller.num_nodes).astype(np.int32)
    np.testing.assert_array_equal(coarse.loads(parts), fine.loads(parts[numbers]))
    again = coarse.contracted(np.zeros(smaller.num_nodes, np.int32), 1)
    np.testing.assert_array_equal(
        again.weights[0], fine.loads(np.zeros(graph.num_nodes, np.int32)).sum(axis=0)
    )


def communities(types: dict[str, int], count: int, seed: int = 0) -> SmallGraph:
    """Nodes of every type in communities; nine of ten edges stay inside."""
    rng = np.random.default_rng(seed)
    edges = {}
    names = list(types)
    for src, dst in zip(names, names[1:] + names[:1], strict=True):
        size = 12 * types[src]
        ends = rng.integers(0, types[src], size)
        other = rng.integers(0, types[dst] // count, size) * count + ends % count
        out = rng.random(size) < 0.1
        other[out] = rng.integers(0, types[dst], out.sum())
        pairs = np.unique(np.stack([ends, other], axis=1)[ends != other], axis=0)
        edges[f"{src}:to:{dst}"] = Edges(pairs[:, 0].tolist(), pairs[:, 1].tolist())
    return SmallGraph(types, edges)


def grid(width: int) -> SmallGraph:
    ids = np.arange(width * width).reshape(width, width)
    src = np.concatenate([ids[:, :-1].ravel(), ids[:-1].ravel()])
    dst = np.concatenate([ids[:, 1:].ravel(), ids[1:].ravel()])
    return SmallGraph({"a": width * width}, {"a:next:a": Edges(src.tolist(), dst.tolist())})


def problem(graph: SmallGraph, folder: Path, preset: Tuning | None = None, **options: object) -> Problem:
    source, destination = open_store(str(graph.write(folder / "graph"))), open_store(str(folder / "out"))
    prepare_graph(PrepareConfig(), source, destination)
    config = PartitionConfig(**options)  # type: ignore[arg-type]
    return Problem(config, load_metadata(source), destination, source, preset=preset)


def edge_cut(task: Problem, parts: np.ndarray) -> float:
    rows = np.repeat(np.arange(task.graph.num_nodes), np.diff(task.graph.offsets))
    return float((parts[rows] != parts[task.graph.neighbours]).mean())


def loads_of(task: Problem, parts: np.ndarray) -> np.ndarray:
    """What each partition holds of all that is to be balanced evenly."""
    even = replace(task, config=replace(task.config, edge_tolerance="none"))
    found = limits_of(even).loads(parts)
    return found[:, found.any(axis=0)]


def imbalance(task: Problem, parts: np.ndarray) -> float:
    per_part = loads_of(task, parts)
    return float((per_part.max(axis=0) * task.num_parts / per_part.sum(axis=0)).max())


@pytest.mark.parametrize("count", [2, 256, 300])
def test_cut_pairs_are_counted(tmp_path: Path, count: int) -> None:
    rng = np.random.default_rng(count)
    src, dst = rng.integers(0, 400, (2, 1000)).tolist()
    task = problem(
        SmallGraph({"a": 500}, {"a:r:a": Edges(src, dst)}), tmp_path, num_parts=count
    )  # 100 nodes without edges
    parts = rng.integers(0, count, 500).astype(np.int32)
    pairs = {(min(a, b), max(a, b)) for a, b in zip(src, dst, strict=True) if a != b}
    found = counted_cut(Graph.of_input(task.graph), parts)
    assert found.of == len(pairs)
    assert found.pairs == sum(parts[a] != parts[b] for a, b in pairs)


def small_levels(effort: str = "default", **changes: Any) -> Tuning:
    """Graphs of a few thousand nodes go through clusters, and those through clusters again."""
    return replace(TUNINGS[effort], few_nodes=100, most_half_edges=2000, **changes)


SMALL_LEVELS = small_levels()
TYPES = {"a": 3000, "b": 1200, "c": 600}


@pytest.mark.parametrize("balance", ["node-types", "edges", "none"])
@pytest.mark.parametrize("num_parts", [2, 4])
def test_communities_are_found_and_all_is_balanced(tmp_path: Path, balance: str, num_parts: int) -> None:
    task = problem(communities(TYPES, 60), tmp_path, SMALL_LEVELS, num_parts=num_parts, balance=balance)
    parts = two_level.ENGINE.partition(task)
    assert imbalance(task, parts) < 1.06
    # a tenth of the edges leave their community, and most of these their partition
    assert edge_cut(task, parts) < 0.11
    assert edge_cut(task, parts) <= 1.02 * edge_cut(task, metis.ENGINE.partition(task))


@pytest.mark.parametrize(
    ("clustered", "engine", "chosen"),
    [(1.0, two_level.ENGINE, "two-level with Mt-KaHyPar"), (0.0, metis.ENGINE, "Mt-KaHyPar")],
)
def test_one_partitioning_of_auto_is_searched_further(
    tmp_path: Path, clustered: float, engine: Engine, chosen: str
) -> None:
    task = problem(grid(60), tmp_path, small_levels("fast", clustered=clustered), num_parts=5)
    without, parts = engine.partition(task), auto.ENGINE.partition(task)
    assert task.notes["chosen"] == chosen
    assert edge_cut(task, parts) < edge_cut(task, without)
    assert imbalance(task, parts) <= 1.03


def test_a_graph_with_too_many_sums_is_searched_in_its_clusters_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = problem(communities(TYPES, 60), tmp_path, num_parts=6)
    nodes = task.graph.num_nodes
    task = replace(task, preset=replace(TUNINGS["default"], most_sums=6 * nodes - 1))
    searched: list[int] = []

    def counted(state: State, *rest: Any) -> Labels:
        searched.append(state.graph.num_nodes)
        return border_of(state, *rest)

    monkeypatch.setattr(improve, "border_of", counted)
    assert (np.bincount(auto.ENGINE.partition(task)) > 0).all()
    assert task.notes["chosen"] == "two-level"
    assert 0 < max(searched) < nodes


def test_shares_a_seed_and_trainers_are_kept(tmp_path: Path) -> None:
    graph = communities(TYPES, 60)
    options = {"num_parts": 2, "target_shares": (3.0, 1.0), "num_trainers_per_machine": 2, "seed": 5}
    task = problem(graph, tmp_path, SMALL_LEVELS, **options)
    parts = two_level.ENGINE.partition(task)
    sizes = loads_of(task, parts)
    expected = np.repeat([[0.375], [0.125]], 2, axis=0) * np.ones(3)
    assert (sizes / sizes.sum(axis=0) <= 1.035 * expected).all()
    np.testing.assert_array_equal(parts, two_level.ENGINE.partition(task))


@pytest.mark.parametrize("threads", [1, 3])
def test_any_number_of_threads_gives_the_same(
    tmp_path: Path, threads: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = problem(communities(TYPES, 60), tmp_path, SMALL_LEVELS, num_parts=3)
    expected = two_level.ENGINE.partition(task)
    monkeypatch.setattr(batches, "cores", lambda: threads)
    np.testing.assert_array_equal(two_level.ENGINE.partition(task), expected)


@pytest.mark.parametrize("engine", [two_level.ENGINE, metis.ENGINE])
def test_neighbours_of_32_bits_give_the_same(
    tmp_path: Path, engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = communities({"a": 600, "b": 300}, 12)
    wide = engine.partition(problem(graph, tmp_path / "wide", SMALL_LEVELS, num_parts=4))
    monkeypatch.setattr("partition_ops.artifacts.parhip.MOST_WIDE_EDGES", 0)
    task = problem(graph, tmp_path / "narrow", SMALL_LEVELS, num_parts=4)
    assert task.graph.neighbours.dtype == np.int32
    np.testing.assert_array_equal(engine.partition(task), wide)


def test_auto_says_what_it_chose(tmp_path: Path) -> None:
    """Communities are for two-level, a grid is for Mt-KaHyPar, and the communication volume for METIS."""
    chosen = {}
    for name, graph, options in (
        ("communities", communities(TYPES, 60), {}),
        ("grid", grid(60), {}),
        ("volume", communities(TYPES, 60), {"objective": "vol"}),
    ):
        task = problem(graph, tmp_path / name, small_levels("fast"), num_parts=4, **options)
        auto.ENGINE.partition(task)
        chosen[name] = task.notes["chosen"]
    assert chosen == {"communities": "two-level", "grid": "Mt-KaHyPar", "volume": "metis"}


def test_on_a_grid_auto_cuts_no_more_than_metis(tmp_path: Path) -> None:
    task = problem(grid(80), tmp_path, SMALL_LEVELS, num_parts=4)
    assert edge_cut(task, auto.ENGINE.partition(task)) <= edge_cut(task, metis.ENGINE.partition(task))


def test_what_auto_chose_is_in_the_result(tmp_path: Path) -> None:
    task = problem(communities(TYPES, 60), tmp_path, num_parts=2, engine="auto")
    result = partition_nodes(task.config, task.source, task.artifacts)  # type: ignore[arg-type]
    assert result.counters["chosen"] == "best of 6"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("num_parts", [4, 20])
def test_a_graph_whose_clusters_have_no_edges_between_them(tmp_path: Path, num_parts: int) -> None:
    """Stars, each of which becomes a cluster: what is left to METIS has weights and no edges."""
    hubs = np.arange(2500) * 10
    leaves = (hubs[:, None] + np.arange(1, 10)).ravel()
    stars = SmallGraph({"a": 25_000}, {"a:to:a": Edges(leaves.tolist(), np.repeat(hubs, 9).tolist())})
    task = problem(stars, tmp_path, num_parts=num_parts)
    parts = two_level.ENGINE.partition(task)
    assert edge_cut(task, parts) == 0
    assert imbalance(task, parts) < 1.05
