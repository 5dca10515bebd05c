"""Arrays written to and read from positions of an open file, by several threads at once."""

from __future__ import annotations

import os
from typing import Any

import numpy.typing as npt


def write_at(file: int, array: npt.NDArray[Any], position: int) -> None:
    """Write an array to a file.

    Args:
        file: Descriptor of the file.
        array: Contiguous array.
        position: First byte in the file.
    """
    rest = memoryview(array.data).cast("B")
    while len(rest):
        written = os.pwrite(file, rest, position)
        rest, position = rest[written:], position + written


def read_at(file: int, array: npt.NDArray[Any], position: int) -> None:
    """Fill an array from a file; arguments as of `write_at`.

    Raises:
        EOFError: The file is too short.
    """
    rest = memoryview(array.data).cast("B")
    while len(rest):
        count = os.preadv(file, [rest], position)
        if count == 0:
            raise EOFError(f"The file ends at byte {position}")
        rest, position = rest[count:], position + count
