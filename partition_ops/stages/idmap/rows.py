"""Rows of one type in several files, end to end."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.idmap.row_files import RowFile

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Rows:
    """Arrays end to end.

    Attributes:
        arrays: (rows, ...) each, of one dtype and shape of a row.
        files: Where they come from.
    """

    arrays: Sequence[npt.NDArray[Any]]
    files: Sequence[RowFile]

    @property
    def dtype(self) -> np.dtype[Any]:
        return self.arrays[0].dtype.newbyteorder("=")

    @property
    def starts(self) -> list[int]:
        """First row of each array, and the number of rows."""
        return list(accumulate(map(len, self.arrays), initial=0))

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.starts[-1], *self.arrays[0].shape[1:])

    def between(self, begin: int, end: int) -> npt.NDArray[Any]:
        """Consecutive rows."""
        pieces = [
            array[max(0, begin - start) : max(0, end - start)]
            for array, start in zip(self.arrays, self.starts, strict=False)
        ]
        return np.concatenate(pieces)

    def take(self, ids: Ids) -> npt.NDArray[Any]:
        """Rows in any order."""
        taken = np.empty((len(ids), *self.shape[1:]), self.dtype)
        for array, (begin, end) in zip(self.arrays, pairwise(self.starts), strict=True):
            here = (ids >= begin) & (ids < end)
            taken[here] = array[ids[here] - begin]
        return taken


def open_rows(inputs: Sequence[RowFile]) -> Rows:
    """Open files that belong together, in the order in which they are given.

    Raises:
        UsageError: A file name does not say its format, or the files are not in the order of their numbers.
        InvalidInputError: A file cannot be read, or has another dtype or shape of a row than the first.
    """
    _check_order([file.where for file in inputs])
    arrays = [file.open() for file in inputs]
    for file, array in zip(inputs, arrays, strict=True):
        if array.dtype != arrays[0].dtype or array.shape[1:] != arrays[0].shape[1:]:
            raise InvalidInputError(
                f"{file.where} has other rows than {inputs[0].where}",
                found=f"{array.dtype} rows of shape {array.shape[1:]}",
                expected=f"{arrays[0].dtype} rows of shape {arrays[0].shape[1:]}",
            )
    return Rows(arrays, inputs)


def _check_order(names: Sequence[str]) -> None:
    """Refuse what a shell makes of ``*``: part10 before part2."""
    numbers = [[int(digits) for digits in re.findall(r"\d+", name)] for name in names]
    stems = {re.sub(r"\d+", "0", name) for name in names}
    if len(stems) == 1 and numbers != sorted(numbers):
        raise UsageError(
            "The input files are not in the order of their numbers",
            found=", ".join(name.rpartition("/")[2] for name in names[:12]),
            remedy="Give them in the order of the partitions.",
        )
