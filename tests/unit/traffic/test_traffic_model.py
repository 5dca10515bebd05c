"""The model of the traffic against sampled batches, against searches of the graph, and its parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import open_store
from partition_ops.traffic.half_edge_weights import add_to_half_edges
from partition_ops.traffic.model import ALL, Sampling, Traffic, TrafficModel
from partition_ops.traffic.reached_edges import reached
from partition_ops.traffic.sampled_edges import SampledEdges, collect_edges, read_sampled_edges
from tests.graphs import Edges, Layout, SmallGraph, library

PARTS = 3
NODES = {"a": 900, "b": 400}
STARTS, ENDS = (0, 900), (900, 1300)  # of a and of b
TYPES = [("a", "b"), ("a", "a"), ("b", "b")]


def weights_of(model: TrafficModel, num_parts: int = 1) -> np.ndarray:
    return model.edge_weights(model.edge_chances(num_parts))


def random_edges(
    seed: int, *, reverses: bool, parallels: bool = False
) -> list[tuple[str, str, np.ndarray, np.ndarray]]:
    """Edges with homogeneous IDs, of nodes that a few hubs know; with reverse types, and with parallels."""
    random = np.random.default_rng(seed)
    found = []
    for src, dst in TYPES:
        count = 6 * max(NODES[src], NODES[dst])
        ends = [
            (random.random(count) ** 2 * NODES[name]).astype(np.int64) + STARTS[name == "b"]
            for name in (src, dst)
        ]
        found.append((src, dst, *ends))
        if reverses:
            found.append((dst, src, *ends[::-1]))
        if parallels:
            found.append((src, dst, *(end[: count // 2] for end in ends)))
    return found


def collected(edges: list[tuple[str, str, np.ndarray, np.ndarray]]) -> SampledEdges:
    destinations = [(STARTS[dst == "b"], NODES[dst]) for _, dst, *_ in edges]
    blocks = ((number, src, dst) for number, (_, _, src, dst) in enumerate(edges))
    return collect_edges(1300, destinations, sum(len(src) for *_, src, _ in edges), blocks)


def in_groups(edges: list[tuple[str, str, np.ndarray, np.ndarray]]) -> dict[int, list[np.ndarray]]:
    """Return by node the sources of its in-edges, an array for each edge type."""
    found: dict[int, list[np.ndarray]] = {}
    for *_, src, dst in edges:
        order = np.argsort(dst, kind="stable")
        nodes, begins = np.unique(dst[order], return_index=True)
        for node, group in zip(nodes.tolist(), np.split(src[order], begins[1:]), strict=True):
            found.setdefault(node, []).append(group)
    return found


def batches(seeds: np.ndarray, size: int, random: np.random.Generator) -> Iterator[np.ndarray]:
    order = random.permutation(seeds)
    yield from (order[at : at + size] for at in range(0, len(seeds), size))


def simulated(
    edges: list[tuple[str, str, np.ndarray, np.ndarray]],
    train: np.ndarray,
    parts: np.ndarray,
    sampling: Sampling,
    epochs: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Return by trainer the rows from each partition and the sampled neighbours, by locality, an epoch."""
    groups, random = in_groups(edges), np.random.default_rng(7)
    rows, neighbours = np.zeros((PARTS, PARTS)), np.zeros((PARTS, 2))
    for part in [part for part in range(PARTS) for _ in range(epochs)]:
        for batch in batches(np.flatnonzero(train & (parts == part)), sampling.batch_size, random):
            inputs = set(batch.tolist())
            for fanout in reversed(sampling.fanouts):
                drawn = [
                    group if fanout == ALL or len(group) <= fanout else random.choice(group, fanout, False)
                    for node in inputs
                    for group in groups.get(node, ())
                ]
                sources = np.concatenate([np.zeros(0, np.int64), *drawn])
                neighbours[part] += np.bincount((parts[sources] != part).astype(int), minlength=2)
                inputs |= set(sources.tolist())
            rows[part] += np.bincount(parts[list(inputs)], minlength=PARTS)
    return rows / epochs, neighbours / epochs


@pytest.mark.parametrize(
    ("fanouts", "batch_size", "reverses", "parallels"),
    [
        ((4, 6), 60, False, False),
        ((4, 6), 60, True, True),
        ((ALL, 3), 200, False, False),
        ((ALL, 3), 200, True, True),
        ((5,), 50, True, False),
        ((5,), 50, True, True),
        ((3, 3, 3), 100, False, False),
        ((3, 3, 3), 100, True, False),
    ],
)
def test_the_model_expects_what_batches_read(
    fanouts: tuple[int, ...], batch_size: int, reverses: bool, parallels: bool
) -> None:
    random = np.random.default_rng(3)
    edges = random_edges(1, reverses=reverses, parallels=parallels)
    parts = random.integers(0, PARTS, 1300).astype(np.int32)
    train = random.random(1300) < 0.8
    sampling = Sampling(fanouts, batch_size)
    found = TrafficModel(collected(edges), train, sampling).traffic(parts, PARTS)
    rows, neighbours = simulated(edges, train, parts, sampling, epochs=8)
    np.testing.assert_allclose(found.rows[:, :, 0], rows, rtol=0.05)
    np.testing.assert_allclose(found.neighbours, neighbours, rtol=0.05)
    np.fill_diagonal(rows, 0)
    np.testing.assert_allclose(found.remote_rows, rows.sum(axis=1), rtol=0.05)
    np.testing.assert_allclose(found.served_rows, rows.sum(axis=0), rtol=0.05)
    assert found.batches.tolist() == (-(-np.bincount(parts[train]) // batch_size)).tolist()


def test_one_batch_with_all_neighbours_is_a_search_of_the_graph() -> None:
    """Every probability is 0 or 1, so that the figures are exact."""
    edges = random_edges(2, reverses=False)
    random = np.random.default_rng(4)
    parts, train = random.integers(0, PARTS, 1300).astype(np.int32), random.random(1300) < 0.02
    sampling = Sampling((ALL, ALL), 1000)
    found = TrafficModel(collected(edges), train, sampling).traffic(parts, PARTS)
    rows, neighbours = simulated(edges, train, parts, sampling, epochs=1)
    np.testing.assert_allclose(found.rows[:, :, 0], rows, rtol=1e-5)
    np.testing.assert_allclose(found.neighbours, neighbours, rtol=1e-5)


def traffic_of(*, parts: list[int], train: list[bool], batch_size: int = 1, fanout: int = ALL) -> Traffic:
    """Of the path 0 → 1 → 2 with one layer."""
    edges = collect_edges(3, [(0, 3)], 2, [(0, np.array([0, 1]), np.array([1, 2]))])
    model = TrafficModel(
        edges, np.array(train), Sampling((fanout,), batch_size), node_ranges=[(0, 1, 0), (1, 3, 1)]
    )
    return model.traffic(np.array(parts, np.int32), max(parts) + 1)


def test_figures_by_type_and_by_trainer() -> None:
    found = traffic_of(parts=[0, 1, 1], train=[False, True, True])
    assert found.seeds.tolist() == [0, 2]
    assert found.batches.tolist() == [0, 2]
    # node 2 is read by half of the batches, and node 1 by half of them as a seed and by half as a source,
    # which the model takes as independent: by three quarters of them
    np.testing.assert_allclose(found.rows[1], np.array([[1, 0], [0, 2.5]]), rtol=1e-5)
    assert found.remote_cost(np.array([8.0, 4.0])).tolist() == pytest.approx([0, 8])
    assert found.served_cost(np.array([8.0, 4.0])).tolist() == pytest.approx([8, 0])
    assert found.remote_rows_per_batch.tolist() == pytest.approx([0, 0.5])
    np.testing.assert_allclose(found.neighbours, np.array([[0, 0], [1, 1]]), rtol=1e-5)


def test_a_graph_without_train_nodes_has_no_traffic() -> None:
    found = traffic_of(parts=[0, 1, 1], train=[False] * 3)
    assert not found.rows.any()
    assert not found.neighbours.any()
    assert found.remote_rows_per_batch.tolist() == [0, 0]


def test_reads_add_up_to_the_rows_of_a_trainer() -> None:
    edges = collected(random_edges(5, reverses=True))
    random = np.random.default_rng(5)
    parts, train = random.integers(0, PARTS, 1300).astype(np.int32), random.random(1300) < 0.5
    model = TrafficModel(edges, train, Sampling((3, 5), 90))
    reads, found = model.reads(parts, 1), model.traffic(parts, PARTS)
    sums = np.bincount(parts, weights=reads, minlength=PARTS)
    np.testing.assert_allclose(sums, found.rows[1, :, 0], rtol=1e-4)
    assert (reads <= found.batches[1] + 1e-3).all()


def test_many_partitions_and_cores_give_the_same_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = collected(random_edges(6, reverses=False))
    parts = np.random.default_rng(6).integers(0, 7, 1300).astype(np.int32)
    model = TrafficModel(edges, np.ones(1300, np.bool_), Sampling((3, 3), 20))
    monkeypatch.setattr("partition_ops.traffic.model.RANGE", 100)
    found = []
    for cores in (1, 3):
        monkeypatch.setattr("partition_ops.system.parallel.cores", lambda cores=cores: cores)
        found.append(model.traffic(parts, 7))
    np.testing.assert_array_equal(found[0].rows, found[1].rows)
    np.testing.assert_array_equal(found[0].neighbours, found[1].neighbours)
    # the trainer of a partition reads the same, whatever number it has
    swapped = model.traffic(6 - parts, 7)
    np.testing.assert_allclose(swapped.remote_rows[::-1], found[0].remote_rows, rtol=1e-6)


@pytest.mark.parametrize(("layers", "parallels"), [(1, False), (2, False), (2, True), (3, True)])
def test_edges_out_of_reach_have_no_part(layers: int, parallels: bool) -> None:
    random = np.random.default_rng(7)
    parts, train = random.integers(0, PARTS, 1300).astype(np.int32), random.random(1300) < 0.004
    edges = collected(random_edges(7, reverses=False, parallels=parallels))
    sampling = Sampling((3, 2, 2)[:layers], 2)
    model = TrafficModel(edges, train, sampling)
    whole, weights, number = model.traffic(parts, PARTS), weights_of(model, PARTS), edges.num_edges
    fewer = reached(edges, train, layers)
    assert 0 < fewer.num_edges < number
    assert len(fewer.joined) or not parallels
    model = TrafficModel(fewer, train, sampling)
    found = model.traffic(parts, PARTS)
    np.testing.assert_array_equal(found.rows, whole.rows)
    np.testing.assert_array_equal(found.neighbours, whole.neighbours)
    found_weights = weights_of(model, PARTS)
    np.testing.assert_array_equal(found_weights[found_weights > 0], weights[weights > 0])


@pytest.mark.parametrize("trained", [0, 0.004, 1])
def test_the_sums_of_weights_are_those_of_all_weights(
    trained: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partition_ops.traffic.model.RANGE", 100)
    train = np.random.default_rng(7).random(1300) < trained
    model = TrafficModel(
        collected(random_edges(7, reverses=True, parallels=True)), train, Sampling((3, 2), 2)
    )
    weights = weights_of(model, PARTS).astype(np.float64)
    assert (weights.sum() > 0) == train.any()
    found = model.sums_of_weights(model.edge_chances(PARTS))
    assert found == pytest.approx((weights.sum(), np.square(weights).sum()), rel=1e-5)


@pytest.mark.parametrize(("count", "layers"), [(40, 2), (300, 3)])  # with more passes than bits, too
def test_passes_leave_out_what_their_trainers_cannot_reach(
    count: int, layers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    random = np.random.default_rng(3)
    parts, train = random.integers(0, count, 1300).astype(np.int32), random.random(1300) < 0.4
    edges = collected(random_edges(3, reverses=False, parallels=True))
    fanouts = (3, 2, 2)[:layers]
    folder = tmp_path if layers == 3 else None
    found = {}
    for few in (10**6, 4):
        monkeypatch.setattr("partition_ops.traffic.model.FEW_PASSES", few)
        reads: list[np.ndarray] = []
        model = TrafficModel(edges, train, Sampling(fanouts, 2), folder=folder)
        traffic = model.traffic(parts, count, lambda _, one, kept=reads: kept.append(one.copy()))
        found[few] = *traffic.rows, traffic.neighbours, *reads, model.about_remote_rows(parts, count)
    for one, other in zip(*found.values(), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("range_bytes", [8, 1 << 10, 1 << 26])
@pytest.mark.parametrize("in_files", [False, True])
def test_edges_are_placed_range_by_range(
    range_bytes: int, in_files: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    edges = random_edges(4, reverses=True)
    destinations = [(STARTS[dst == "b"], NODES[dst]) for _, dst, *_ in edges]
    blocks = [(number, src, dst) for number, (_, _, src, dst) in enumerate(edges)]
    size = sum(len(src) for _, src, _ in blocks)
    expected = collected(edges)
    monkeypatch.setattr("partition_ops.traffic.sampled_edges.RANGE_BYTES", range_bytes)
    found = collect_edges(1300, destinations, size, blocks, folder=tmp_path if in_files else None)
    assert isinstance(found.groups, np.memmap) == in_files
    np.testing.assert_array_equal(found.first, expected.first)
    np.testing.assert_array_equal(found.groups, expected.groups)


def test_all_edges_are_kept_if_all_nodes_are_trained() -> None:
    edges = collected(random_edges(8, reverses=True))
    assert reached(edges, np.ones(1300, np.bool_), 2) is edges


@pytest.mark.parametrize(("batch_size", "near"), [(1000, 1e-12), (90, 0.06), (3, 1e-12)])
def test_equal_batches_compare_trainers_alike(batch_size: int, near: float) -> None:
    """One batch, two of which one is small, and so many that the model takes them as equal anyhow."""
    random = np.random.default_rng(9)
    parts, train = random.integers(0, 6, 1300).astype(np.int32), random.random(1300) < 0.5
    train[parts == 4] = False
    model = TrafficModel(collected(random_edges(9, reverses=True)), train, Sampling((3, 5), batch_size))
    about, exact = model.about_remote_rows(parts, 6), model.traffic(parts, 6).remote_rows
    assert about[4] == 0
    np.testing.assert_allclose(about / about.sum(), exact / exact.sum(), rtol=near)


def test_edge_weights_are_the_rows_read_over_each_edge() -> None:
    """The star 1, 2 → 0 and 1 → 3: a seed reads both sources with fan-out 2, one with fan-out 1."""
    ends = np.array([1, 2, 1]), np.array([0, 0, 3])
    edges = collect_edges(4, [(0, 4)], 3, [(0, *ends)])
    train = np.array([True, False, False, False])
    both = weights_of(TrafficModel(edges, train, Sampling((2,), 1)))
    assert edges.destinations().tolist() == [0, 3, 0]
    assert both.tolist() == pytest.approx([1, 0, 1])
    one = weights_of(TrafficModel(edges, train, Sampling((1,), 1)))
    assert one.tolist() == pytest.approx([0.5, 0, 0.5])
    seeds = TrafficModel(edges, np.array([True, False, False, True]), Sampling((2,), 1))
    assert weights_of(seeds).tolist() == pytest.approx([0.375, 0.375, 0.5])  # 1 is read with 1 - 0.5 ** 2
    assert weights_of(seeds, 2).tolist() == pytest.approx([0.5, 0.5, 1])


def test_weights_of_edges_become_weights_of_half_edges() -> None:
    src, dst = np.array([0, 2, 1, 0, 3]), np.array([1, 1, 0, 0, 2])  # a pair both ways, and a loop
    edges = collect_edges(4, [(0, 4)], 5, [(0, src, dst)])
    offsets, neighbours = np.array([0, 1, 3, 5, 6]), np.array([1, 0, 2, 1, 3, 2])
    weights = np.zeros(5)
    sources = np.repeat(np.arange(4), np.diff(edges.first))
    for at, (u, v) in enumerate(zip(sources, edges.destinations(), strict=True)):
        weights[at] = 10 * u + v
    found = add_to_half_edges(edges, weights, offsets, neighbours)
    assert found.tolist() == [1 + 10, 1 + 10, 21, 21, 32, 32]


@pytest.mark.parametrize("folder", [False, True])
def test_edges_of_the_input_without_dropped_ones(tmp_path: Path, folder: bool) -> None:
    graph = library(layout=Layout(chunks=None))
    cites = graph.edges["paper:cites:paper"]
    half = len(cites.src) // 2
    graph.edges["paper:cites:paper"] = Edges(
        cites.src, cites.dst, Layout("csv", (half, len(cites.src) - half))
    )
    source = open_store(str(graph.write(tmp_path / "graph")))
    metadata = load_metadata(source)
    offsets = dict(zip(metadata.node_types, metadata.node_offsets, strict=False))
    dropped = {1: np.array([0, half, half + 1])}
    wanted = []
    for number, (name, edges) in enumerate(graph.edges.items()):
        kept = np.delete(np.arange(len(edges.src)), dropped.get(number, []))
        src, _, dst = name.split(":")
        ends = np.array([edges.src, edges.dst])[:, kept] + [[offsets[src]], [offsets[dst]]]
        wanted += [(number, *pair) for pair in ends.T.tolist()]
    found = read_sampled_edges(source, metadata, dropped, folder=tmp_path if folder else None)
    sources = np.repeat(np.arange(found.num_nodes), np.diff(found.first)).tolist()
    pairs = sorted(zip(sources, found.destinations().tolist(), strict=True))
    assert pairs == sorted((src, dst) for _, src, dst in wanted)
    assert found.group_sizes.tolist() == np.bincount(found.groups).tolist()
    sizes = Counter((number, dst) for number, _, dst in wanted)
    groups = sorted(zip(found.group_nodes.tolist(), found.group_sizes.tolist(), strict=True))
    assert groups == sorted((dst, size) for (_, dst), size in sizes.items())


def test_a_graph_without_edges(tmp_path: Path) -> None:
    source = open_store(str(SmallGraph({"a": 3}, {"a:r:a": Edges([], [])}).write(tmp_path / "graph")))
    edges = read_sampled_edges(source, load_metadata(source), folder=tmp_path)
    found = TrafficModel(edges, np.ones(3, np.bool_), Sampling()).traffic(np.array([0, 1, 1], np.int32), 2)
    np.testing.assert_allclose(found.rows[:, :, 0], np.array([[1, 0], [0, 2]]), rtol=1e-5)
    assert not found.remote_rows.any()


@pytest.mark.parametrize("in_files", [False, True])
def test_a_graph_without_nodes(in_files: bool, tmp_path: Path) -> None:
    found = collect_edges(0, [(0, 0)], 0, [], folder=tmp_path if in_files else None)
    assert found.num_nodes == found.num_edges == found.num_groups == 0


@pytest.mark.parametrize("folder", [False, True])
def test_more_edges_than_the_metadata_say_are_refused(folder: bool, tmp_path: Path) -> None:
    graph = SmallGraph({"a": 30}, {"a:r:a": Edges([*range(29)], [*range(1, 30)])})
    source = open_store(str(graph.write(tmp_path / "graph")))
    metadata = source.read_json("metadata.json")
    del metadata["num_edges_per_chunk"]
    source.write_json("metadata.json", {**metadata, "num_edges_per_type": [28]})
    wanted = r"more edges than metadata\.json says.*at least 29.*28"
    with pytest.raises(InvalidInputError, match=wanted):
        read_sampled_edges(source, load_metadata(source), folder=tmp_path if folder else None)
