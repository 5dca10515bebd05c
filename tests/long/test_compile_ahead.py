"""What ``compile`` has compiled is loaded by the processes that follow: they compile nothing."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from partition_ops.system.compilation import MESSAGE
from tests.graphs import library

JOBS = {
    "two-level": ["--engine", "two-level", "--num-parts", "3", "--balance", "edges"],
    "two hops": ["--engine", "random", "--num-parts", "4", "--num-hops", "2", "--out-edges"],
    "many parts": ["--engine", "two-level", "--num-parts", "130"],
    "no halo": ["--engine", "metis", "--num-parts", "2", "--num-hops", "0"],
}


def call(cache: Path, *arguments: str) -> str:
    """Call the command line with a cache of its own; return what it says on standard error."""
    done = subprocess.run(
        [sys.executable, "-m", "partition_ops.cli", *arguments],
        env={**os.environ, "NUMBA_CACHE_DIR": str(cache)},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_jobs_after_compile_compile_nothing(tmp_path: Path) -> None:
    graph = str(library(papers=3000).write(tmp_path / "graph"))
    assert call(tmp_path / "cache", "compile").count(MESSAGE) == 1
    for name, options in JOBS.items():
        assert MESSAGE not in call(tmp_path / "cache", "run", graph, str(tmp_path / name), *options), name
