"""Reading many scattered rows of a file straight into an array: one system call each, without Python."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numba import njit, types

Ids = npt.NDArray[np.int64]

_pread: Any = types.ExternalFunction(
    "pread", types.intp(types.int32, types.voidptr, types.uintp, types.int64)
)


@njit(cache=True, nogil=True)
def read_rows(file: int, offset: int, width: int, rows: Ids, places: Ids, out: npt.NDArray[np.uint8]) -> int:
    """Read rows of a table in a file.

    Args:
        file: Its descriptor.
        offset: Where row 0 begins.
        width: Bytes of a row.
        rows: (n,) int64, which rows.
        places: (n,) int64, the row of ``out`` that each goes to.
        out: (…, width) uint8, written to.

    Returns:
        The number of rows that could not be read whole.
    """
    failed = 0
    for i in range(len(rows)):
        if _pread(file, out[places[i]].ctypes, width, offset + rows[i] * width) != width:
            failed += 1
    return failed
