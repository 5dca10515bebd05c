"""Memory that the process has freed is used again: its pages are not cleared a second time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

from partition_ops.system.memory import memory_limit

ARRAY = 40 << 20  # bytes; glibc maps each array of this size, if nothing is set
PAGES = ARRAY >> 12
COUNT = f"""
import ctypes, resource, sys
import numpy as np
from partition_ops.system.memory import keep_freed_memory

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones({ARRAY}, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # no huge pages
for memory in sys.argv[1:]:
    keep_freed_memory(int(memory))
faults(1)
print(faults(5))
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc has the options")
@pytest.mark.skipif(memory_limit() < 5 << 30, reason="freed memory is kept only where there is enough")
@pytest.mark.parametrize(
    ("arguments", "cleared"), [([], True), ([str(8 << 30)], False), ([str(2 << 30)], True)]
)
def test_large_arrays_use_freed_memory_where_there_is_enough(arguments: list[str], cleared: bool) -> None:
    if tuple(map(int, platform.libc_ver()[1].split("."))) < (2, 35):
        pytest.skip("this glibc maps each large array")
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    command = [sys.executable, "-c", COUNT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert (int(done.stdout) > 4 * PAGES) == cleared
