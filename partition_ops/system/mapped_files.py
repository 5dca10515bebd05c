"""Arrays in new files, mapped for writing, on disks that may have no room for them."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

# of a C library that does not reserve room where the file system cannot: files there grow as they are written
UNSUPPORTED = {errno.EOPNOTSUPP, errno.EINVAL, errno.ENOSYS}


def new_array(file: Path | IO[bytes], shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Create a file of zeros without a header, and return its array, mapped for writing.

    The file reserves its room on the disk at once. If pages found none later, when they are written, the
    process would end by a signal. An empty array is not mapped.

    Args:
        file: Path of the file, or a new file that is open for reading and writing.
        shape: Shape of the array.
        dtype: Its dtype.

    Raises:
        OSError: The disk has no room; the error has the path if ``file`` is one.
    """
    if isinstance(file, Path):
        try:
            with file.open("w+b") as stream:
                return new_array(stream, shape, dtype)
        except OSError as error:
            error.filename = str(file)
            raise
    if 0 in shape:
        return np.zeros(shape, dtype)
    begin = file.tell()
    _reserve(file, begin + math.prod(shape) * np.dtype(dtype).itemsize)
    return np.memmap(file, dtype, "r+", begin, tuple(shape))


def new_npy(path: Path, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Create a ``.npy`` file of zeros, and return its array, mapped for writing, as `new_array` does.

    Raises:
        OSError: The disk has no room; the error has the path.
    """
    described = {
        "descr": np.lib.format.dtype_to_descr(np.dtype(dtype)),
        "fortran_order": False,
        "shape": tuple(map(int, shape)),
    }
    try:
        with path.open("w+b") as stream:
            np.lib.format.write_array_header_1_0(stream, described)
            stream.flush()
            return new_array(stream, shape, dtype)
    except OSError as error:
        error.filename = str(path)
        raise


def _reserve(file: IO[bytes], size: int) -> None:
    """Make a file so large, with room on the disk for all of it."""
    if hasattr(os, "posix_fallocate"):  # not on macOS
        try:
            os.posix_fallocate(file.fileno(), 0, size)
            return
        except OSError as error:
            if error.errno not in UNSUPPORTED:
                with suppress(OSError):
                    os.ftruncate(file.fileno(), 0)  # what was found is left to others
                raise
    os.ftruncate(file.fileno(), size)
