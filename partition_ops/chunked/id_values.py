"""IDs as callers hand them over, and results in the form in which they came.

One ID is a Python or NumPy integer; many are a list, a NumPy array, a torch tensor or anything else that
NumPy turns into an array of integers. torch is never imported here: a tensor can only come from a caller
who has done so.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError

Ids = npt.NDArray[np.int64]
LARGEST = 2**63 - 1


class InvalidIdError(InvalidInputError, ValueError):
    """An ID is outside its range, is no integer, or its type is unknown."""


@dataclass(frozen=True)
class GivenIds:
    """IDs as NumPy sees them.

    Attributes:
        values: int64, of the shape that was given; without dimensions for a single ID.
        device: The torch device that they came from; None for what is not a tensor.
    """

    values: Ids
    device: Any = None

    def like(self, result: npt.NDArray[Any]) -> Any:
        """A result in the form of what was given: an int, an array, or a tensor on the same device."""
        if self.device is not None:
            return sys.modules["torch"].from_numpy(np.ascontiguousarray(result)).to(self.device)
        return result if result.ndim else int(result)


def read_ids(ids: Any, what: str) -> GivenIds:
    """Take IDs in any form.

    Args:
        ids: One ID, or many of any shape.
        what: What they are, for messages.

    Raises:
        InvalidIdError: They are no integers, or one does not fit 64 bits.
    """
    tensor = is_tensor(ids)
    values = ids.detach().cpu().numpy() if tensor else np.asarray(ids)
    if values.size == 0 and not tensor:  # NumPy takes an empty list for floating-point numbers
        values = values.astype(np.int64)
    if values.dtype.kind not in "iu":
        raise InvalidIdError(
            f"{what} cannot be read",
            found=f"{type(ids).__name__} of {values.dtype}",
            expected="an integer of at most 64 bits, or an array of them",
        )
    if values.dtype == np.uint64:
        check_range(values, LARGEST + 1, what)
    scalar_tensor = tensor and values.ndim == 0
    device = ids.device if tensor and not scalar_tensor else None
    return GivenIds(values.astype(np.int64, copy=False), device)


def is_tensor(value: Any) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def check_range(values: npt.NDArray[Any], count: int, what: str, *, first: int = 0) -> None:
    """Refuse IDs outside ``[first, first + count)``.

    Raises:
        InvalidIdError: With the first wrong ID and its position.
    """
    end = first + count
    if values.size == 0 or (values.min() >= first and values.max() < end):
        return
    flat = values.reshape(-1)
    position = int(np.flatnonzero((flat < first) | (flat >= end))[0])
    at = f" at position {position}" if values.ndim else ""
    raise InvalidIdError(
        f"{what} is out of range{at}",
        found=int(flat[position]),
        expected=f"{first} to {end - 1}" if count else "no ID at all: there are none of this kind",
    )
