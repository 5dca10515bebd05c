"""The expected traffic of the quality report, against what DGL's sampler reads of real graphs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from benchmarks.real_graph_sources import FOLDER, RealGraph
from partition_ops.options.values import build
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.stages.probe.probe import probe_partitions
from partition_ops.storage import open_store
from partition_ops.traffic.options import SamplingOptions
from tests.graphs import Edges, SmallGraph, Values
from tests.train_graphs import partitioned

PARTS, EPOCHS = 4, 3


def with_reverse_edges(name: str, train_type: str) -> SmallGraph:
    """A kept graph, with reverse edges, 60 % of one type as train nodes, and a feature of each type."""
    real, random = RealGraph.load(FOLDER / f"{name}.xz"), np.random.default_rng(0)
    edges = {}
    for edge_type, pairs in real.edges.items():
        src, relation, dst = edge_type.split(":")
        edges[edge_type] = Edges(pairs[:, 0], pairs[:, 1])
        edges[f"{dst}:rev_{relation}:{src}"] = Edges(pairs[:, 1], pairs[:, 0])
    features = [
        Values(node_type, "feat", np.zeros((count, 4 + 8 * number), np.float32))
        for number, (node_type, count) in enumerate(real.nodes.items())
    ]
    mask = Values(train_type, "train_mask", random.random(real.nodes[train_type]) < 0.6)
    return SmallGraph(real.nodes, edges, name=name, node_values=[*features, mask])


@pytest.mark.parametrize(
    ("name", "train_type", "fanouts", "batch_size"),
    [
        ("history", "commit", (10, 10), 1024),
        ("history", "file", (15, 10), 256),
        ("coauthors", "person", (5, 5), 256),
        ("names", "character", (10, 10), 1024),
        ("roads", "node", (10, 10), 4096),
    ],
)
def test_expected_rows_are_those_that_dgl_samples(
    tmp_path: Path, name: str, train_type: str, fanouts: tuple[int, ...], batch_size: int
) -> None:
    """Of each trainer, the mean of a few epochs, within 5 %."""
    options: dict[str, Any] = {"fanouts": fanouts, "batch_size": batch_size}
    graph = with_reverse_edges(name, train_type)
    config = {
        "num_parts": PARTS,
        "engine": "metis",
        "balance": "none",
        "sampling": SamplingOptions(**options),
    }
    counted = []
    with open_store(partitioned(graph, tmp_path, **config)) as output:
        expected = output.read_json("quality/report.json")["training"]
        for seed in range(EPOCHS):
            probe = build(ProbeConfig, {**options, "batches": 10**6, "seed": seed})
            counted.append(probe_partitions(probe, output, cache=tmp_path / "cache").document["partitions"])
    assert expected["options"]["train_nodes"] == [f"{train_type}:train_mask"]
    for trainer, epochs in zip(expected["partitions"], zip(*counted, strict=True), strict=True):
        assert {trainer["seeds"]} == {one["seeds"] for one in epochs}
        assert {trainer["batches"]} == {one["batches"] for one in epochs}
        for figure in ("remote_rows", "remote_bytes"):
            mean = sum(one[figure] for one in epochs) / (EPOCHS * trainer["batches"])
            assert trainer[f"{figure}_per_batch"] == pytest.approx(mean, rel=0.05)
        share = np.mean([one["remote_neighbour_share"] for one in epochs])
        assert trainer["remote_neighbour_share"] == pytest.approx(share, rel=0.05)
