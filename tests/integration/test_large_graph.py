"""The benchmark of large graphs, at a scale of a few thousand edges."""

from __future__ import annotations

import json
import sys
from collections import namedtuple
from pathlib import Path

import numpy as np
import pytest

from benchmarks import billion
from benchmarks.large_graph import write_large_graph
from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import open_parhip
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store


def test_the_same_arguments_give_the_same_graph(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second", "other")]
    for folder, seed in zip(folders, (1, 1, 2), strict=True):
        write_large_graph(folder, 0.001, seed)
    files = sorted(path.relative_to(folders[0]) for path in folders[0].rglob("*.parquet"))
    assert len(files) == 4
    for name in files:
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes()
    assert any((folders[0] / name).read_bytes() != (folders[2] / name).read_bytes() for name in files)
    run = open_store(str(tmp_path / "run"))
    prepare_graph(PrepareConfig(), open_store(str(folders[0])), run)  # every ID is in its range
    graph = open_parhip(run.local_copy(layout.PREPARED_GRAPH))
    degrees = np.sort(np.diff(graph.offsets))
    assert degrees[-len(degrees) // 10 :].sum() > 0.3 * degrees.sum()  # skewed


def test_a_scale_without_room_does_not_begin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    usage = namedtuple("usage", "free")
    monkeypatch.setattr(billion.shutil, "disk_usage", lambda folder: usage(10**9))
    arguments = ["billion", "--scales", "52", "--folder", str(tmp_path), "--output", str(tmp_path / "out")]
    monkeypatch.setattr(sys, "argv", arguments)
    with pytest.raises(SystemExit, match=r"Scale 52 needs 35 GB of disk; 1 GB are free\."):
        billion.main()


def test_the_page_projects_the_largest_graph(tmp_path: Path) -> None:
    scales = {}
    for scale, edges in (("1", 10**7), ("10", 10**8), ("3", 3 * 10**7)):
        cost = {"wall": 1.0, "cpu": edges / 1e6, "anonymous": 10**9 + 2 * edges, "peak": 2e9}
        more = {"nodes": edges // 10, "input_bytes": edges * 8, "graph_bytes": edges * 9, "edge_cut": 0.2}
        scales[scale] = {"edges": edges, "prepare": cost, "partition": cost, **more}
    results = {"command": "x", "machine": {"cores": 2, "memory_gib": 24}, "scales": scales}
    page = billion.page(json.loads(json.dumps(results)))
    assert "| partition, CPU minutes | 16.7 | 166.7 |" in page
    assert "| prepare, anonymous GB | 12.0 | 120.0 |" in page
    assert "| prepared graph, GB | 9.0 | 90.0 |" in page
    billion.chart(results, tmp_path / "chart.svg")
    assert "<svg" in (tmp_path / "chart.svg").read_text()
