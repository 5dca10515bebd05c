"""Engine ``auto`` on graphs that are not large: searches with rollback, tries, and limits."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.artifacts import layout
from partition_ops.cli.text_tables import quality_lines
from partition_ops.errors import EngineError
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.engines import auto, metis
from partition_ops.stages.partition.metis_library import LibraryDiedError
from partition_ops.stages.partition.multilevel import batches, improve, levels, tries
from partition_ops.stages.partition.multilevel.graph import NOTHING, Graph
from partition_ops.stages.partition.multilevel.graph import constraints_of as limits_of
from partition_ops.stages.partition.multilevel.improve import climb
from partition_ops.stages.partition.multilevel.kahypar import cut_by_kahypar
from partition_ops.stages.partition.multilevel.search import fill_up
from partition_ops.stages.partition.multilevel.tries import Tries
from partition_ops.stages.partition.multilevel.tuning import DEFAULT, RATES, TUNINGS
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.quality import report_quality
from partition_ops.storage import open_store
from partition_ops.system.json_documents import check_document
from partition_ops.system.progress import LineProgress
from tests.graphs import Edges, SmallGraph
from tests.integration.test_two_level import (
    communities,
    constraints_of,
    cut_of,
    edge_cut,
    problem,
    weighted_graphs,
)

NONE = np.zeros(0, np.int64)


@settings(max_examples=40, deadline=None)
@given(
    graph=weighted_graphs(),
    count=st.integers(2, 5),
    tolerance=st.sampled_from([1.0, 1.3]),
    balance_edges=st.booleans(),
    seed=st.integers(0, 99),
    sample=st.sampled_from([1, DEFAULT.sample]),
)
def test_searches_save_what_they_say_within_the_limits(
    graph: Graph, count: int, tolerance: float, balance_edges: bool, seed: int, sample: int
) -> None:
    random = np.random.default_rng(seed)
    classes = random.integers(0, 2, graph.num_nodes)
    degrees = random.integers(0, 9, graph.num_nodes) if balance_edges else NONE
    constraints = constraints_of(classes, degrees, count, tolerance)
    parts = random.integers(0, count, graph.num_nodes).astype(np.int32)
    constraints = constraints._replace(most=np.maximum(constraints.most, constraints.loads(parts)))
    before = cut_of(graph, parts)
    saved = climb(graph, constraints, parts, seed, tuning=replace(DEFAULT, sample=sample))  # it may end early
    assert saved >= 0
    assert cut_of(graph, parts) == before - saved
    assert (constraints.loads(parts) <= constraints.most).all()


def test_a_search_goes_through_moves_that_cut_more() -> None:
    """Two triangles with a weak tie, cut through: the first move of any node cuts as many edges or more."""
    matrix = np.zeros((8, 8), np.int64)
    for first in (0, 4):
        for one in range(first, first + 4):
            matrix[one, one + 1 : first + 4] = 1
    matrix[3, 4] = 1
    full = matrix + matrix.T
    rows, columns = np.nonzero(full)
    offsets = np.concatenate([[0], np.cumsum(np.bincount(rows, minlength=8))])
    graph = Graph(offsets, columns.astype(np.int32), full[rows, columns], np.ones(8, np.int64))
    parts = np.array([0, 0, 1, 1, 0, 0, 1, 1], np.int32)
    constraints = constraints_of(np.zeros(8, np.int64), NONE, 2, 1.25)
    climb(graph, constraints, parts, 0)
    assert cut_of(graph, parts) == 1


def test_nodes_change_places_with_those_of_full_partitions() -> None:
    """Node 9 belongs to the first partition, which is full; node 0 can make room, but is inside it."""
    edges = [(0, 1), *((one, other) for one in range(1, 5) for other in range(one + 1, 5))]
    edges += [(9, 1), (9, 2), (9, 3), (5, 9), (5, 6), (6, 7), (7, 8)]
    both = np.array(sorted([*edges, *((other, one) for one, other in edges)]))
    offsets = np.concatenate([[0], np.cumsum(np.bincount(both[:, 0], minlength=10))])
    graph = Graph(offsets, both[:, 1].astype(np.int32), NOTHING, NOTHING)
    parts = np.array([0, 0, 0, 0, 0, 1, 1, 1, 1, 1], np.int32)
    constraints = constraints_of(np.zeros(10, np.int64), NONE, 2, 1.0)
    assert climb(graph, constraints, parts, 0) == 1
    np.testing.assert_array_equal(parts, [1, 0, 0, 0, 0, 1, 1, 1, 1, 0])


def test_exchanges_need_no_arrays_beside_those_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    """They had 32 bytes for each node of a class, while the search has its arrays."""
    nodes, count = 200_000, 8
    ends = np.stack([np.arange(nodes) - 1, np.arange(nodes) + 1], axis=1) % nodes
    offsets = np.arange(0, 2 * nodes + 1, 2)
    graph = Graph(offsets, np.sort(ends, axis=1).ravel().astype(np.int32), NOTHING, NOTHING)
    parts = np.random.default_rng(0).integers(0, count, nodes).astype(np.int32)
    constraints = constraints_of(np.arange(nodes) // (nodes // 2), NONE, count, 1.0)
    constraints = constraints._replace(most=constraints.loads(parts))  # all partitions are full
    climb(graph, constraints, parts.copy(), 0)  # compiles what has not been
    peaks, exchange = [], improve._exchange

    def measured(*arguments: Any) -> int:
        tracemalloc.reset_peak()
        before = tracemalloc.get_traced_memory()[0]
        saved = exchange(*arguments)
        peaks.append(tracemalloc.get_traced_memory()[1] - before)
        return saved

    monkeypatch.setattr(improve, "_exchange", measured)
    tracemalloc.start()
    try:
        saved = climb(graph, constraints, parts, 0)
    finally:
        tracemalloc.stop()
    assert saved > 0 and max(peaks) < 12 * nodes


def test_pages_of_the_graph_are_dropped_while_its_clusters_are_cut(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = problem(communities({"a": 3000, "b": 2000}, 20), tmp_path, num_parts=3)
    order: list[str] = []
    cut = tries.cut_by_metis
    monkeypatch.setattr(tries, "drop_pages", lambda array: order.append(f"drop {len(array)}"))
    monkeypatch.setattr(tries, "cut_by_metis", lambda *a, **k: order.append("METIS") or cut(*a, **k))
    Tries(task).start(1, 32)
    assert order == [f"drop {task.graph.num_half_edges}", "METIS"]


def test_light_partitions_are_filled_up_as_far_as_the_price_allows() -> None:
    nodes = 60
    ends = np.column_stack([np.arange(nodes), (np.arange(nodes) + 1) % nodes])
    both = np.concatenate([ends, ends[:, ::-1]])
    both = both[np.lexsort((both[:, 1], both[:, 0]))]
    graph = Graph(np.arange(nodes + 1) * 2, both[:, 1].astype(np.int32), NOTHING, NOTHING)
    parts = np.repeat([0, 1, 2], [26, 26, 8]).astype(np.int32)
    constraints = constraints_of(np.zeros(nodes, np.int64), NONE, 3, 1.5)
    least = np.full(3, 18)
    filled = fill_up(graph, constraints, parts, least, 0.0)
    assert np.bincount(filled).min() == 18
    np.testing.assert_array_equal(fill_up(graph, constraints, parts, least // 3, 0.0), parts)
    cut = parts[both[:, 0]] != parts[both[:, 1]]
    assert (filled[both[:, 0]] != filled[both[:, 1]]).sum() == cut.sum()


@pytest.fixture(scope="module")
def graph() -> SmallGraph:
    return communities({"a": 900, "b": 600, "c": 60}, 60)


@pytest.mark.parametrize("balance", ["node-types", "edges"])
def test_auto_cuts_no_more_than_metis_within_the_limits(
    graph: SmallGraph, tmp_path: Path, balance: str
) -> None:
    task = problem(graph, tmp_path, num_parts=4, balance=balance)
    parts = auto.ENGINE.partition(task)
    limits = limits_of(task)
    assert (limits.loads(parts) <= limits.most).all()
    assert edge_cut(task, parts) <= edge_cut(task, metis.ENGINE.partition(task))
    assert task.notes["chosen"].startswith("best of ")


@pytest.mark.long
def test_any_number_of_cores_gives_the_same_tries(
    graph: SmallGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    task = problem(graph, tmp_path, num_parts=3, seed=2)
    expected = auto.ENGINE.partition(task)
    for module in (tries, batches):
        monkeypatch.setattr(module, "cores", lambda: 3)
    np.testing.assert_array_equal(auto.ENGINE.partition(task), expected)


def test_the_effort_says_how_many_partitions_are_made(graph: SmallGraph, tmp_path: Path) -> None:
    starts = [
        auto.number_of_starts(problem(graph, tmp_path / effort, num_parts=4, effort=effort))
        for effort in ("fast", "default", "best")
    ]
    assert starts[0] == 1 < starts[1] < starts[2]


def test_no_effort_cuts_more_than_a_lower_one(graph: SmallGraph, tmp_path: Path) -> None:
    cuts = []
    for effort in ("fast", "default", "best"):
        task = problem(graph, tmp_path / effort, num_parts=4, effort=effort)
        cuts.append(edge_cut(task, auto.ENGINE.partition(task)))
    assert cuts == sorted(cuts, reverse=True)


@given(nodes=st.integers(2, 10**8), degree=st.floats(1, 100), parts=st.integers(2, 256))
def test_the_search_stays_within_its_budget_at_every_size(nodes: int, degree: float, parts: int) -> None:
    """Beyond the first start, which every graph needs."""
    half_edges = int(nodes * degree)
    one = auto.plan_of(TUNINGS["fast"], nodes, half_edges, parts)
    assert (len(one.starts), one.rounds) == (1, 0)
    plan = auto.plan_of(DEFAULT, nodes, half_edges, parts)
    budget = DEFAULT.share * (RATES.rest[0] + RATES.rest[1] * half_edges)
    first = auto.seconds_of(one, half_edges, parts)
    assert auto.seconds_of(plan, half_edges, parts) <= max(budget, first) * (1 + 1e-9)


def test_a_graph_that_gets_one_partition_is_followed_as_a_large_one(
    graph: SmallGraph, tmp_path: Path
) -> None:
    task = problem(graph, tmp_path, replace(DEFAULT, share=0.0), num_parts=4)
    parts = auto.ENGINE.partition(task)
    assert task.notes["chosen"] == "two-level"
    limits = limits_of(task)
    assert (limits.loads(parts) <= limits.most).all()
    assert auto.ENGINE.sample(task) is None  # growth is compared as in large graphs
    assert auto.ENGINE.most_drift(task) == task.config.drift


def test_partitionings_are_shown_as_they_are_made(graph: SmallGraph, tmp_path: Path) -> None:
    lines: list[str] = []
    task = replace(problem(graph, tmp_path, num_parts=4), progress=LineProgress(lines.append, interval=1e-6))
    auto.ENGINE.partition(task)
    assert any(line.startswith("Looking for a smaller edge cut: 1 of ") for line in lines)
    assert any(line.endswith("partitionings (100 %)") for line in lines)


def test_nodes_without_neighbours_even_out_the_rest(tmp_path: Path) -> None:
    """A clique of half of the nodes stays whole, because single nodes fill the other partition."""
    clique = [(one, other) for one in range(50) for other in range(one)]
    graph = SmallGraph({"n": 100}, {"n:to:n": Edges(*map(list, zip(*clique, strict=True)))})
    task = problem(graph, tmp_path, num_parts=2, edge_tolerance="none")
    parts = auto.ENGINE.partition(task)
    assert np.bincount(parts).tolist() == [50, 50]
    assert edge_cut(task, parts) == 0


def test_a_library_that_fails_in_every_try_is_an_error(
    graph: SmallGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise EngineError("METIS failed")

    monkeypatch.setattr(levels, "cut_graph", fail)
    with pytest.raises(EngineError, match="METIS failed"):
        auto.ENGINE.partition(problem(graph, tmp_path, num_parts=4))


@pytest.fixture(scope="module")
def one_type() -> SmallGraph:
    return communities({"a": 1500}, 60)


def test_kahypar_keeps_limits_and_depends_on_the_seed_alone(one_type: SmallGraph, tmp_path: Path) -> None:
    level = tries.Tries(problem(one_type, tmp_path, num_parts=4)).level
    first, second, again = (cut_by_kahypar(level, seed) for seed in (5, 6, 5))
    assert (first != second).any()
    np.testing.assert_array_equal(first, again)
    assert level.constraints.kept_by(first)


def test_kahypar_that_fails_leaves_the_start_to_metis(
    one_type: SmallGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise EngineError("Mt-KaHyPar failed")

    monkeypatch.setattr(tries, "cut_by_kahypar", fail)
    task = problem(one_type, tmp_path, num_parts=4)
    assert edge_cut(task, auto.ENGINE.partition(task)) <= edge_cut(task, metis.ENGINE.partition(task))


def test_best_cuts_no_more_than_mt_kahypars_best_preset(one_type: SmallGraph, tmp_path: Path) -> None:
    """With one constraint: two of its partitions are among those that are combined, after the default's."""
    task = problem(one_type, tmp_path, num_parts=4, effort="best", edge_tolerance="none")
    found = edge_cut(task, auto.ENGINE.partition(task))
    made = int(task.notes["chosen"].removeprefix("best of "))
    level = tries.Tries(task).level
    others = [cut_by_kahypar(level, number, "QUALITY") for number in range(made - 2, made)]
    lower = problem(one_type, tmp_path / "default", num_parts=4, edge_tolerance="none")
    others.append(auto.ENGINE.partition(lower))
    assert found <= min(edge_cut(task, parts) for parts in others)


def test_a_combination_swaps_what_single_moves_cannot(tmp_path: Path) -> None:
    """Each of four cliques is whole in both partitions, but the pairs that belong together are apart."""
    size = 60
    cliques = [(one, other) for one in range(4 * size) for other in range(one - one % size, one)]
    bridges = [(one, one + size) for first in (0, 2) for one in range(first * size, first * size + 20)]
    ends = [*cliques, *bridges, (0, 2 * size)]
    edges = Edges(*map(list, zip(*ends, strict=True)))
    task = problem(SmallGraph({"n": 4 * size}, {"n:to:n": edges}), tmp_path, num_parts=2)
    search = tries.Tries(task)
    cells = (np.arange(4 * size) // size).astype(np.int32)
    stuck = search.cycle(cells % 2, cells, 0)
    assert edge_cut(task, stuck) == pytest.approx(40 / len(ends))
    found = search.cycle(stuck, cells, 0, metis=True)
    assert edge_cut(task, found) == pytest.approx(1 / len(ends))


@pytest.mark.parametrize(
    ("module", "library"), [(levels, "cut_graph"), (tries, "cut_by_kahypar")], ids=["METIS", "Mt-KaHyPar"]
)
def test_a_try_whose_process_was_killed_is_not_left_out(
    module: ModuleType, library: str, one_type: SmallGraph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The best of the other tries may be another partition than that of an undisturbed run."""

    def die(*_: object, **__: object) -> None:
        raise LibraryDiedError("killed")

    monkeypatch.setattr(module, library, die)
    with pytest.raises(LibraryDiedError, match="killed"):
        auto.ENGINE.partition(problem(one_type, tmp_path, num_parts=4))


def test_the_report_names_types_with_few_nodes(tmp_path: Path) -> None:
    """Of 5 venues, one of two partitions may hold 3: 1.4 times the share of 2.5, by our rule."""
    count = 200
    edges = Edges([*range(count)], [node % 5 for node in range(count)])
    graph = SmallGraph({"paper": count, "venue": 5}, {"paper:in:venue": edges})
    task = problem(graph, tmp_path, num_parts=2, engine="two-level")
    source, out = open_store(str(tmp_path / "graph")), task.artifacts
    partition_nodes(task.config, source, out)
    convert_graph(ConvertConfig(), source, out)
    report_quality(QualityConfig(), source, out)
    figures = out.read_json(layout.QUALITY_REPORT)
    check_document(figures, "quality_report", where="report")
    balance = figures["balance"]["node_types"]
    assert balance["venue"]["whole_nodes"] == 1.4
    assert "whole_nodes" not in balance["paper"]
    assert balance["venue"]["heaviest"] <= 1.4
    assert any("1.400 times its share of 'venue'" in line for line in quality_lines(figures))
