"""Memory that the process has freed is used again: its pages are not cleared a second time."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

PAGES = 40 << 20 >> 12
COUNT = """
import resource, sys
import numpy as np
from partition_ops.system.memory import keep_freed_memory

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones(40 << 20, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

if sys.argv[1] != "usual":
    keep_freed_memory(*map(int, sys.argv[2:]))
faults(1)
print(faults(5))
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems may have other C libraries than glibc")
@pytest.mark.parametrize(
    ("arguments", "new_pages"), [(["usual"], True), (["kept"], False), (["kept", str(512 << 20)], True)]
)
def test_large_arrays_use_freed_memory_unless_there_is_little(arguments: list[str], new_pages: bool) -> None:
    if os.confstr("CS_GNU_LIBC_VERSION") is None:
        pytest.skip("only glibc has the options")
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    command = [sys.executable, "-c", COUNT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert (int(done.stdout) > 4 * PAGES) == new_pages
