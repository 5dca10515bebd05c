"""Following a graph whose new nodes come in whole communities: clusters move, and not single nodes."""

from __future__ import annotations

import re
from dataclasses import replace
from itertools import accumulate
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partition_ops.artifacts.graph_counts import node_counts_of_graph, spread_old_values
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.partition.engines.two_level import ENGINE
from partition_ops.stages.partition.incremental.near_home import regroup
from partition_ops.stages.partition.incremental.placement import place_and_refine
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.graph import Graph, constraints_of, edge_cut
from partition_ops.stages.partition.multilevel.tuning import DEFAULT
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from tests.graphs import Edges, SmallGraph
from tests.integration.test_partition_incremental import blocks, migration, partitioned, parts_of
from tests.strategies import graphs

SIZES = [10] * 96
LARGER = [*SIZES, 50, 50]  # none of three nearly full partitions has room for 50 more nodes


def communities(sizes: list[int]) -> SmallGraph:
    """Communities one after the other, each a ring with four more edges a node, and tied to earlier ones."""
    begins = list(accumulate(sizes, initial=0))
    src, dst = [], []
    for number, size in enumerate(sizes):
        rng, nodes = np.random.default_rng(number), begins[number] + np.arange(size)
        src += [nodes, np.repeat(nodes, 4), nodes[:4]]
        dst += [np.roll(nodes, 1), rng.choice(nodes, 4 * size), rng.integers(0, nodes[0] + 1, 4)]
    ends = np.unique(np.concatenate([np.stack(pair) for pair in zip(src, dst, strict=True)], axis=1), axis=1)
    ends = ends[:, ends[0] != ends[1]]
    return SmallGraph({"n": begins[-1]}, {"n:r:n": Edges(*ends.tolist())})


def prepared(graph: SmallGraph, folder: Path, config: PartitionConfig) -> Problem:
    source, run = open_store(str(graph.write(folder / "in"))), open_store(str(folder / "out"))
    prepare_graph(PrepareConfig(), source, run)
    return Problem(config, load_metadata(source), run, source)


def grown_problem(folder: Path, config: PartitionConfig) -> tuple[Problem, PreviousAssignment]:
    """Return a graph with more communities, and the old partitions of the earlier ones."""
    before, after = (
        prepared(communities(sizes), folder / name, config)
        for sizes, name in ((SIZES, "before"), (LARGER, "after"))
    )
    counts = [node_counts_of_graph(problem.metadata) for problem in (before, after)]
    return after, PreviousAssignment(spread_old_values(*counts, ENGINE.partition(before), -1), None)


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(
    graph=graphs(),
    num_parts=st.integers(1, 4),
    balance=st.sampled_from(["node-types", "edges", "none"]),
    seed=st.integers(0, 99),
)
def test_any_partitions_may_be_regrouped(
    graph: SmallGraph, num_parts: int, balance: str, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever comes is balanced, and the same with any number of threads."""
    config = PartitionConfig(num_parts=num_parts, balance=balance)
    tuning = replace(DEFAULT, regroup=replace(DEFAULT.regroup, fewest=0))
    problem = replace(prepared(graph, tmp_path_factory.mktemp("graph"), config), preset=tuning)
    homes = np.random.default_rng(seed).integers(-1, num_parts, problem.metadata.node_offsets[-1])
    old, constraints = PreviousAssignment(homes.astype(np.int32), None), constraints_of(problem)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("partition_ops.stages.partition.multilevel.batches.cores", lambda: 1)
        found = list(regroup(problem, old))
        patch.setattr("partition_ops.stages.partition.multilevel.batches.cores", lambda: 3)
        again = list(regroup(problem, old))
    assert len(found) <= len(tuning.regroup_prices)
    for parts, same in zip(found, again, strict=True):
        assert (constraints.loads(parts) <= constraints.most).all()
        assert parts.min() >= 0
        np.testing.assert_array_equal(parts, same)


def test_new_communities_stay_whole_where_old_ones_can_make_room(tmp_path: Path) -> None:
    config = PartitionConfig(num_parts=3)
    problem, old = grown_problem(tmp_path, config)
    nodes, whole = next(place_and_refine(problem, old)), next(regroup(problem, old))
    assert nodes is not None
    cuts = [edge_cut(Graph.of_input(problem.graph), parts).pairs for parts in (nodes, whole)]
    assert cuts[1] < 0.9 * cuts[0]
    for begin in (960, 1010):
        assert np.bincount(whole[begin : begin + 50]).max() >= 48
    assert np.count_nonzero(whole[:960] != old.homes[:960]) <= 60


def test_a_lower_price_moves_more_old_nodes_and_cuts_fewer_edges(tmp_path: Path) -> None:
    config = PartitionConfig(num_parts=3, migration_price=1000)
    problem, old = grown_problem(tmp_path, config)
    dear, free = regroup(replace(problem, preset=replace(DEFAULT, regroup_prices=(1.0, 0.0))), old)
    moved = [np.count_nonzero(parts[:960] != old.homes[:960]) for parts in (dear, free)]
    cuts = [edge_cut(Graph.of_input(problem.graph), parts).pairs for parts in (dear, free)]
    assert moved[0] < moved[1]
    assert cuts[0] > cuts[1]


def test_communities_that_come_need_no_full_run(tmp_path: Path) -> None:
    before, _ = partitioned(communities(SIZES), tmp_path / "before", engine="two-level")
    after, counters = partitioned(communities(LARGER), tmp_path / "after", before, engine="two-level")
    found = migration(after)
    assert found["mode"] == "incremental"
    assert counters["moved"] <= 60
    assert found["imbalance"]["now"]["n"] <= 1.05
    assert found["edge_cut"]["now"] <= 1.05 * found["edge_cut"]["last_full"]
    assert found["edge_cut"]["full"] is None
    parts = parts_of(after, communities(LARGER))["n"]
    assert all(np.bincount(parts[begin : begin + 50]).max() >= 48 for begin in (960, 1010))


def test_a_full_run_that_is_hardly_better_is_not_taken(tmp_path: Path) -> None:
    """If every partition cuts more than before, moving nodes gains nothing."""
    before, _ = partitioned(blocks(600), tmp_path / "before", engine="two-level")
    after, counters = partitioned(blocks(600, across=6), tmp_path / "after", before, engine="two-level")
    found = migration(after)
    assert found["mode"] == "incremental"
    assert re.search(
        r"times that of the last full run, but [01]\.\d+ times that of a full run", found["reason"]
    )
    assert counters["moved"] <= 30
    cuts = found["edge_cut"]
    assert cuts["now"] <= 1.05 * cuts["full"]
    assert cuts["last_full"] == cuts["full"] > 2 * cuts["before"]
