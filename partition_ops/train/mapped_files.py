"""Files mapped into memory, and a limit for the pages of them that stay resident."""

from __future__ import annotations

import mmap
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

NPY_HEADER = 128  # bytes before the array of a file that `create_npy` or `numpy.save` writes
STATM = Path("/proc/self/statm")
FAULT_AROUND = 64 << 10  # bytes that Linux maps around a page that is touched, if they are in the page cache


class MappedFile:
    """A file mapped for reading; the mapping lives as long as any array that was made from it.

    The kernel reads pages when they are touched, without reading ahead, because accesses are scattered.

    Args:
        path: The file; an empty one has only empty arrays.

    Peak memory: the pages that are touched, until `release`.
    """

    def __init__(self, path: Path) -> None:
        with path.open("rb") as stream:
            size = stream.seek(0, 2)
            self._map = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) if size else None
        if self._map is not None:
            self._map.madvise(mmap.MADV_RANDOM)

    def array(self, offset: int, dtype: npt.DTypeLike, shape: tuple[int, ...]) -> npt.NDArray[Any]:
        """Return an array inside the file, not copied and not writable; it may be unaligned."""
        count = int(np.prod(shape, dtype=np.int64))
        if count == 0 or self._map is None:
            return np.empty(shape, dtype)
        flat: npt.NDArray[Any] = np.frombuffer(self._map, np.uint8, count * np.dtype(dtype).itemsize, offset)
        return flat.view(dtype).reshape(shape)

    def release(self) -> None:
        """Unmap the pages from this process; the next access maps them again, mostly from the page cache."""
        if self._map is not None:
            self._map.madvise(mmap.MADV_DONTNEED)


def map_npy(path: Path, resident: ResidentLimit) -> npt.NDArray[Any]:
    """Return the array of a ``.npy`` file, mapped; `resident` limits its resident pages."""
    with path.open("rb") as stream:
        version = np.lib.format.read_magic(stream)
        if version != (1, 0):
            raise ValueError(f"{path} has version {version} of the format, not (1, 0)")
        shape, _, dtype = np.lib.format.read_array_header_1_0(stream)
        offset = stream.tell()
    return resident.watch(MappedFile(path)).array(offset, dtype, shape)


def create_npy(path: Path, count: int, dtype: npt.DTypeLike = np.int64) -> npt.NDArray[Any]:
    """Create a ``.npy`` file of zeros, and return its array (count,), mapped for writing."""
    if count == 0:  # an empty file cannot be mapped
        np.save(path, np.empty(0, dtype))
        return np.empty(0, dtype)
    array: npt.NDArray[Any] = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=(count,))
    return array


class ResidentLimit:
    """Keeps the mapped pages of a process below a limit, by releasing all of them when there are more.

    The kernel reclaims them by itself when memory is short; until then they count as resident memory of the
    process, which some schedulers limit. Released pages stay in the page cache. Usable from several threads
    and, after a fork, in every process.

    Args:
        limit: Bytes of mapped files that may be resident, in addition to the program's own files. None leaves
            it to the kernel, which is faster, because a released page must be mapped again.
    """

    def __init__(self, limit: int | None = None) -> None:
        self.limit = limit
        self._files: list[MappedFile] = []
        self._lock = threading.Lock()
        self._base = _mapped_bytes()

    def watch(self, file: MappedFile) -> MappedFile:
        """Add a file to those whose pages are released, and return it."""
        with self._lock:
            self._files.append(file)
        return file

    def scattered(self, size: int) -> int:
        """Return how many scattered pieces of ``size`` bytes may be read between two checks, at least one."""
        if self.limit is None:
            return sys.maxsize
        return max(self.limit // (2 * (FAULT_AROUND + size)), 1)

    def check(self) -> None:
        """Release all pages if there are too many. Takes some microseconds otherwise."""
        if self.limit is None or _mapped_bytes() <= self._base + self.limit:
            return
        with self._lock:
            for file in self._files:
                file.release()
            self._base = _mapped_bytes()


def _mapped_bytes() -> int:
    """Return the resident file-backed bytes of this process; 0 if the system does not report them."""
    try:
        return int(STATM.read_bytes().split()[2]) * mmap.PAGESIZE
    except OSError:  # not Linux
        return 0
