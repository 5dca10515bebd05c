"""A new file that goes to the disk past the page cache, while its SHA-256 is computed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import mmap
import os
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

BUFFER_BYTES = 4 << 20  # a multiple of what disks and file systems ask for
BUFFERS = 4  # one is filled, while others are hashed and written
UNBUFFERED: int = getattr(os, "O_DIRECT", 0)  # Linux

Bytes = npt.NDArray[np.uint8]


class DirectFile(io.RawIOBase):
    """A stream into a new file, which is not kept in memory.

    Pages of a large file in the page cache displace files that somebody reads, and take processor time: this
    class saves 2 s of 19 s in a job at scale 1, see docs/decisions/tricks.md. While one thread hashes full
    buffers and another one writes them, the next buffer is filled, so that neither a slow disk nor the hash
    makes the other ones wait. If a file system does not write past the page cache, the file is written
    through it.

    Whoever seeks back gets an ordinary file from then on, without a digest.

    Args:
        path: The file, which must not exist.

    Peak memory: four buffers of 4 MiB.
    """

    def __init__(self, path: Path) -> None:
        self._file = _open(path)
        self._buffers = [_aligned()]  # those that nobody uses, and at the end the one that is being filled
        self._filled = 0  # bytes of the last buffer
        self._begin = 0  # position of the last buffer in the file
        self._digest = hashlib.sha256()
        self._pools: list[ThreadPoolExecutor] = []  # one thread that hashes, and one that writes
        self._pending: deque[tuple[Bytes, list[Future[None]]]] = deque()  # buffers that they have
        self._plain: io.FileIO | None = None  # once somebody has sought back

    @property
    def sha256(self) -> str | None:
        """SHA-256 of the file in hex, once it is closed; None if it was not written from front to back."""
        return None if self._plain is not None else self._digest.hexdigest()

    def writable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._begin + self._filled if self._plain is None else self._plain.tell()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        if self._plain is None:
            if whence != os.SEEK_END and offset == (self.tell() if whence == os.SEEK_SET else 0):
                return self.tell()
            self._finish()
            self._plain = io.FileIO(self._file, "r+b", closefd=False)
        return self._plain.seek(offset, whence)

    def write(self, data: Any) -> int:
        rest: Bytes = np.frombuffer(data, np.uint8)
        size = len(rest)
        if self._plain is not None:
            view = memoryview(rest.data)
            while len(view):
                view = view[self._plain.write(view) or 0 :]
            return size
        while len(rest):
            taken = min(len(rest), BUFFER_BYTES - self._filled)
            self._buffers[-1][self._filled : self._filled + taken] = rest[:taken]
            self._filled += taken
            rest = rest[taken:]
            if self._filled == BUFFER_BYTES:
                self._send()
        return size

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._plain is None:
                self._finish()
        finally:
            self._stop()
            os.close(self._file)
            self._buffers = []
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._filled = 0  # nobody needs the rest
        super().__exit__(kind, error, trace)

    def _send(self) -> None:
        """Let the threads hash and write the last buffer, and get another one."""
        self._pools = self._pools or [ThreadPoolExecutor(1) for _ in range(2)]
        data = self._buffers.pop()
        works = partial(self._digest.update, data.data), partial(self._put, data, self._begin)
        futures = [pool.submit(work) for pool, work in zip(self._pools, works, strict=True)]
        self._pending.append((data, futures))
        self._begin += BUFFER_BYTES
        self._filled = 0
        if not self._buffers:
            self._buffers.append(_aligned() if len(self._pending) < BUFFERS else self._take_back())

    def _take_back(self) -> Bytes:
        """Wait until the threads are done with the oldest buffer, and return it."""
        data, futures = self._pending.popleft()
        for future in futures:
            future.result()
        return data

    def _stop(self) -> None:
        for pool in self._pools:
            pool.shutdown(cancel_futures=True)
        self._pools = []
        self._pending.clear()

    def _finish(self) -> None:
        """Write what is in the buffer, whose size is not aligned, through the page cache."""
        while self._pending:
            self._buffers.insert(0, self._take_back())
        if self._filled:
            _set_buffered(self._file)
            data = self._buffers[-1][: self._filled]
            self._digest.update(data.data)
            self._put(data, self._begin)
            self._begin += self._filled
            self._filled = 0
        os.lseek(self._file, self._begin, os.SEEK_SET)

    def _put(self, data: Bytes, position: int) -> None:
        rest = memoryview(data.data)
        while len(rest):
            try:
                written = os.pwrite(self._file, rest, position)
            except OSError as error:
                if error.errno != errno.EINVAL or not _set_buffered(self._file):
                    raise
                continue
            rest, position = rest[written:], position + written


def _open(path: Path) -> int:
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | getattr(os, "O_CLOEXEC", 0)
    try:
        return os.open(path, flags | UNBUFFERED, 0o666)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise
    path.unlink(missing_ok=True)  # some kernels create the file before they refuse
    return os.open(path, flags, 0o666)


def _set_buffered(file: int) -> bool:
    """Write through the page cache from now on; return whether that changes anything."""
    flags = fcntl.fcntl(file, fcntl.F_GETFL)
    if not flags & UNBUFFERED:
        return False
    fcntl.fcntl(file, fcntl.F_SETFL, flags & ~UNBUFFERED)
    return True


def _aligned() -> Bytes:
    """Return a buffer at the beginning of a page."""
    return np.frombuffer(mmap.mmap(-1, BUFFER_BYTES), np.uint8)
