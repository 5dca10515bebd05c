"""A new file that goes to the disk past the page cache, while its SHA-256 is computed."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

BUFFER_BYTES = 4 << 20  # a multiple of what disks and file systems ask for
UNBUFFERED: int = getattr(os, "O_DIRECT", 0)  # Linux

Bytes = npt.NDArray[np.uint8]


class DirectFile(io.RawIOBase):
    """A stream into a new file, which is not kept in memory.

    Pages of a large file in the page cache cost processor time, and displace files that somebody reads. While
    a thread hashes and writes one buffer, the next one is filled. If a file system does not write past the
    page cache, the file is written through it.

    Whoever seeks back gets an ordinary file from then on, without a digest.

    Args:
        path: The file, which must not exist.

    Peak memory: two buffers of 4 MiB.
    """

    def __init__(self, path: Path) -> None:
        self._file = _open(path)
        self._buffers = [_aligned(), _aligned()]
        self._filled = 0  # bytes of the first buffer
        self._begin = 0  # position of the first buffer in the file
        self._digest = hashlib.sha256()
        self._pool: ThreadPoolExecutor | None = None
        self._pending: Future[None] | None = None
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
            self._buffers[0][self._filled : self._filled + taken] = rest[:taken]
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
        """Let the thread hash and write the first buffer, once it is done with the second one."""
        self._wait()
        self._pool = self._pool or ThreadPoolExecutor(1)
        self._pending = self._pool.submit(self._put, self._buffers[0], self._begin)
        self._begin += BUFFER_BYTES
        self._filled = 0
        self._buffers.reverse()

    def _wait(self) -> None:
        pending, self._pending = self._pending, None
        if pending is not None:
            pending.result()

    def _stop(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def _finish(self) -> None:
        """Write what is in the buffer, whose size is not aligned, through the page cache."""
        self._wait()
        if self._filled:
            _set_buffered(self._file)
            self._put(self._buffers[0][: self._filled], self._begin)
            self._begin += self._filled
            self._filled = 0
        os.lseek(self._file, self._begin, os.SEEK_SET)

    def _put(self, data: Bytes, position: int) -> None:
        self._digest.update(data.data)
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
