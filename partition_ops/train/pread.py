"""The hot loops of reading many scattered rows straight into an array, without Python."""

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


@njit(cache=True, nogil=True)
def copy_rows(table: npt.NDArray[np.uint8], rows: Ids, places: Ids, out: npt.NDArray[np.uint8]) -> int:
    """Copy rows of a mapped table.

    Args:
        table: (…, width) uint8.
        rows: (n,) int64, which rows.
        places: (n,) int64, the row of ``out`` that each goes to.
        out: (…, width) uint8, written to.

    Returns:
        0, as `read_rows` does when all went well.
    """
    for i in range(len(rows)):
        row, place = rows[i], places[i]
        for byte in range(table.shape[1]):
            out[place, byte] = table[row, byte]
    return 0
