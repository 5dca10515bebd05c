"""Memory limits and memory use of this process."""

from __future__ import annotations

import mmap
import resource
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

import psutil

if TYPE_CHECKING:
    import numpy.typing as npt

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
bounds: list[int] = []  # of `partition_ops.system.memory_guard`, in bytes


def memory_limit() -> int:
    """Return the memory of this machine, the lowest limit of this process's cgroups, or a bound, in bytes.

    It is the lowest of them.
    """
    limit = min([int(psutil.virtual_memory().total), *bounds])
    for path in _limit_files():
        try:
            limit = min(limit, int(path.read_text()))
        except (OSError, ValueError):  # no such cgroup, or "max"
            continue
    return limit


def planned_memory(option: int | None, share: float, limit: int | None = None) -> int:
    """Return the bytes that a stage plans with: its option, but no more than a share of the limit.

    Args:
        option: Value of the option in bytes; None if it is not set.
        share: Share of the limit.
        limit: Memory of the machine that does the work; None for `memory_limit`.
    """
    most = int((memory_limit() if limit is None else limit) * share)
    return most if option is None else min(option, most)


def _limit_files() -> Iterator[Path]:
    """Yield the files with the limits of this process's memory cgroup and of those around it."""
    try:
        lines = OWN_CGROUPS.read_text().splitlines()
    except OSError:
        lines = []
    groups = [(CGROUPS, "memory.max", "/"), (CGROUPS / "memory", "memory.limit_in_bytes", "/")]
    for number, kinds, place in (line.split(":", 2) for line in lines if line.count(":") >= 2):
        if number == "0" and not kinds:
            groups.append((CGROUPS, "memory.max", place))
        elif "memory" in kinds.split(","):
            groups.append((CGROUPS / "memory", "memory.limit_in_bytes", place))
    for root, name, place in groups:
        group = PurePosixPath(place.lstrip("/"))
        for above in (group, *group.parents):
            yield root / above / name


def peak_memory() -> int:
    """Return the peak resident memory of this process, or of a finished child if it is higher, in bytes."""
    peak = max(resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return peak if sys.platform == "darwin" else peak * 1024


def drop_pages(array: npt.NDArray[Any]) -> None:
    """Drop the resident pages of a memory-mapped array; the next access reads them from the file again.

    This does nothing for other arrays, and on systems without ``madvise``. Without it, the largest process of
    a job at scale 1 has 0.90 GB, not 0.77 or less, see docs/decisions/tricks.md.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
