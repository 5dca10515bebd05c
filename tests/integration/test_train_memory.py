"""Nothing is loaded: an epoch over everything stays below a bound that the features alone exceed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.graphs import Edges, SmallGraph, Values
from tests.temporary import on_disk  # noqa: F401
from tests.train_graphs import partitioned

pytestmark = pytest.mark.long

NODES, EDGES, WIDTH = 30_000, 150_000, 2048
FEATURE_BYTES = NODES * WIDTH * 4
BOUND = 150 << 20

CHILD = """
import json, re, sys
from pathlib import Path
import torch
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph
dgl = import_dgl()

def resident(name):
    return int(re.search(name + r":\\s+(\\d+)", Path("/proc/self/status").read_text())[1]) * 1024

def reset_peak():
    Path("/proc/self/clear_refs").write_text("5")

uri, cache, ids, features, limit = sys.argv[1:6]
small = dgl.rand_graph(100, 500)  # whatever DGL loads on its first use
sampler = dgl.dataloading.NeighborSampler([5, 5])
next(iter(dgl.dataloading.DataLoader(small, torch.arange(100), sampler, batch_size=10)))
reset_peak()
before = resident("VmRSS")
sampler = dgl.dataloading.NeighborSampler([1, 1], prefetch_node_feats=["feat"])
rows = set()
graph = PartitionedGraph(
    uri, ids=ids, features=features or None, cache=Path(cache), resident_bytes=int(limit)
)
for _, outputs, blocks in dgl.dataloading.DataLoader(
    graph, torch.arange(graph.num_nodes()), sampler, batch_size=250, shuffle=True
):
    rows.update(blocks[0].srcdata[dgl.NID].tolist())
mapped = "node_feat.dgl" in Path("/proc/self/maps").read_text()
print(json.dumps({"grown": resident("VmHWM") - before, "rows": len(rows), "mapped": mapped}))
"""


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> str:
    rng = np.random.default_rng(0)
    src, dst = rng.integers(0, NODES, (2, EDGES))
    graph = SmallGraph(
        {"_N": NODES},
        {"_N:_E:_N": Edges(src.tolist(), dst.tolist())},
        node_values=[Values("_N", "feat", rng.random((NODES, WIDTH), np.float32))],
    )
    return partitioned(graph, tmp_path_factory.mktemp("memory"), num_parts=4)


def run_child(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, "-c", CHILD, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])  # type: ignore[no-any-return]


@pytest.mark.parametrize("ids, features", [("new", ""), ("new", "mapped"), ("original", "read")])
def test_an_epoch_stays_below_the_bound(output: str, ids: str, features: str, tmp_path: Path) -> None:
    """The first opening, which sorts the edges, included; resident mapped pages count.

    With a limit, features are read and not mapped, unless that is asked for.
    """
    found = run_child(output, str(tmp_path), ids, features, str(16 << 20))
    assert found["mapped"] == (features == "mapped")
    assert found["rows"] == NODES
    assert found["grown"] < BOUND < FEATURE_BYTES


def test_the_measurement_can_fail(output: str, tmp_path: Path) -> None:
    """With nothing given back, the same epoch is above the bound: the limit is what keeps it below."""
    found = run_child(output, str(tmp_path), "new", "mapped", str(1 << 40))
    assert found["grown"] > BOUND
