"""Writing to the disk that goes on while the processor does something else."""

from __future__ import annotations

import ctypes
import sys
from functools import cache
from typing import Any

SYNC_FILE_RANGE_WRITE = 2  # <linux/fs.h>: begin to write what is dirty, wait for nothing
TO_THE_END = 0


def start_flushing(file: int) -> None:
    """Ask the kernel to begin writing a file to the disk, so that a later ``fsync`` has less to wait for.

    Only Linux can; elsewhere, and where it refuses, nothing happens.

    Args:
        file: Descriptor of the file.
    """
    sync_file_range = _sync_file_range()
    if sync_file_range is not None:
        sync_file_range(file, 0, TO_THE_END, SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Any:
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function
