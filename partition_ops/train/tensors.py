"""Tensors of torch over mapped arrays."""

from __future__ import annotations

import warnings
from typing import Any

import numpy.typing as npt
import torch


def readonly_tensor(array: npt.NDArray[Any]) -> torch.Tensor:
    """Return a tensor over a mapped array, which must not be written to."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)
