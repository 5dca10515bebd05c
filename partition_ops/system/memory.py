"""Memory limits and memory use of this process."""

from __future__ import annotations

import mmap
import resource
import sys
from pathlib import Path
from typing import Any

import numpy.typing as npt
import psutil

CGROUP_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def memory_limit() -> int:
    """Return the memory of this machine, or the limit of this process's cgroup if it is lower, in bytes."""
    limit = int(psutil.virtual_memory().total)
    for path in CGROUP_LIMITS:
        try:
            limit = min(limit, int(Path(path).read_text()))
        except (OSError, ValueError):  # no such cgroup, or "max"
            continue
    return limit


def peak_memory() -> int:
    """Return the peak resident memory of this process, or of a finished child if it is higher, in bytes."""
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak if sys.platform == "darwin" else peak * 1024


def drop_pages(array: npt.NDArray[Any]) -> None:
    """Drop the resident pages of a memory-mapped array; the next access reads them from the file again.

    This does nothing for other arrays, and on systems without ``madvise``.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
