"""Where compiled code is kept, and that a process works if it can be kept nowhere."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from partition_ops import __version__

LOOP = """\
from partition_ops.system.compilation import compiled

@compiled
def add(one: int, other: int) -> int:
    return one + other
"""


def call(folder: Path, cache: Path) -> str:
    """Call a compiled loop of a module in a process, and return what it says on standard error."""
    (folder / "loop.py").write_text(LOOP)
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    path = os.pathsep.join([str(folder), *sys.path])
    done = subprocess.run(
        [sys.executable, "-c", "import loop; assert loop.add(1, 2) == 3"],
        env={**environment, "XDG_CACHE_HOME": str(cache), "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stderr


def test_it_is_kept_in_the_users_cache_folder_of_this_version(tmp_path: Path) -> None:
    assert "once for an installation" in call(tmp_path, tmp_path / "cache")
    kept = tmp_path / "cache/partition-ops" / __version__
    assert list(kept.rglob("loop.add*.nbc"))
    assert not list(tmp_path.glob("__pycache__/*.nbc"))
    assert not call(tmp_path, tmp_path / "cache")


def test_a_read_only_installation_without_a_cache_folder_compiles_each_time(tmp_path: Path) -> None:
    """Files where folders would be made keep everybody from writing, and root too."""
    for name in ("__pycache__", "cache"):
        (tmp_path / name).touch()
    for _ in range(2):
        said = call(tmp_path, tmp_path / "cache")
        assert (
            f"neither {tmp_path}/cache/partition-ops/{__version__} nor the folder of the installation" in said
        )
        assert "Set NUMBA_CACHE_DIR" in said


WITHOUT_BLAS = """
import sys
import numpy as np
from numba import njit
import loop

assert loop.add(1, 2) == 3
assert not [name for name in sys.modules if name.startswith("scipy.linalg")]
double = njit(lambda matrix: np.dot(matrix, matrix))
assert double(np.full((2, 2), 3.0)).tolist() == [[18, 18], [18, 18]]
assert "scipy.linalg.cython_blas" in sys.modules
"""


def test_products_of_matrices_are_imported_only_by_those_who_use_them(tmp_path: Path) -> None:
    """That import takes a quarter of a second, in each of our processes."""
    (tmp_path / "loop.py").write_text(LOOP)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    command = [sys.executable, "-c", WITHOUT_BLAS]
    subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, check=True)
