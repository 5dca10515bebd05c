"""The search for duplicates, compared with a dictionary, under several memory limits."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.chunked.duplicate_search import MOST_BUCKETS, DuplicateSearch, Keys, find_overlaps
from partition_ops.chunked.metadata import FileFormat, FileSet, GraphMetadata
from partition_ops.chunked.names import EdgeType
from partition_ops.errors import InvalidInputError
from tests.temporary import temporary_folder

TYPES = ("a:r:b", "b:s:a", "a:t:b", "a:u:a", "a:v:a")
Edges = list[tuple[int, int, int]]  # type, source, destination


def metadata(nodes: dict[str, int], counts: list[int], types: tuple[str, ...] = TYPES) -> GraphMetadata:
    return GraphMetadata(
        graph_name="g",
        node_types=tuple(nodes),
        edge_types=tuple(EdgeType(*name.split(":")) for name in types),
        num_nodes=tuple(nodes.values()),
        num_edges=tuple(counts),
        num_nodes_per_chunk=(None,) * len(nodes),
        num_edges_per_chunk=(None,) * len(types),
        edges=tuple(FileSet(FileFormat("csv"), ()) for _ in types),
        node_features=(),
        edge_features=(),
    )


def expected(edges: Edges) -> tuple[dict[int, list[int]], int, int]:
    """Return places of duplicates by type, the number of parallel edges, and of pairs in both directions."""
    places: dict[tuple[int, int, int], list[int]] = defaultdict(list)
    types: dict[tuple[str, int, str, int], set[int]] = defaultdict(set)
    for place, (kind, src, dst) in enumerate(edges):
        src_type, _, dst_type = TYPES[kind].split(":")
        places[kind, src, dst].append(place)
        types[src_type, src, dst_type, dst].add(kind)
    repeated: dict[int, list[int]] = defaultdict(list)
    for (kind, _, _), found in places.items():
        repeated[kind] += sorted(found)[1:]
    both = {frozenset((t[:2], t[2:])) for t in types if t[:2] != t[2:] and (*t[2:], *t[:2]) in types}
    parallel = sum(len(kinds) - 1 for kinds in types.values())
    return {kind: sorted(found) for kind, found in repeated.items() if found}, parallel, len(both)


def found(edges: Edges, memory: int, blocks: int) -> tuple[dict[int, list[int]], int, int]:
    described = metadata({"a": 6, "b": 5}, [sum(kind == t for kind, _, _ in edges) for t in range(5)])
    repeated: dict[int, list[int]] = defaultdict(list)
    parallel = backwards = 0
    with temporary_folder() as scratch:
        store = DuplicateSearch(described, memory=memory, scratch=Path(scratch))
        for kind in range(5):
            own = [(place, src, dst) for place, (k, src, dst) in enumerate(edges) if k == kind]
            for block in reversed(np.array_split(np.array(own, np.int64).reshape(-1, 3), blocks)):
                store.add(kind, *(np.ascontiguousarray(column) for column in block.T))
        for overlaps in store.overlaps():
            for kind, again in overlaps.duplicates.items():
                repeated[kind] += again.places.tolist()
                for place, key in zip(again.places.tolist(), again.keys.tolist(), strict=False):
                    assert store.pairs.ends(kind, key) == edges[place][1:]
            parallel += overlaps.parallel
            backwards += overlaps.reversed
        assert [path for path in Path(scratch).rglob("*") if path.is_file()] == []
    return {kind: sorted(places) for kind, places in repeated.items()}, parallel, backwards


@st.composite
def some_edges(draw: st.DrawFn) -> Edges:
    edges = []
    for kind in draw(st.lists(st.integers(0, 4), max_size=60)):
        sources, destinations = (6, 5) if kind in (0, 2) else (5, 6) if kind == 1 else (6, 6)
        edges.append((kind, draw(st.integers(0, sources - 1)), draw(st.integers(0, destinations - 1))))
    return edges


@settings(max_examples=80, derandomize=True)
@given(some_edges(), st.sampled_from([1, 200, 2_000, 1 << 30]), st.integers(1, 4))
def test_it_finds_what_a_dictionary_finds(edges: Edges, memory: int, blocks: int) -> None:
    assert found(edges, memory, blocks) == expected(edges)


@pytest.mark.parametrize(("memory", "buckets"), [(1 << 30, 1), (31_999, 3), (1, MOST_BUCKETS)])
def test_the_number_of_buckets_follows_from_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int, buckets: int
) -> None:
    monkeypatch.setattr("partition_ops.chunked.duplicate_search.cores", lambda: 1)
    described = metadata({"a": 9, "b": 9}, [2000, 0, 0, 0, 0])
    assert DuplicateSearch(described, memory=memory, scratch=tmp_path).buckets == buckets


def test_more_edges_than_the_metadata_says_do_not_fill_the_memory(tmp_path: Path) -> None:
    described = metadata({"a": 9, "b": 9}, [10, 0, 0, 0, 0])
    store = DuplicateSearch(described, memory=2_400, scratch=tmp_path)
    ends = np.zeros(90, np.int64)
    for block in range(10):
        store.add(0, np.arange(90) + 90 * block, ends, ends)
    assert sum(len(found.duplicates[0].places) for found in store.overlaps() if found.duplicates) == 89


def test_types_with_too_many_pairs_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=r"'a:r:a' joins too many nodes"):
        DuplicateSearch(metadata({"a": 2**31}, [1], ("a:r:a",)), memory=1, scratch=tmp_path)


def test_the_largest_ids_do_not_overflow(tmp_path: Path) -> None:
    nodes = 2**31 - 1
    store = DuplicateSearch(metadata({"a": nodes}, [3], ("a:r:a",)), memory=1 << 20, scratch=tmp_path)
    last = np.array([nodes - 1, nodes - 1, 0])
    store.add(0, np.arange(3), last, np.array([nodes - 1, nodes - 1, nodes - 1]))
    (overlaps,) = store.overlaps()
    assert overlaps.duplicates[0].places.tolist() == [1]


def test_places_that_are_not_consecutive_are_kept() -> None:
    overlaps = find_overlaps({3: [Keys(np.array([8, 4, 8]), np.array([10, 20, 30])), Keys(np.array([4]), 5)]})
    assert overlaps.duplicates[3].places.tolist() == [20, 30]


def test_no_edges_have_no_overlaps() -> None:
    assert find_overlaps({}).reversed == 0
