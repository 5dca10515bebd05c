"""What compiled loops import, and what a process does while a child computes."""

from __future__ import annotations

import subprocess
import sys
import threading

from partition_ops.stages.partition.metis_library import call_in_child
from partition_ops.system.parallel import in_idle_time

LOOPS = """
import sys
import numpy as np
from partition_ops.stages.convert.edge_loops import count_owners

counts = np.zeros(2, np.int64)
count_owners(np.array([0, 1, 1]), np.array([0, 1, 2]), counts)
print(counts.tolist(), "scipy.linalg" in sys.modules)

from numba import njit
print(njit(lambda a, b: a.dot(b))(np.eye(2), np.full((2, 2), 3.0)).tolist())
"""


def test_loops_do_not_import_scipy_unless_they_call_blas() -> None:
    found = subprocess.run([sys.executable, "-c", LOOPS], capture_output=True, text=True, check=True)
    assert found.stdout.splitlines() == ["[1, 2] False", "[[3.0, 3.0], [3.0, 3.0]]"]


def test_what_is_needed_later_is_done_while_a_child_computes() -> None:
    done = threading.Event()
    with in_idle_time(done.set):
        assert call_in_child("METIS", lambda: 7) == 7
    assert done.wait(30)
