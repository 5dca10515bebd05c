"""A new file that goes to the disk past the page cache, and whose SHA-256 is computed meanwhile."""

from __future__ import annotations

import errno
import fcntl
import hashlib
import io
import mmap
import os
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any

ALIGNED = 4096  # a multiple of what disks and file systems ask for
BUFFER_BYTES = 1024 * ALIGNED
UNBUFFERED: int = getattr(os, "O_DIRECT", 0)  # Linux


class DirectFile(io.RawIOBase):
    """A stream into a new file, which is not kept in memory.

    Pages of a large file in the page cache displace files that somebody reads, and take processor time;
    docs/decisions/tricks.md has what this class saves. If a file system does not write past the page cache,
    the file is written through it. A thread writes a full buffer while that is hashed and the next one is
    filled; an error of the disk is raised by one of the next calls.

    Whoever seeks back gets an ordinary file from then on, without a digest.

    Args:
        path: The file, which must not exist.

    Peak memory: 4 MiB, and for a file that is larger than that 8 MiB.
    """

    def __init__(self, path: Path) -> None:
        self._file = _open(path)
        self._buffer, self._other = _buffer(), memoryview(b"")
        self._thread: ThreadPoolExecutor | None = None
        self._writing: Future[None] | None = None  # of the other buffer
        self._filled = 0  # bytes of the buffer
        self._begin = 0  # position of the buffer in the file
        self._digest = hashlib.sha256()
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
            _set_buffered(self._file)  # what follows is not aligned
            self._plain = io.FileIO(self._file, "r+b", closefd=False)
        return self._plain.seek(offset, whence)

    def write(self, data: Any) -> int:
        import numpy as np  # --help does without

        rest = np.frombuffer(data, np.uint8).data  # also of arrays without rows
        size = len(rest)
        while self._plain is not None and len(rest):
            rest = rest[self._plain.write(rest) or 0 :]
        while len(rest):
            taken = min(len(rest), BUFFER_BYTES - self._filled)
            self._buffer[self._filled : self._filled + taken] = rest[:taken]
            self._filled += taken
            rest = rest[taken:]
            if self._filled == BUFFER_BYTES:
                self._put_beside()
        return size

    def close(self) -> None:
        if self.closed:
            return
        try:
            if self._plain is None:
                self._finish()
        finally:
            if self._thread is not None:
                self._thread.shutdown()
            os.close(self._file)
            super().close()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None:
            self._filled = 0  # nobody needs the rest
            with suppress(OSError):  # the first error counts
                self._wait()
        super().__exit__(kind, error, trace)

    def _put_beside(self) -> None:
        """Let the thread write the full buffer, and go on with the other one, which has been written."""
        self._wait()
        self._thread = self._thread or ThreadPoolExecutor(1, "write")
        self._writing = self._thread.submit(self._put, self._buffer, self._begin)
        self._digest.update(self._buffer)
        self._begin += BUFFER_BYTES
        self._buffer, self._other = self._other or _buffer(), self._buffer
        self._filled = 0

    def _wait(self) -> None:
        """Wait for the buffer that is written, and raise its error."""
        writing, self._writing = self._writing, None
        if writing is not None:
            writing.result()

    def _finish(self) -> None:
        """Write the buffer; only the end, whose size is not aligned, goes through the page cache.

        For files that are smaller than the buffer, this halves the processor time of writing.
        """
        self._wait()
        self._digest.update(self._buffer[: self._filled])
        whole = self._filled - self._filled % ALIGNED
        self._put(self._buffer[:whole], self._begin)
        if whole < self._filled:
            _set_buffered(self._file)
            self._put(self._buffer[whole : self._filled], self._begin + whole)
        self._begin, self._filled = self.tell(), 0
        os.lseek(self._file, self._begin, os.SEEK_SET)

    def _put(self, rest: memoryview, begin: int) -> None:
        """Write bytes at a position of the file."""
        while len(rest):
            try:
                written = os.pwrite(self._file, rest, begin)
            except OSError as error:
                if error.errno != errno.EINVAL or not _set_buffered(self._file):
                    raise
                continue
            rest, begin = rest[written:], begin + written


def _buffer() -> memoryview:
    """Return a buffer that begins at a page."""
    private = mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS  # shared pages take the system longer
    return memoryview(mmap.mmap(-1, BUFFER_BYTES, private))


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
