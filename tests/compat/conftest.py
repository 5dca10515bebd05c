"""The environment of DGL 2.1, which ``.ci/install_dgl2`` installs."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import tests.airflow_home  # noqa: F401
from tests.temporary import on_disk  # noqa: F401

ROOT = Path(__file__).parents[2]
HERE = Path(__file__).parent
SECONDS = 300.0


@pytest.fixture(scope="session")
def dgl2() -> Path:
    """The folder with the ``python`` of DGL 2.1."""
    folder = ROOT / ".local/dgl2"
    if not (folder / "installed").is_file():
        pytest.skip("DGL 2.1 is not installed: run .ci/install_dgl2")
    return folder / "bin"


@pytest.fixture(scope="session")
def call(dgl2: Path) -> Callable[..., str]:
    """Run a script of this folder with DGL 2.1, and return what it prints."""

    def run(script: str, *arguments: object) -> str:
        done = subprocess.run(
            [dgl2 / "python", HERE / script, *map(str, arguments)],
            env={**os.environ, "DGLBACKEND": "pytorch", "PYTHONPATH": str(HERE)},
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    return run
