"""The assignments of engines, some of which work in a process of their own."""

# ruff: noqa: F811 (fixtures of a unit test are imported, and are arguments here)

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import open_parhip
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.partition.engines import engine_names
from partition_ops.stages.partition.multilevel.graph import constraints_of
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import Store, open_store
from tests.graphs import Edges, SmallGraph
from tests.unit.stages.partition.test_partition import assigned, imbalances, stores  # noqa: F401


@pytest.mark.long
@pytest.mark.parametrize("engine", [name for name in engine_names() if name != "parmetis"])  # needs mpirun
@pytest.mark.parametrize("num_parts", [1, 2, 5])
def test_the_same_seed_gives_the_same_assignment(
    stores: tuple[Store, Store], engine: str, num_parts: int
) -> None:
    config = PartitionConfig(num_parts=num_parts, engine=engine, seed=3)
    first = assigned(stores, config)
    assert set(first.tolist()) == set(range(num_parts))
    stores[1].delete([layout.record("partition")])  # so that it is done again
    np.testing.assert_array_equal(first, assigned(stores, config))
    if num_parts > 1:
        other = PartitionConfig(num_parts=num_parts, engine=engine, seed=4)
        assert (first != assigned(stores, other)).any()


@pytest.mark.parametrize("num_parts", [4, 8])
def test_metis_lowers_the_communication_volume_when_asked_to(
    stores: tuple[Store, Store], num_parts: int
) -> None:
    """Copies of nodes that other partitions need: seen 4 to 10 % fewer, at the price of more cut edges."""
    graph = open_parhip(stores[1].local_copy(layout.PREPARED_GRAPH))
    ends = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
    volumes, cuts = [], []
    for objective in ("cut", "vol"):
        config = PartitionConfig(num_parts=num_parts, engine="metis", objective=objective)
        parts = assigned(stores, config)
        cut = parts[ends] != parts[graph.neighbours]
        volumes.append(len(np.unique(ends[cut] * num_parts + parts[graph.neighbours][cut])))
        cuts.append(int(cut.sum()))
    assert volumes[1] < 0.99 * volumes[0]
    assert cuts[0] < cuts[1]


@pytest.mark.parametrize("balance", ["node-types", "edges", "none"])
def test_metis_balances_what_it_is_asked_to(stores: tuple[Store, Store], balance: str) -> None:
    config = PartitionConfig(num_parts=2, engine="metis", balance=balance, edge_tolerance="none")
    parts = assigned(stores, config)
    weights = constraints_of(Problem(config, load_metadata(stores[0]), stores[1])).columns()
    weights = weights[:, weights.any(axis=0)]
    # five venues cannot be halved, and must not spoil the balance of the rest
    divisible = weights.max(axis=0) * 2 / weights.sum(axis=0) < 0.03
    assert divisible.sum() >= weights.shape[1] // 2
    assert imbalances(weights, parts, 2)[divisible].max() < 1.06


def test_metis_cuts_less_than_chance(tmp_path: Path) -> None:
    """Two rings of 500 nodes, joined by one edge: there is one good cut."""
    ring = [*range(500), *range(500, 1000), 0]
    following = [*range(1, 500), 0, *range(501, 1000), 500, 500]
    graph = SmallGraph({"a": 1000}, {"a:r:a": Edges(ring, following)})
    source, destination = open_store(str(graph.write(tmp_path / "g"))), open_store(str(tmp_path / "o"))
    prepare_graph(PrepareConfig(), source, destination)
    parts = assigned((source, destination), PartitionConfig(num_parts=2))
    cut = sum(parts[a] != parts[b] for a, b in zip(ring, following, strict=True))
    assert cut <= 4
