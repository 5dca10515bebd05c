"""GraphStorm's own code opens the format graphstorm: sizes of features, training sets, and a batch."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import partition_ops
from tests.tables import RATINGS, feature, keys, write_shop

ROOT = Path(__file__).parents[2]
GRAPHSTORM = ROOT / ".local/graphstorm"
SECONDS = 600.0  # importing transformers alone takes a while


def read(config: Path, asked: dict[str, Any]) -> dict[str, Any]:
    if not (GRAPHSTORM / "installed").is_file():
        pytest.skip("GraphStorm is not installed: run .ci/install_graphstorm")
    done = subprocess.run(
        [sys.executable, Path(__file__).parent / "graphstorm_reads.py", config, json.dumps(asked)],
        env={**os.environ, "DGLBACKEND": "pytorch", "PYTHONPATH": str(GRAPHSTORM)},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=config.parent,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.partition("found ")[2])
    return found


def test_graphstorm_takes_features_of_one_number(tmp_path: Path) -> None:
    folder = write_shop(tmp_path / "shop", ratings=RATINGS[1:])
    out = tmp_path / "out"
    partition_ops.run(folder / "graph.yaml", out, num_parts=1, formats=("dgl", "graphstorm"))
    nodes = {"user": ["age", "country"], "item": ["price", "brand"]}
    edges = {"user:rated:item": ["weight", "time"]}
    found = read(out / "formats/graphstorm/shop.json", {"nodes": nodes, "edges": edges, "label_of": "user"})
    countries = feature(out / "ingest", "user", "country").shape[1]
    assert found["node_feat_size"] == {"item": 2, "tag": 0, "user": 1 + countries}
    assert found["edge_feat_size"]["user:rated:item"] == 2
    mask = feature(out / "ingest", "user", "train_mask")
    assert len(found["train"]) == np.count_nonzero(mask) == 3
    assert found["labels"] == {"user": [3]}  # of one dimension, as its losses take them
    assert found["features"]["user"] == [found["inputs"]["user"], 1 + countries]
    assert len(keys(out / "ingest", "user")) == 4
