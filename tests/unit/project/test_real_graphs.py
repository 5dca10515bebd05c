"""`benchmarks.real_graphs`: its kept graphs, and the figures that it reports."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from benchmarks.real_graph_sources import FOLDER, KEPT, Builder, RealGraph
from benchmarks.real_graphs import DGL, ratio, summary


@pytest.mark.parametrize("name", KEPT)
def test_kept_graphs_have_distinct_edges_between_known_nodes(name: str) -> None:
    graph = RealGraph.load(FOLDER / f"{name}.xz")
    assert graph.name == name
    for edge_type, pairs in graph.edges.items():
        source, _, target = edge_type.split(":")
        assert pairs.min() >= 0
        assert (pairs.max(axis=0) < [graph.nodes[source], graph.nodes[target]]).all()
        assert len(np.unique(pairs[:, 0] << 32 | pairs[:, 1])) == len(pairs)


def test_a_kept_graph_is_read_as_it_was_written(tmp_path: Path) -> None:
    builder = Builder()
    for source, target in ((5, 9), (5, 7), (0, 9), (8, 8), (5, 9)):
        builder.edge("a:to:b", source, target)
        builder.edge("a:to:a", source, target)
    graph = builder.build("tiny", "test")
    assert len(graph.edges["a:to:a"]) == 3
    assert len(graph.edges["a:to:b"]) == 4
    graph.save(tmp_path / "tiny.xz")
    found = RealGraph.load(tmp_path / "tiny.xz")
    assert found.nodes == graph.nodes
    for edge_type, pairs in graph.edges.items():
        np.testing.assert_array_equal(found.edges[edge_type], pairs)


def test_the_ratio_is_to_the_best_of_the_others() -> None:
    cuts = {"auto": 0.2, "metis": 0.25, DGL: 0.4}
    row = {name: {"edge_cut": cut, "empty": 0} for name, cut in cuts.items()}
    assert ratio(row, ("metis", DGL)) == pytest.approx(0.8)
    row["metis"]["empty"] = 3  # fewer partitions than asked for
    assert ratio(row, ("metis", DGL)) == pytest.approx(0.5)
    assert ratio(row, ("kaminpar",)) is None


def test_a_summary_has_the_median_cut_and_the_worst_of_the_rest() -> None:
    runs = [
        {"edge_cut": cut, "seconds": 1, "imbalance": cut, "over": cut > 2, "lightest": cut, "empty": 0}
        for cut in (1.0, 3.0, 2.0)
    ]
    found = summary(runs)
    assert (found["edge_cut"], found["spread"], found["imbalance"], found["lightest"]) == (2, 1, 3, 1)
    assert found["over"]
