"""Memory limits and memory use of this process."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import sys
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import Any

import numpy.typing as npt
import psutil

from partition_ops.system.parallel import cores

CGROUPS = Path("/sys/fs/cgroup")
OWN_CGROUPS = Path("/proc/self/cgroup")
TRIM_THRESHOLD, MMAP_MAX, ARENA_MAX = -1, -4, -8  # <malloc.h>
NEVER = -1
MOST_KEPT = 0.05  # of the memory limit: freed memory between two tasks
STATUS = Path("/proc/self/status")
bounds: list[int] = []  # of `partition_ops.system.memory_guard`, in bytes


def reuse_freed_memory() -> None:
    """Let the C library keep freed memory for the next arrays, in as many arenas as there are cores.

    By default, glibc gives the memory of an array back to the system, which clears other pages for the next
    one. `give_back_freed_memory` bounds what is kept. This does nothing with other C libraries, or if the
    environment has settings of ``malloc``.
    """
    global _reused
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    mallopt = getattr(library, "mallopt", None)
    # no pages are mapped for a single array: glibc would unmap them when it is freed
    settings = {ARENA_MAX: cores(), MMAP_MAX: 0, TRIM_THRESHOLD: NEVER}
    if any(name.startswith(("MALLOC_", "GLIBC_TUNABLES")) for name in os.environ):
        return
    if mallopt is None or not hasattr(library, "mallinfo2"):
        return
    for setting, value in settings.items():
        mallopt(setting, value)
    _reused = library


_reused: ctypes.CDLL | None = None  # the C library, once it keeps freed memory


class _Allocated(ctypes.Structure):
    """``struct mallinfo2`` of <malloc.h>."""

    _fields_ = [(f"field{i}", ctypes.c_size_t) for i in range(7)] + [
        (name, ctypes.c_size_t) for name in ("used", "free", "top")
    ]


def give_back_freed_memory(most: int | None = None) -> bool:
    """Give freed memory that the C library keeps back to the system, if it is more than a bound.

    Args:
        most: Bytes that may be kept; `MOST_KEPT` of the limit if left out.

    Returns:
        Whether any was given back.
    """
    if _reused is None:
        return False
    _reused.mallinfo2.restype = _Allocated
    kept = anonymous_memory() - int(_reused.mallinfo2().used)
    if kept <= (memory_limit() * MOST_KEPT if most is None else most):
        return False
    return bool(_reused.malloc_trim(0))


def anonymous_memory() -> int:
    """Return the resident memory of this process that is not of files, in bytes; Linux only."""
    lines = STATUS.read_text(errors="replace").splitlines()
    return sum(int(line.split()[1]) << 10 for line in lines if line.startswith("RssAnon:"))


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

    This does nothing for other arrays, and on systems without ``madvise``.
    """
    mapped = getattr(array, "_mmap", None)
    if mapped is not None and hasattr(mmap, "MADV_DONTNEED"):
        mapped.madvise(mmap.MADV_DONTNEED)
