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
LOOPS_WITHOUT_CODE = """
import importlib, pkgutil
import partition_ops
from partition_ops.system.compilation import LOOPS
for module in pkgutil.walk_packages(partition_ops.__path__, "partition_ops."):
    if not module.name.endswith("__main__"):
        importlib.import_module(module.name)
assert LOOPS
print(*(loop.py_func for loop in LOOPS if not loop._cache._cache_file._load_index()))
"""


def call(cache: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run Python with a folder of compiled code of its own."""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(cache)}
    command = [sys.executable, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True)


def test_after_compile_every_loop_has_code_and_jobs_compile_nothing(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    assert call(cache, "-m", "partition_ops.cli", "compile").stderr.count(MESSAGE) == 1
    assert call(cache, "-c", LOOPS_WITHOUT_CODE).stdout.strip() == ""
    graph = str(library(papers=3000).write(tmp_path / "graph"))
    for name, options in JOBS.items():
        job = ["-m", "partition_ops.cli", "run", graph, str(tmp_path / name), *options]
        assert MESSAGE not in call(cache, *job).stderr, name
