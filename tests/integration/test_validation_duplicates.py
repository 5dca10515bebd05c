"""Validation finds the duplicates and self-loops that were planted, and no others."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import open_store
from tests.graphs import Edges, Layout, SmallGraph

TYPES = ("author:writes:paper", "paper:cites:paper", "paper:has:author", "author:reads:paper")


@dataclass(frozen=True)
class Planted:
    """A graph with duplicates in known places.

    Attributes:
        graph: The graph.
        duplicates: By edge type, ascending IDs of the edges that repeat an earlier one.
        loops: By edge type, ascending IDs of self-loops.
    """

    graph: SmallGraph
    duplicates: dict[str, list[int]]
    loops: dict[str, list[int]]


@dataclass(frozen=True, kw_only=True)
class Case:
    """Size and format of a graph."""

    nodes: int
    edges: int
    chunks: int
    layout: str
    counts: str


def plant(case: Case) -> Planted:
    """Return a random graph; a duplicate and its original may be in different chunks."""
    nodes, edges, chunks = case.nodes, case.edges, case.chunks
    rng = np.random.default_rng(nodes)
    counted = {"author": nodes, "paper": 2 * nodes}
    types, duplicates, loops = {}, {}, {}
    for name in TYPES:
        src_type, _, dst_type = name.split(":")
        src, dst = rng.integers(0, counted[src_type], edges), rng.integers(0, counted[dst_type], edges)
        again = rng.integers(0, edges, edges // 50)
        src, dst = np.concatenate([src, src[again]]), np.concatenate([dst, dst[again]])
        order = rng.permutation(len(src))
        src, dst = src[order], dst[order]
        _, first = np.unique(np.stack([src, dst]), axis=1, return_index=True)
        duplicates[name] = sorted(set(range(len(src))) - set(first.tolist()))
        loops[name] = np.flatnonzero(src == dst).tolist() if src_type == dst_type else []
        cuts = tuple(len(piece) for piece in np.array_split(src, chunks))
        types[name] = Edges(src.tolist(), dst.tolist(), Layout(case.layout, cuts))
    return Planted(SmallGraph(counted, types, counts=case.counts), duplicates, loops)


def validated(graph: Path, out: Path, **options: Any) -> dict[str, Any]:
    validate_graph(ValidateConfig(**options), open_store(str(graph)), open_store(str(out)))
    report: dict[str, Any] = json.loads((out / layout.VALIDATION_REPORT).read_text())
    return report


def dropped(out: Path, edge_type: str) -> list[int]:
    path = out / layout.edge_list(layout.DROPPED, edge_type)
    return np.load(path).tolist() if path.exists() else []


CASES = {
    "a small graph of one chunk": Case(nodes=5, edges=40, chunks=1, layout="csv", counts="chunk"),
    "chunks of a few rows": Case(nodes=20, edges=300, chunks=40, layout="csv", counts="chunk"),
    "counts by type alone": Case(nodes=50, edges=2_000, chunks=7, layout="parquet", counts="type"),
    "many edges": Case(nodes=5_000, edges=100_000, chunks=3, layout="parquet", counts="both"),
    "hardly any nodes": Case(nodes=2, edges=500, chunks=5, layout="parquet", counts="chunk"),
}


@pytest.mark.parametrize("case", CASES)
def test_planted_edges_are_found_with_any_memory(tmp_path: Path, case: str) -> None:
    planted = plant(CASES[case])
    graph = planted.graph.write(tmp_path / "graph")
    reports = []
    for memory in (1, 100_000, 1 << 30):
        out = tmp_path / str(memory)
        reports.append(validated(graph, out, on_defect="drop", memory=memory))
        for name in TYPES:
            expected = sorted({*planted.duplicates[name], *planted.loops[name]})
            assert dropped(out, name) == expected
    assert all(report == reports[0] for report in reports)
    counts = {row["name"]: row["duplicate_edges"] for row in reports[0]["metrics"]["edge_types"]}
    assert counts == {name: len(ids) for name, ids in planted.duplicates.items()}
    check_examples(reports[0], planted)


def check_examples(report: dict[str, Any], planted: Planted) -> None:
    """Check that the examples are the first ten edges, with their own IDs and ends."""
    for check, planted_ids in (("duplicate_edges", planted.duplicates), ("self_loop_edges", planted.loops)):
        for defect in (defect for defect in report["defects"] if defect["check"] == check):
            ids, edges = planted_ids[defect["name"]], planted.graph.edges[defect["name"]]
            assert defect["count"] == len(ids)
            assert [example["edge_id"] for example in defect["examples"]] == ids[:10]
            for example in defect["examples"]:
                ends = edges.src[example["edge_id"]], edges.dst[example["edge_id"]]
                assert (example["src"], example["dst"]) == ends
                start = sum((edges.layout.chunks or ())[: example["chunk"]])
                assert example["row"] == example["edge_id"] - start


def test_the_whole_report_is_the_same_again(tmp_path: Path) -> None:
    planted = plant(Case(nodes=300, edges=20_000, chunks=9, layout="csv", counts="type"))
    graph = planted.graph.write(tmp_path / "graph")
    first = validated(graph, tmp_path / "1", on_defect="warn", memory=200_000)
    assert validated(graph, tmp_path / "2", on_defect="warn", memory=200_000) == first


def test_overlaps_of_types_are_information(tmp_path: Path) -> None:
    graph = SmallGraph(
        {"author": 3, "paper": 3},
        {
            "author:writes:paper": Edges([0, 1, 2], [0, 1, 2]),
            "author:reads:paper": Edges([0, 2], [0, 1]),  # 0 -> 0 lies over an edge of the first type
            "paper:by:author": Edges([1, 0], [1, 2]),  # 1 -> 1 is reversed
        },
    ).write(tmp_path / "graph")
    report = validated(graph, tmp_path / "out")
    findings = {defect["check"]: (defect["severity"], defect["count"]) for defect in report["defects"]}
    assert findings == {"parallel_edges": ("information", 1), "reversed_edges": ("information", 1)}
    assert report["passed"]
