"""The stage ``partition`` after an earlier run: nodes that stay or move, and when it is a full run."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from itertools import permutations
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from partition_ops.artifacts import layout
from partition_ops.artifacts.graph_counts import node_counts_of_graph, spread_old_values
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.partition.incremental.previous_run import PreviousRun
from partition_ops.stages.partition.incremental.repartition import renumber
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.stages.schema.schema import write_schema
from partition_ops.storage import Store, open_store
from partition_ops.storage.store import sha256_of
from tests.graphs import Edges, SmallGraph, library
from tests.growth import grown
from tests.strategies import graphs

ENGINES = ("auto", "metis", "random", "two-level")
MANY = settings(max_examples=15, suppress_health_check=list(HealthCheck))


def partitioned(
    graph: SmallGraph, folder: Path, previous: Store | None = None, **options: Any
) -> tuple[Store, dict[str, Any]]:
    """A run as far as its assignment, with as much behind it as is read; and the figures of the stage."""
    source, run = open_store(str(graph.write(folder / "in"))), open_store(str(folder / "out"))
    write_schema(SchemaConfig(), source, run)
    prepare_graph(PrepareConfig(), source, run)
    config = PartitionConfig(**{"num_parts": 3, **options})
    result = partition_nodes(config, source, run, previous=previous)
    run.write_json(layout.QUALITY_REPORT, {"edge_cut": {"fraction": 0.5}})
    written = [
        {"key": entry.key, "size": entry.size, "sha256": sha256_of(run.local_copy(entry.key))}
        for entry in run.list()
        if not entry.key.startswith("records/")
    ]
    manifest = {"version": 1, "options": {}, "versions": {}, "artifacts": written}
    files = [{"path": "metadata.json", "size": 1, "sha256": "0" * 64}]
    run.write_json(
        layout.MANIFEST,
        {**manifest, "graph_name": graph.name, "input": {"uri": source.uri, "files": files}},
    )
    return run, result.counters


def migration(run: Store) -> dict[str, Any]:
    found: dict[str, Any] = run.read_json("assignment/migration.json")
    return found


def parts_of(run: Store, graph: SmallGraph) -> dict[str, np.ndarray]:
    return {name: np.load(run.local_copy(f"assignment/{name}.npy")) for name in graph.nodes}


def blocks(nodes: int, *, inside: int = 12, across: int = 1, seed: int = 0) -> SmallGraph:
    """Three communities of a type: node i is of community i % 3, and edges are mostly inside."""
    rng = np.random.default_rng(seed)
    src = rng.integers(0, nodes, nodes * (inside + across))
    dst = rng.integers(0, nodes // 3, len(src)) * 3 + src % 3
    other = rng.random(len(src)) < across / (inside + across)
    dst = np.where(other, rng.integers(0, nodes, len(src)), dst).clip(max=nodes - 1)
    return SmallGraph({"n": nodes}, {"n:r:n": Edges(src[src != dst].tolist(), dst[src != dst].tolist())})


@MANY
@given(
    graph=graphs(),
    engine=st.sampled_from(ENGINES),
    num_parts=st.integers(1, 4),
    share=st.sampled_from([0.0, 0.3, 2.0]),
    seed=st.integers(0, 99),
    price=st.sampled_from([0, 1, 1000]),
    balance=st.sampled_from(["node-types", "edges", "none"]),
)
def test_any_graph_may_grow(
    graph: SmallGraph,
    engine: str,
    num_parts: int,
    share: float,
    seed: int,
    price: int,
    balance: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    """Every node has a partition, what is reported has happened, and a high price keeps old nodes."""
    if engine == "random":
        balance = "node-types"
    folder = tmp_path_factory.mktemp("growth")
    options = {"num_parts": graph.parts(num_parts), "engine": engine, "balance": balance}
    before, _ = partitioned(graph, folder / "before", **options)
    larger = grown(graph, share=share, seed=seed)
    after, counters = partitioned(larger, folder / "after", before, migration_price=price, **options)
    found, old = migration(after), parts_of(before, graph)
    assert counters["mode"] == found["mode"]
    for name, parts in parts_of(after, larger).items():
        assert len(parts) == larger.nodes[name]
        assert not len(parts) or 0 <= parts.min() <= parts.max() < num_parts
        moved = int(np.count_nonzero(parts[: len(old[name])] != old[name]))
        assert found["node_types"][name]["moved"] == moved
        assert found["node_types"][name]["new"] == len(parts) - len(old[name])
    if share == 0.0 and price == 1000 and found["mode"] == "incremental" and engine in ("auto", "random"):
        assert counters["moved"] == 0


@pytest.mark.parametrize("engine", ENGINES)
def test_old_nodes_stay_and_new_ones_go_to_their_neighbours(engine: str, tmp_path: Path) -> None:
    before, _ = partitioned(blocks(300), tmp_path / "before", engine=engine)
    larger = blocks(300)
    new = range(300, 330)  # each tied to three nodes of one community
    ends = [(node, other) for node in new for other in (node % 3, 30 + node % 3, 60 + node % 3)]
    edges = larger.edges["n:r:n"]
    src, dst = [*edges.src, *(a for a, _ in ends)], [*edges.dst, *(b for _, b in ends)]
    larger = replace(larger, nodes={"n": 330}, edges={"n:r:n": Edges(src, dst)})
    after, counters = partitioned(larger, tmp_path / "after", before, engine=engine, compare_full=True)
    assert counters["mode"] == "incremental"
    assert (counters["moved"], counters["new"]) == (0, 30)
    found = migration(after)
    assert found["imbalance"]["now"]["n"] <= 1.05
    if engine == "random":
        assert found["edge_cut"]["now"] is None
        return
    parts = parts_of(after, larger)["n"]
    assert (parts[300:] == parts[np.arange(300, 330) % 3]).mean() > 0.9
    cuts = found["edge_cut"]
    assert cuts["now"] <= 1.03 * cuts["full"]
    assert cuts["before"] == cuts["last_full"]


def test_growth_in_one_place_is_balanced_by_moving_old_nodes(tmp_path: Path) -> None:
    before, _ = partitioned(blocks(300), tmp_path / "before")
    larger = grown(blocks(300), share=0.0)
    edges = larger.edges["n:r:n"]  # 90 new nodes, all of one community
    src = [*edges.src, *range(300, 390), *range(300, 390)]
    dst = [*edges.dst, *(3 * (node % 90) for node in range(180))]
    larger = replace(larger, nodes={"n": 390}, edges={"n:r:n": Edges(src, dst)})
    after, counters = partitioned(larger, tmp_path / "after", before, drift=100.0)
    assert counters["mode"] == "incremental"
    assert migration(after)["imbalance"]["now"]["n"] <= 1.05
    assert np.bincount(parts_of(after, larger)["n"]).min() > 115


def test_any_number_of_threads_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = library(papers=600)
    before, _ = partitioned(graph, tmp_path / "before")
    larger = grown(graph, share=0.2)
    found = []
    for threads in (1, 2, 5):
        monkeypatch.setattr(
            "partition_ops.stages.partition.multilevel.batches.cores", lambda count=threads: count
        )
        run, _ = partitioned(larger, tmp_path / str(threads), before)
        found.append({entry.key: run.read_bytes(entry.key) for entry in run.list("assignment/")})
    assert found[0] == found[1] == found[2]


def test_a_price_keeps_old_nodes_and_none_lowers_the_cut(tmp_path: Path) -> None:
    before, _ = partitioned(blocks(300, seed=1), tmp_path / "before", engine="random")
    moved, cuts = [], []
    for price in (0, 3, 10_000):
        run, counters = partitioned(
            blocks(300, seed=2), tmp_path / str(price), before, drift=100.0, migration_price=price
        )
        moved.append(counters["moved"])
        cuts.append(migration(run)["edge_cut"]["now"])
    assert moved[0] >= moved[1] > moved[2] == 0
    assert cuts[0] <= cuts[1] < cuts[2]


def smaller_type(graph: SmallGraph) -> SmallGraph:
    return library(papers=180)


def other_order(graph: SmallGraph) -> SmallGraph:
    return replace(graph, nodes=dict(reversed(graph.nodes.items())))


def without_a_type(graph: SmallGraph) -> SmallGraph:
    nodes = {("place" if name == "venue" else name): count for name, count in graph.nodes.items()}
    edges = {name.replace("venue", "place"): ends for name, ends in graph.edges.items()}
    return replace(graph, nodes=nodes, edges=edges)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (smaller_type, "'author' has shrunk from 100 to 90"),
        (other_order, "the order of the node types has changed"),
        (without_a_type, "'venue' is gone"),
    ],
)
def test_what_breaks_old_ids_means_a_full_run(
    change: Callable[[SmallGraph], SmallGraph], reason: str, tmp_path: Path
) -> None:
    graph = library(papers=200)
    before, _ = partitioned(graph, tmp_path / "before", engine="metis")
    after, counters = partitioned(change(graph), tmp_path / "after", before, engine="metis")
    assert counters["mode"] == migration(after)["mode"] == "full"
    assert reason in counters["reason"]
    assert counters["old"] == 0


def test_new_types_may_come_anywhere_and_edges_may_go(tmp_path: Path) -> None:
    graph = library(papers=200)
    before, _ = partitioned(graph, tmp_path / "before")
    nodes = {"author": 100, "keyword": 7, "paper": 200, "venue": 5, "year": 3}
    edges = {name: ends for name, ends in graph.edges.items() if "cites" not in name}
    later = replace(graph, nodes=nodes, edges=edges, edge_values=[])
    after, counters = partitioned(later, tmp_path / "after", before, drift=100.0)
    assert counters["mode"] == "incremental"
    types = migration(after)["node_types"]
    assert {name: (one["old"], one["new"]) for name, one in types.items()} == {
        **{name: (count, 0) for name, count in graph.nodes.items()},
        "keyword": (0, 7),
        "year": (0, 3),
    }


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"num_parts": 4}, "partitions has changed from 3 to 4"),
        ({"num_trainers_per_machine": 2}, "trainers of a machine has changed from 1 to 2"),
    ],
)
def test_other_partitions_mean_a_full_run(options: dict[str, int], reason: str, tmp_path: Path) -> None:
    before, _ = partitioned(library(), tmp_path / "before", engine="metis")
    _, counters = partitioned(library(), tmp_path / "after", before, engine="metis", **options)
    assert counters["mode"] == "full"
    assert reason in counters["reason"]


def test_trainers_keep_their_nodes_too(tmp_path: Path) -> None:
    graph = library(papers=200)
    before, _ = partitioned(graph, tmp_path / "before", num_trainers_per_machine=2)
    after, counters = partitioned(grown(graph), tmp_path / "after", before, num_trainers_per_machine=2)
    assert counters["mode"] == "incremental"
    old, new = (np.load(run.local_copy("assignment/trainers/paper.npy")) for run in (before, after))
    assert (old == new[:200]).mean() > 0.8  # 25 papers a trainer, and in-edges have a limit
    assert (new // 2 == parts_of(after, grown(graph))["paper"]).all()


def test_a_cut_that_has_drifted_means_a_full_run_with_the_old_numbers(tmp_path: Path) -> None:
    """At a price that nobody pays, old partitions of other edges are worth nothing."""
    before, _ = partitioned(blocks(300), tmp_path / "before", engine="two-level")
    turned = blocks(300)
    edges = turned.edges["n:r:n"]
    ids = np.arange(300)
    ids[:60] = np.roll(ids[:60], 1)  # some nodes change their community
    src, dst = (ids[np.array(ends)].tolist() for ends in (edges.src, edges.dst))
    turned = replace(turned, edges={"n:r:n": Edges(src, dst)})
    after, counters = partitioned(turned, tmp_path / "after", before, engine="two-level", migration_price=999)
    found = migration(after)
    assert found["mode"] == "full"
    assert "times that of the last full run" in counters["reason"]
    assert found["edge_cut"]["now"] == found["edge_cut"]["last_full"] == found["edge_cut"]["full"]
    assert counters["moved"] <= 60  # the numbers of the partitions are the old ones, or 200 had moved


def test_a_chain_of_runs_remembers_the_last_full_one(tmp_path: Path) -> None:
    graph = library(papers=200)
    run, _ = partitioned(graph, tmp_path / "0")
    first = run.read_json("assignment/assignment.json")["edge_cut"]["fraction"]
    for step in range(1, 4):
        graph = grown(graph, share=0.05, seed=step)
        run, counters = partitioned(graph, tmp_path / str(step), run, drift=100.0)
        assert counters["mode"] == "incremental"
        assert migration(run)["edge_cut"]["last_full"] == first


def test_an_unfinished_run_cannot_be_followed(tmp_path: Path) -> None:
    before, _ = partitioned(library(), tmp_path / "before", engine="metis")
    before.delete([layout.MANIFEST])
    with pytest.raises(InvalidInputError, match="not a finished output"):
        partitioned(library(), tmp_path / "after", before)


def test_nothing_is_done_again_until_the_earlier_run_is_another(tmp_path: Path) -> None:
    graph = library()
    before, _ = partitioned(graph, tmp_path / "before", engine="metis")
    other, _ = partitioned(graph, tmp_path / "other", engine="random")
    after, _ = partitioned(grown(graph), tmp_path / "after", before, engine="metis")
    source, config = open_store(str(tmp_path / "after" / "in")), PartitionConfig(num_parts=3, engine="metis")
    assert partition_nodes(config, source, after, previous=before).skipped
    assert not partition_nodes(config, source, after, previous=other).skipped
    assert migration(after)["previous"]["run"] == other.uri
    assert not partition_nodes(config, source, after).skipped
    assert not after.exists("assignment/migration.json")


def test_a_run_cannot_follow_itself(tmp_path: Path) -> None:
    before, _ = partitioned(library(), tmp_path, engine="metis")
    with pytest.raises(UsageError, match="cannot follow itself"):
        partitioned(library(), tmp_path, before)


@settings(max_examples=60)
@given(num_parts=st.integers(1, 5), seed=st.integers(0, 999))
def test_numbers_are_those_by_which_fewest_nodes_move(num_parts: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    parts, before = rng.integers(0, num_parts, (2, 40)).astype(np.int32)
    before[rng.random(40) < 0.2] = -1
    found = renumber(parts, before, PartitionConfig(num_parts=num_parts))
    best = max((np.array(order)[parts] == before).sum() for order in permutations(range(num_parts)))
    assert (found == before).sum() == best
    assert len(np.unique(parts * num_parts + found)) == len(np.unique(parts))


def test_partitions_of_other_shares_keep_their_numbers() -> None:
    parts, before = np.array([0, 0, 1, 2], np.int32), np.array([1, 1, 2, 0], np.int32)
    config = PartitionConfig(num_parts=3, target_shares=(2, 1, 1))
    assert renumber(parts, before, config).tolist() == [0, 0, 2, 1]


@MANY
@given(graph=graphs(), seed=st.integers(0, 9))
def test_old_values_keep_their_type_wise_ids(
    graph: SmallGraph, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("carried")
    larger = grown(graph, share=0.5, seed=seed)
    before, now = (
        node_counts_of_graph(load_metadata(open_store(str(one.write(folder / name)))))
        for name, one in (("before", graph), ("now", larger))
    )
    values = np.arange(sum(graph.nodes.values()), dtype=np.int32)
    found = spread_old_values(before, now, values, -1)
    first_old = first = 0
    for name, count in graph.nodes.items():
        assert found[first : first + count].tolist() == values[first_old : first_old + count].tolist()
        assert (found[first + count : first + larger.nodes[name]] == -1).all()
        first_old, first = first_old + count, first + larger.nodes[name]


def flip_a_part(run: Store) -> None:
    """Another partition for one node, in the text and its twin: the assignment is valid."""
    for key in ("paper.txt", "paper.npy"):
        data = bytearray(run.read_bytes(f"assignment/{key}"))
        place = 0 if key.endswith("txt") else -4 * 200
        data[place] = data[place] ^ 1
        run.write_bytes(f"assignment/{key}", bytes(data))


def change_a_degree(run: Store) -> None:
    data = bytearray(run.read_bytes(layout.PREPARED_GRAPH))
    data[8 * 10] ^= 8
    run.write_bytes(layout.PREPARED_GRAPH, bytes(data))


def change_the_cut(run: Store) -> None:
    sidecar = run.read_json("assignment/assignment.json")
    sidecar["edge_cut"]["fraction"] /= 2
    run.write_json("assignment/assignment.json", sidecar)


def change_the_counts(run: Store) -> None:
    schema = run.read_json("schema/small.json")
    schema["nid"]["author"][1] += 1
    run.write_json("schema/small.json", schema)


def lose_the_twin(run: Store) -> None:
    run.delete(["assignment/paper.npy"])


@pytest.mark.parametrize(
    ("damage", "where"),
    [
        (flip_a_part, r"assignment/paper\.(txt|npy)"),
        (change_a_degree, "prepare/graph.parhip"),
        (change_the_cut, "assignment/assignment.json"),
        (change_the_counts, "schema/small.json"),
        (lose_the_twin, "assignment/paper.npy"),
    ],
)
def test_a_run_that_is_not_as_it_was_written_cannot_be_followed(
    damage: Callable[[Store], None], where: str, tmp_path: Path
) -> None:
    graph = library(papers=200)
    before, _ = partitioned(graph, tmp_path / "before", engine="metis")
    damage(before)
    with pytest.raises(InvalidInputError, match=f"{where} is not the file that the run wrote") as refused:
        partitioned(grown(graph), tmp_path / "after", before)
    assert "manifest.json" in str(refused.value.expected)
    assert re.search("SHA-256 [0-9a-f]{64}|[0-9]+ bytes|no such file", str(refused.value.found))
    assert "or none" in str(refused.value.remedy)


def test_degrees_of_an_older_version_are_held_against_the_digest_of_the_whole_graph(tmp_path: Path) -> None:
    before, _ = partitioned(blocks(300), tmp_path / "before", engine="metis")
    stats = before.read_json(layout.PREPARED_STATS)
    del stats["degrees_sha256"]
    written = before.write_json(layout.PREPARED_STATS, stats)
    manifest = before.read_json(layout.MANIFEST)
    kept = [entry for entry in manifest["artifacts"] if entry["key"] != written.key]
    before.write_json(layout.MANIFEST, {**manifest, "artifacts": [*kept, written.to_json()]})
    assert PreviousRun(before, {}).read_degrees() is not None
    change_a_degree(before)
    with pytest.raises(InvalidInputError, match=r"graph\.parhip is not the file that the run wrote"):
        PreviousRun(before, {}).read_degrees()
