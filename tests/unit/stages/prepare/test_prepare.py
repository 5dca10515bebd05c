"""The prepared graph is the symmetric one: against scipy, which gets there in another way."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings

from partition_ops.artifacts import layout, parhip
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.parhip import (
    NARROW_VERSION,
    offset_reader,
    open_parhip,
    read_degrees,
    read_parhip_slice,
)
from partition_ops.artifacts.records import forget_task
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.stages.prepare.half_edges import GROUP_HALF_EDGES, digit_room, sort_range
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import Store, open_store
from partition_ops.system.parallel import begin_in_thread
from partition_ops.traffic import kept_half_edges, sampled_edges
from partition_ops.traffic.kept_half_edges import HalfEdgesByRange, KeptHalfEdges, _may_be_parallel
from partition_ops.traffic.sampled_edges import SampledEdges, read_sampled_edges
from tests.graphs import SHAPES, Edges, SmallGraph, library
from tests.strategies import graphs


def homogeneous(graph: SmallGraph) -> tuple[np.ndarray, np.ndarray, int]:
    """Both ends of every edge on homogeneous IDs, counted out by hand."""
    first, total = {}, 0
    for name, count in graph.nodes.items():
        first[name], total = total, total + count
    src, dst = [], []
    for edge_type, edges in graph.edges.items():
        source, _, destination = edge_type.split(":")
        src += [first[source] + i for i in edges.src]
        dst += [first[destination] + i for i in edges.dst]
    return np.array(src, np.int64), np.array(dst, np.int64), total


def check_edges(kept: KeptHalfEdges, source: Store, dropped: Mapping[int, Any]) -> None:
    """Compare the edges that were kept with those that are read."""
    metadata = load_metadata(source)
    found, expected = kept.take(), read_sampled_edges(source, metadata, dropped)
    assert found is not None and kept.take() is None
    for one in fields(SampledEdges):
        taken, read = getattr(found, one.name), getattr(expected, one.name)
        assert taken.dtype == read.dtype
        np.testing.assert_array_equal(taken, read)


def check(graph: SmallGraph, folder: Path) -> None:
    source = open_store(str(graph.write(folder / "graph")))
    destination = open_store(str(folder / "out"))
    kept = KeptHalfEdges(begin=True)
    result = prepare_graph(PrepareConfig(), source, destination, half_edges=kept)
    src, dst, nodes = homogeneous(graph)
    loops = src == dst
    ones = np.ones(int((~loops).sum()))
    directed = sp.coo_array((ones, (src[~loops], dst[~loops])), shape=(nodes, nodes)).tocsr()
    expected = (directed + directed.T).tocsr()
    expected.sort_indices()
    found = open_parhip(destination.local_copy(layout.PREPARED_GRAPH))
    np.testing.assert_array_equal(found.offsets, expected.indptr)
    np.testing.assert_array_equal(found.neighbours, expected.indices)
    in_degrees = np.load(destination.local_copy(layout.PREPARED_IN_DEGREES))
    np.testing.assert_array_equal(in_degrees, np.bincount(dst, minlength=nodes))
    assert result.counters["self_loops"] == loops.sum()
    check_edges(kept, source, {})


@pytest.mark.parametrize("name", SHAPES)
def test_every_shape(tmp_path: Path, name: str) -> None:
    check(SHAPES[name], tmp_path)


def test_a_larger_graph_in_many_chunks(tmp_path: Path) -> None:
    check(library(papers=3000), tmp_path)


@pytest.mark.parametrize("bits", [0, 3])
def test_ranges_of_many_nodes(tmp_path: Path, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.stages.prepare.options.RANGE_BITS", bits)
    check(library(papers=300), tmp_path)


@pytest.mark.parametrize("shift", [2, 17])  # rows of 16 bits, and of 32
@pytest.mark.parametrize("on_defect", ["drop", "warn"])
def test_edges_of_many_blocks(
    tmp_path: Path, shift: int, on_defect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partition_ops.chunked.edges.BLOCK_ROWS", 20)
    monkeypatch.setattr("partition_ops.stages.prepare.preparation.range_shift", lambda nodes: shift)
    random = np.random.default_rng(shift)
    ends = random.integers(0, 30, (3, 2, 150))
    types = dict(zip(("a:r:a", "a:s:a", "a:t:b"), ends, strict=True))  # with duplicates and self-loops
    graph = SmallGraph({"a": 30, "b": 30}, {name: Edges(*pair.tolist()) for name, pair in types.items()})
    source, destination = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "o"))
    validate_graph(ValidateConfig(on_defect=on_defect), source, destination)
    dropped = ListedEdges(destination, layout.DROPPED).ids(load_metadata(source))
    assert len(dropped) == (3 if on_defect == "drop" else 0)
    kept = KeptHalfEdges()
    prepare_graph(PrepareConfig(), source, destination, half_edges=kept)
    check_edges(kept, source, dropped)


@pytest.mark.parametrize("begin", [False, True])
def test_half_edges_that_are_kept_replace_those_before(tmp_path: Path, begin: bool) -> None:
    """The file of those before is removed when no thread reads it any more, whatever it found."""
    closed: list[str] = []
    seen: list[list[str]] = []
    reads_now = threading.Event()

    def read(number: int) -> Any:
        reads_now.set()
        time.sleep(0.1)
        seen.append([*closed])
        raise OSError

    run = open_store(str(tmp_path))
    metadata = load_metadata(open_store(str(SHAPES["isolated nodes"].write(tmp_path / "graph"))))
    with closing(KeptHalfEdges(begin=begin)) as kept:
        for name in ("first", "second"):
            with ExitStack() as stack:
                stack.callback(closed.append, name)
                reads = read if name == "first" else lambda number: None
                by_range = HalfEdgesByRange(0, np.zeros((1, 1), np.int64), [0], [1], reads)
                kept.keep(by_range, stack.pop_all(), metadata, run)
                assert name == "second" or not begin or reads_now.wait(120)
        assert closed == ["first"]
    assert closed == ["first", "second"]
    assert seen == ([[]] if begin else [])


def test_an_interrupted_taker_does_not_close_the_file_that_a_thread_reads(tmp_path: Path) -> None:
    closed: list[str] = []
    seen: list[list[str]] = []
    reads_now, goes_on = threading.Event(), threading.Event()

    def read(number: int) -> Any:
        reads_now.set()
        goes_on.wait(120)
        time.sleep(0.1)
        seen.append([*closed])
        raise OSError

    def interrupt(work: Any) -> Any:
        results = iter([KeyboardInterrupt])
        future = begin_in_thread(work)
        wait = future.result

        def result() -> Any:
            for one in results:
                assert reads_now.wait(120)
                goes_on.set()
                raise one
            return wait()

        future.result = result
        return future

    metadata = load_metadata(open_store(str(SHAPES["isolated nodes"].write(tmp_path / "graph"))))
    with pytest.MonkeyPatch.context() as patched, ExitStack() as stack:
        patched.setattr(kept_half_edges, "begin_in_thread", interrupt)
        kept = KeptHalfEdges(begin=True)
        stack.callback(closed.append, "file")
        by_range = HalfEdgesByRange(0, np.zeros((1, 1), np.int64), [0], [1], read)
        kept.keep(by_range, stack.pop_all(), metadata, open_store(str(tmp_path)))
        with pytest.raises(KeyboardInterrupt):
            kept.take()
    assert seen == [[]] and closed == ["file"]


@pytest.mark.parametrize("metrics", [None, {}, {"graph": [{"parallel_edges": None}], "edge_types": []}])
def test_parallel_edges_are_looked_for_if_nothing_says_that_there_are_none(
    tmp_path: Path, metrics: dict[str, Any] | None
) -> None:
    run = open_store(str(tmp_path))
    run.write_json(
        layout.VALIDATION_REPORT, {"files": []} | ({} if metrics is None else {"metrics": metrics})
    )
    assert _may_be_parallel(run)


def test_half_edges_are_a_file_until_they_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    source, destination = (open_store(str(tmp_path / name)) for name in ("graph", "out"))
    library(papers=300).write(tmp_path / "graph")
    prepare_graph(PrepareConfig(), source, destination)
    assert not [*(tmp_path / "temporary").iterdir()]
    with closing(KeptHalfEdges()) as kept:
        forget_task(destination, "prepare")
        prepare_graph(PrepareConfig(), source, destination, half_edges=kept)
        assert len([*(tmp_path / "temporary").iterdir()]) == 1
    assert not [*(tmp_path / "temporary").iterdir()]
    assert kept.take() is None


@pytest.mark.parametrize("name", ["clean", "duplicate", "parallel"])
def test_parallel_edges_are_looked_for_if_validation_has_found_some(tmp_path: Path, name: str) -> None:
    one, two = Edges([0, 0, 1], [1, 1, 2]), Edges([0, 1], [1, 2])
    edges = {"duplicate": {"a:r:a": one}, "parallel": {"a:r:a": two, "a:s:a": two}}
    graph = SmallGraph({"a": 3}, edges.get(name, {"a:r:a": two}))
    source, destination = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "o"))
    validate_graph(ValidateConfig(on_defect="warn"), source, destination)
    kept, metadata = KeptHalfEdges(), load_metadata(source)
    prepare_graph(PrepareConfig(), source, destination, half_edges=kept)
    with pytest.MonkeyPatch.context() as patched:
        looked: list[bool] = []
        find = sampled_edges.has_parallel_edges
        patched.setattr(sampled_edges, "has_parallel_edges", lambda *one: looked.append(True) or find(*one))
        found = kept.take()
    assert found is not None and bool(looked) == (name != "clean")
    assert len(found.joined) == (name != "clean") + (name == "parallel")
    np.testing.assert_array_equal(found.joined, read_sampled_edges(source, metadata).joined)


def test_half_edges_without_those_that_training_reads_are_not_kept(tmp_path: Path) -> None:
    graph = SmallGraph({"a": 3}, {"a:r:a": Edges([0, 0, 1], [1, 1, 2])})
    source, destination = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "o"))
    validate_graph(ValidateConfig(on_defect="exclude"), source, destination)
    kept = KeptHalfEdges()
    prepare_graph(PrepareConfig(), source, destination, half_edges=kept)
    assert kept.take() is None


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(graph=graphs())
def test_any_graph(tmp_path_factory: pytest.TempPathFactory, graph: SmallGraph) -> None:
    check(graph, tmp_path_factory.mktemp("prepare"))


def test_the_file_is_parhip_of_version_3(tmp_path: Path) -> None:
    """Header, byte offsets, neighbours: as the KaHIP user guide has them."""
    graph = SHAPES["isolated nodes"]  # nine nodes and the edge 0 -> 1
    source, destination = open_store(str(graph.write(tmp_path / "g"))), open_store(str(tmp_path / "o"))
    prepare_graph(PrepareConfig(), source, destination)
    words = np.fromfile(destination.local_copy(layout.PREPARED_GRAPH), np.uint64).tolist()
    first = (3 + 10) * 8
    assert words == [3, 9, 2, first, first + 8, *[first + 16] * 8, 1, 0]


def test_a_large_graph_has_neighbours_of_32_bits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The numbers are those of the file with 64 bits, whoever reads them."""
    graph = library()
    source = open_store(str(graph.write(tmp_path / "g")))
    found = []
    for name, most in (("wide", parhip.MOST_WIDE_EDGES), ("narrow", 0)):
        monkeypatch.setattr(parhip, "MOST_WIDE_EDGES", most)
        store = open_store(str(tmp_path / name))
        prepare_graph(PrepareConfig(), source, store)
        found.append(store)
    wide, narrow = found
    path = narrow.local_copy(layout.PREPARED_GRAPH)
    assert np.fromfile(path, np.uint64, 1) == NARROW_VERSION
    expected, opened = open_parhip(wide.local_copy(layout.PREPARED_GRAPH)), open_parhip(path)
    assert opened.neighbours.dtype == np.int32
    np.testing.assert_array_equal(opened.offsets, expected.offsets)
    np.testing.assert_array_equal(opened.neighbours, expected.neighbours)
    np.testing.assert_array_equal(expected.narrow_neighbours, expected.neighbours)
    np.testing.assert_array_equal(read_degrees(narrow, layout.PREPARED_GRAPH), np.diff(expected.offsets))
    slices = [read_parhip_slice(one, layout.PREPARED_GRAPH, 5, 40, np.dtype(np.int64)) for one in found]
    np.testing.assert_array_equal(slices[1].offsets, slices[0].offsets)
    np.testing.assert_array_equal(slices[1].neighbours, slices[0].neighbours)
    for store in found:
        mapped = read_parhip_slice(store, layout.PREPARED_GRAPH, 5, 40, np.dtype(np.int32), mapped=True)
        np.testing.assert_array_equal(mapped.offsets, expected.offsets[5:41] - expected.offsets[5])
        np.testing.assert_array_equal(mapped.neighbours, slices[0].neighbours)
        assert isinstance(mapped.neighbours, np.memmap)
        nothing = read_parhip_slice(store, layout.PREPARED_GRAPH, 5, 5, np.dtype(np.int32), mapped=True)
        assert nothing.offsets.tolist() == [0] and not len(nothing.neighbours)
        nodes, offset = offset_reader(store, layout.PREPARED_GRAPH)
        assert [offset(node) for node in range(nodes + 1)] == expected.offsets.tolist()
    path.write_bytes(path.read_bytes()[:-4])
    with pytest.raises(InvalidInputError, match="truncated"):
        open_parhip(path)


@pytest.mark.parametrize("content", [b"", b"\0" * 24, b"x" * 400])
def test_a_file_that_is_none_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "graph.parhip"
    path.write_bytes(content)
    with pytest.raises(InvalidInputError, match=r"graph\.parhip"):
        open_parhip(path)


def test_a_file_that_is_cut_short_is_refused(tmp_path: Path) -> None:
    source, destination = open_store(str(library().write(tmp_path / "g"))), open_store(str(tmp_path / "o"))
    prepare_graph(PrepareConfig(), source, destination)
    path = destination.local_copy(layout.PREPARED_GRAPH)
    path.write_bytes(path.read_bytes()[:-8])
    with pytest.raises(InvalidInputError, match="truncated"):
        open_parhip(path)


@pytest.mark.parametrize("nodes", [1, 300, 5000])
def test_a_range_with_many_half_edges_is_sorted_in_groups(nodes: int) -> None:
    rng = np.random.default_rng(nodes)
    begin, total, count = 70_000, 100_000, 4 * GROUP_HALF_EDGES
    rows = rng.integers(0, nodes, count)
    others = rng.integers(0, total, count).astype(np.int32)
    others[: count // 2] = rng.integers(begin, begin + nodes, count // 2)  # duplicates and self-loops
    is_end = rng.random(count) < 0.5
    is_end |= others == begin + rows  # a self-loop has one half-edge, at its destination
    in_degrees, unique = np.empty(nodes, np.int64), np.empty(nodes, np.int64)
    packed = np.empty(count, np.int32)
    wanted = np.unique(np.stack([rows, others], axis=1), axis=0)
    wanted = wanted[wanted[:, 1] != begin + wanted[:, 0]]

    half_edges = rows.astype(np.uint16), np.where(is_end, ~others, others)
    loops = sort_range(begin, 17, *half_edges, in_degrees, unique, packed, digit_room(len(half_edges[0])))

    assert loops == np.count_nonzero(others == begin + rows)
    assert in_degrees.tolist() == np.bincount(rows[is_end], minlength=nodes).tolist()
    assert unique.tolist() == np.bincount(wanted[:, 0], minlength=nodes).tolist()
    assert np.array_equal(packed[: len(wanted)], wanted[:, 1])
