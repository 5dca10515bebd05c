"""The statistics of the report equal those of scipy and numpy."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components

from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.connectivity import DEGREE_BINS, Connectivity, full_degrees
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import open_store
from tests.graphs import SHAPES, SmallGraph, library, social

GRAPHS = {
    **SHAPES,
    "library": library(papers=300),
    "sparse library": library(papers=9, seed=3),
    "social": social(people=500),
}


def homogeneous(graph: SmallGraph) -> tuple[np.ndarray, np.ndarray, dict[str, slice]]:
    """Return sources and destinations as homogeneous IDs, and the range of each type."""
    ends = np.cumsum([0, *graph.nodes.values()])
    where = {name: slice(*ends[i : i + 2].tolist()) for i, name in enumerate(graph.nodes)}
    src, dst = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for name, edges in graph.edges.items():
        src_type, _, dst_type = name.split(":")
        src.append(np.array(edges.src, np.int64) + where[src_type].start)
        dst.append(np.array(edges.dst, np.int64) + where[dst_type].start)
    return np.concatenate(src), np.concatenate(dst), where


def report_of(graph: SmallGraph, folder: Path) -> dict[str, Any]:
    source = open_store(str(graph.write(folder / "graph")))
    validate_graph(ValidateConfig(on_defect="warn"), source, open_store(str(folder / "out")))
    report: dict[str, Any] = json.loads((folder / "out" / layout.VALIDATION_REPORT).read_text())
    return report


@pytest.mark.parametrize("name", GRAPHS)
def test_degrees_isolated_nodes_and_components(tmp_path: Path, name: str) -> None:
    graph = GRAPHS[name]
    report = report_of(graph, tmp_path)
    src, dst, where = homogeneous(graph)
    nodes = sum(graph.nodes.values())
    out_degrees, in_degrees = np.bincount(src, minlength=nodes), np.bincount(dst, minlength=nodes)
    for row in report["metrics"]["node_types"]:
        ins, outs = in_degrees[where[row["name"]]], out_degrees[where[row["name"]]]
        assert row["isolated_nodes"] == ((ins + outs) == 0).sum()
        assert (row["max_in_degree"], row["max_out_degree"]) == (ins.max(initial=0), outs.max(initial=0))
        assert row["mean_degree"] == pytest.approx((ins + outs).mean() if len(ins) else 0, abs=1e-6)
        binned = report["degree_distribution"][row["name"]]
        assert binned["in_degree"] == np.histogram(ins, [*DEGREE_BINS, np.inf])[0].tolist()
        assert binned["out_degree"] == np.histogram(outs, [*DEGREE_BINS, np.inf])[0].tolist()
    matrix = coo_matrix((np.ones(len(src)), (src, dst)), (nodes, nodes))
    count, labels = connected_components(matrix, directed=False)
    whole = report["metrics"]["graph"][0]
    assert whole["components"] == count
    assert whole["connected_share"] == pytest.approx(np.bincount(labels).max() / nodes, abs=1e-6)


def test_wide_and_narrow_numbers_count_alike() -> None:
    rng = np.random.default_rng(0)
    ends = rng.integers(0, 40, 30), rng.integers(0, 60, 30)
    found = []
    for edges in (30, 2**40):
        connectivity = Connectivity(100, edges)
        connectivity.add(*ends, 0, 40)
        nodes = slice(0, 100)
        ins = full_degrees(*connectivity.in_degrees.of(nodes)).tolist()
        found.append((connectivity.forest.components(), ins))
    assert found[0] == found[1]


def test_more_nodes_than_the_memory_can_count_are_refused_at_once(tmp_path: Path) -> None:
    graph = SHAPES["isolated nodes"].write(tmp_path / "graph")
    document = json.loads((graph / "metadata.json").read_text())
    document["num_nodes_per_chunk"] = [[2**50]]
    (graph / "metadata.json").write_text(json.dumps(document))
    with pytest.raises(InvalidInputError, match=r"1,125,899,906,842,624 nodes.*GiB.*Correct the counts"):
        validate_graph(ValidateConfig(), open_store(str(graph)), open_store(str(tmp_path / "out")))
