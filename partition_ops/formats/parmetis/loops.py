"""The hot loop of reading ParMETIS's output.

Compiled by numba on first use and kept on disk beside this file, or in the user's cache folder where
that one cannot be written.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
from numba import njit


@njit(cache=True, nogil=True)
def mark_new(ids: npt.NDArray[Any], seen: npt.NDArray[Any]) -> int:
    """Mark IDs as seen, up to the first that was already.

    Args:
        ids: (n,) int64, inside the range of ``seen``.
        seen: (IDs,) bool, written.

    Returns:
        The row of that ID, or -1.
    """
    for row in range(len(ids)):
        if seen[ids[row]]:
            return row
        seen[ids[row]] = True
    return -1
