"""PyG's own NeighborLoader and LinkNeighborLoader, which sample with torch-sparse."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FOLDER = ROOT / ".local/torch-sparse"


def test_the_loaders_of_pyg() -> None:
    if not (FOLDER / "installed").is_file():
        pytest.skip("torch-sparse is not installed: run .ci/install_torch_sparse")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-k",
            "neighbor_loader",
            "tests/integration/test_pyg_stores.py",
        ],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{FOLDER}"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout
    assert "6 passed" in done.stdout and "skipped" not in done.stdout
