"""Arrays in new files, mapped for writing, on disks that may have no room for them."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt


def new_array(file: Path | IO[bytes], shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Create a file of zeros without a header, and return its array, mapped for writing.

    The file takes its room on the disk at once. If pages found none later, when they are written, the process
    would end by a signal. An empty array is not mapped, and has no file.

    Raises:
        OSError: The disk has no room.
    """
    if 0 in shape:
        return np.zeros(shape, dtype)
    array: npt.NDArray[Any] = np.memmap(file, dtype, "w+", shape=tuple(shape))
    _take_room(file)
    return array


def new_npy(path: Path, shape: Sequence[int], dtype: npt.DTypeLike) -> npt.NDArray[Any]:
    """Create a ``.npy`` file of zeros, and return its array, mapped for writing, as `new_array` does.

    An empty array has a file, but is not mapped.

    Raises:
        OSError: The disk has no room.
    """
    if 0 in shape:
        empty: npt.NDArray[Any] = np.zeros(shape, dtype)
        with path.open("wb") as stream:
            np.save(stream, empty)
        return empty
    array: npt.NDArray[Any] = np.lib.format.open_memmap(path, "w+", np.dtype(dtype), tuple(shape))
    _take_room(path)
    return array


def _take_room(file: Path | IO[bytes]) -> None:
    """Make the file system keep room for all pages of a file, which were not written yet."""
    if not hasattr(os, "posix_fallocate"):  # as on macOS
        return
    if isinstance(file, Path):
        with file.open("r+b") as stream:
            _take_room(stream)
        return
    try:
        os.posix_fallocate(file.fileno(), 0, os.fstat(file.fileno()).st_size)
    except OSError as error:
        error.filename = file.name
        raise
