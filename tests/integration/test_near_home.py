"""Engine ``auto`` after an earlier run, on graphs that are not large: searches near the old partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partition_ops.stages.partition.incremental.near_home import search_near_home
from partition_ops.stages.partition.incremental.placement import place_and_refine
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel import tries
from partition_ops.stages.partition.multilevel.graph import Labels, constraints_of
from partition_ops.stages.partition.multilevel.tries import Candidate, Tries
from partition_ops.stages.partition.multilevel.tuning import DEFAULT
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from tests.graphs import SmallGraph
from tests.integration.test_partition_incremental import blocks, migration, partitioned
from tests.integration.test_partition_regroup import communities, prepared
from tests.integration.test_two_level import edge_cut
from tests.strategies import graphs

CONFIG = PartitionConfig(num_parts=3)
MOST_MOVED = DEFAULT.near_home.most_moved


def tuned(problem: Problem, **changes: float) -> Problem:
    return replace(problem, preset=replace(DEFAULT, near_home=replace(DEFAULT.near_home, **changes)))


@pytest.fixture(scope="module")
def mixed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Problem, PreviousAssignment]:
    """Communities, of which eight were divided between two partitions, and 30 new nodes in others."""
    graph = communities([10] * 63)
    problem = prepared(graph, tmp_path_factory.mktemp("mixed"), CONFIG)
    homes = np.repeat(np.arange(3, dtype=np.int32), 210)
    for community in range(17, 25):
        begin = 10 * community
        homes[begin : begin + 5] = 0
        homes[begin + 5 : begin + 10] = 1
    homes[::21] = -1
    return problem, PreviousAssignment(homes, None)


def test_divided_communities_are_put_together(mixed: tuple[Problem, PreviousAssignment]) -> None:
    """Single nodes gain nothing: most of the edges of each lead to its own half."""
    problem, previous = mixed
    found = search_near_home(problem, previous, 4)
    simple = next(place_and_refine(problem, previous))
    assert found is not None
    assert edge_cut(problem, found) < 0.9 * edge_cut(problem, simple)
    limits = constraints_of(problem)
    assert (limits.loads(found) <= limits.most).all()
    old = previous.homes >= 0
    assert 0 < np.count_nonzero((found != previous.homes)[old]) <= MOST_MOVED * np.count_nonzero(old)


def test_no_more_nodes_move_than_may(mixed: tuple[Problem, PreviousAssignment]) -> None:
    """Unless moving single nodes pays, or balance needs it."""
    problem, previous = mixed
    old = previous.homes >= 0
    free, simple = search_near_home(problem, previous, 4), next(place_and_refine(problem, previous))
    found = search_near_home(tuned(problem, most_moved=0.02), previous, 4)
    moved = [np.count_nonzero((parts != previous.homes)[old]) for parts in (found, free, simple)]
    assert moved[0] <= max(0.02 * np.count_nonzero(old), moved[2]) < moved[1]


@pytest.mark.parametrize("divided", [True, False])
def test_the_search_ends_early_if_it_does_not_pay(
    divided: bool, mixed: tuple[Problem, PreviousAssignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first three starts tell; and combinations end when one round found nothing better."""
    problem, previous = mixed
    if not divided:
        previous = PreviousAssignment(np.repeat(np.arange(3, dtype=np.int32), 210), None)
    works: list[int] = []
    do_all = Tries.do_all

    def counted(tries: Tries, some: list[Callable[[], Labels]]) -> list[Candidate]:
        works.append(len(some))
        return do_all(tries, some)

    monkeypatch.setattr(Tries, "do_all", counted)
    assert search_near_home(problem, previous, 12) is not None
    assert works[0] == 1 + 3
    assert works[1:2] == [6 - 3] * divided
    assert len(works) < 2 + 3


def test_results_that_moved_too_many_nodes_are_pulled_back(tmp_path: Path) -> None:
    """Thirty communities are divided between two partitions; only some of them can be put together."""
    sizes = [6] * 60 + [12] * 24
    problem = prepared(communities(sizes), tmp_path, CONFIG)
    begins = np.cumsum([0, *sizes])
    homes = (np.arange(begins[-1]) * 3 // begins[-1]).astype(np.int32)
    for community in range(10, 40):
        begin, end = begins[community : community + 2]
        homes[begin:end] = np.where(np.arange(end - begin) < (end - begin) // 2, community, community + 1) % 3
    previous = PreviousAssignment(homes, None)
    simple, found = next(place_and_refine(problem, previous)), search_near_home(problem, previous, 4)
    unpulled = search_near_home(tuned(problem, most_pulls=0), previous, 4)
    assert edge_cut(problem, found) < edge_cut(problem, unpulled)
    assert np.count_nonzero(found != homes) <= max(np.count_nonzero(simple != homes), MOST_MOVED * len(homes))


def test_the_number_of_cores_changes_nothing(
    mixed: tuple[Problem, PreviousAssignment], monkeypatch: pytest.MonkeyPatch
) -> None:
    problem, previous = mixed
    found = []
    for count in (1, 3):
        monkeypatch.setattr(tries, "cores", lambda count=count: count)
        found.append(search_near_home(problem, previous, 4))
    assert np.array_equal(*found)


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(
    graph=graphs(),
    num_parts=st.integers(1, 4),
    balance=st.sampled_from(["node-types", "edges", "none"]),
    seed=st.integers(0, 99),
)
def test_any_partition_may_be_followed(
    graph: SmallGraph, num_parts: int, balance: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """What comes is balanced, and old nodes without neighbours stay where they are."""
    config = PartitionConfig(num_parts=num_parts, balance=balance)
    problem = prepared(graph, tmp_path_factory.mktemp("graph"), config)
    nodes = problem.metadata.node_offsets[-1]
    homes = np.random.default_rng(seed).integers(-1, num_parts, nodes).astype(np.int32)
    found = search_near_home(problem, PreviousAssignment(homes, None), 2)
    if found is None:
        return
    limits = constraints_of(problem)
    assert (limits.loads(found) <= limits.most).all()
    alone = (np.diff(problem.graph.offsets) == 0) & (homes >= 0)
    assert np.array_equal(found[alone], homes[alone])


def test_a_sample_shows_that_a_larger_cut_is_not_a_drift(tmp_path: Path) -> None:
    """Four times the edges between communities are cut, whatever the partition is."""
    before, _ = partitioned(blocks(300), tmp_path / "before")
    after, counters = partitioned(blocks(300, across=4), tmp_path / "after", before)
    cuts = migration(after)["edge_cut"]
    assert counters["mode"] == "incremental"
    assert "that of another partition of this graph" in counters["reason"]
    assert cuts["now"] > 2 * cuts["before"]
    assert cuts["full"] is None  # there was no full run
    assert cuts["now"] <= 1.05 * cuts["last_full"]  # of the sample, for later runs


def test_a_full_run_must_pay_off(tmp_path: Path) -> None:
    """It moves many nodes, so it follows only if the cut exceeds the drift several times."""
    before, _ = partitioned(blocks(300), tmp_path / "before")
    after, counters = partitioned(blocks(300, across=4), tmp_path / "after", before, drift=2.0)
    cuts = migration(after)["edge_cut"]
    assert counters["mode"] == "incremental"
    assert cuts["now"] > 2 * cuts["last_full"] > 0
    assert "a full run follows above 4.000 times" in counters["reason"]
    assert cuts["last_full"] == cuts["before"]  # later runs are compared with it too
