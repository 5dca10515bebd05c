"""Modules that take long to import, imported while the first stage reads files and waits for the disk."""

from __future__ import annotations

import logging
import threading
from importlib import import_module

import numpy as np

from partition_ops.stages.validate.connectivity import Connectivity

logger = logging.getLogger("partition_ops")

# pandas: pyarrow imports it when it makes its first array of one of NumPy's
SLOW = ("pandas", "partition_ops.stages.quality.page")


def import_ahead() -> threading.Thread:
    """Import what later stages need, in a thread of its own; each stage still imports it for itself.

    What cannot be imported is left to the stage that needs it, whose error is the one to see.
    """
    thread = threading.Thread(target=_import, name="imports")
    thread.start()
    return thread


def _import() -> None:
    try:
        _prepare_numba()
        for name in SLOW:
            import_module(name)
    except Exception as error:
        logger.debug("an import ahead of its use failed: %s", error)


def _prepare_numba() -> None:
    """The first compiled function that is called sets up Numba; the others then load quickly."""
    nothing = np.zeros(0, np.int64)
    Connectivity(1, 0).add(nothing, nothing, 0, 0)
