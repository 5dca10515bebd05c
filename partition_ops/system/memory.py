"""How much memory there is, and how much was used."""

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
    """Bytes that this machine, or the cgroup around this process, allows."""
    limit = int(psutil.virtual_memory().total)
    for path in CGROUP_LIMITS:
        try:
            limit = min(limit, int(Path(path).read_text()))
        except (OSError, ValueError):  # no such cgroup, or "max"
            continue
    return limit


def peak_memory() -> int:
    """Peak resident memory of this process so far, or of one that it waited for, in bytes."""
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak if sys.platform == "darwin" else peak * 1024


def drop_pages(array: npt.NDArray[Any]) -> None:
    """Take the pages of a mapped file out of this process's memory; they come back when they are read.

    Nothing happens to an array that is no map of a file, nor on systems that cannot do it.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
