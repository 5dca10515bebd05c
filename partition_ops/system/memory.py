"""Memory limits and memory use of this process."""

from __future__ import annotations

import ctypes
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
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8  # of glibc's mallopt
MOST_KEPT = 128 << 20  # bytes that are free at the end of the heap
MAPPED = 64 << 20  # bytes of an array that is mapped anew; glibc before version 2.35 refuses so much
LEAST_MEMORY = 4 << 30  # with less, glibc keeps what it does by itself


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


def keep_freed_memory(memory: int | None = None) -> None:
    """Let this process use memory again that it has freed, instead of giving it back to the kernel.

    glibc maps each large array anew, and the kernel clears its pages. With what is set here, the job takes
    0.94 of the time and 0.87 of the memory with 20 million edges, and 0.97 and 1.04 with 4 million in 64
    partitions. Nothing changes with less than `LEAST_MEMORY`, and with other C libraries.

    It is for processes that do nothing else, and is called before there are threads.

    Args:
        memory: Bytes that the process may use, if they are fewer than `memory_limit`.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)
    enough = min(memory_limit(), memory or sys.maxsize) >= LEAST_MEMORY
    if mallopt is not None and enough and mallopt(M_MMAP_THRESHOLD, MAPPED):  # the others do harm without it
        mallopt(M_TRIM_THRESHOLD, MOST_KEPT)
        mallopt(M_ARENA_MAX, 1)


def give_back_freed_memory() -> None:
    """Give freed memory back to the kernel: of Arrow, and with glibc also between what is in use.

    It is called where much has been freed and other sizes follow. docs/decisions/tricks.md has what it saves.
    """
    if "pyarrow" in sys.modules:
        sys.modules["pyarrow"].default_memory_pool().release_unused()  # kept for the next file
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)


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
