"""The METIS library that pymetis brings, called with several balance constraints, in a process of its own.

pymetis itself passes one weight a node; the shared object behind it exports METIS's C functions with
64-bit integers. Source: METIS manual 5.1, section 5.4, ``METIS_PartGraphKway`` and
``METIS_PartGraphRecursive``.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.errors import EngineError
from partition_ops.system.signals import end_with_parent, restore_default_handlers

METIS_OK = 1
NO_MEMORY = -3
LEAST_STATUS = 4  # METIS returns -4 to 1
NUM_OPTIONS = 40  # METIS_NOPTIONS of METIS 5
MESSAGES = {
    -2: "it refused the graph or an option",
    NO_MEMORY: "there was not enough memory",
    -4: "an error that it does not explain",
}
Weights = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
_children: set[int] = set()


class LibraryDiedError(EngineError):
    """A library's process was killed, crashed or ran out of memory; the same call may succeed again."""

    transient = True


def cut_graph(
    graph: ParhipGraph,
    weights: Weights,
    fractions: Floats,
    allowed: Floats,
    *,
    seed: int,
    edge_weights: Weights | None = None,
    volume: bool = False,
    bisect: bool = False,
) -> npt.NDArray[np.int32]:
    """Return (nodes,) int32: METIS's partitions of a graph that has edges, and more nodes than partitions.

    Args:
        graph: Symmetric, without duplicates and self-loops; neighbours of 32 bits are copied to 64.
        weights: (nodes, constraints) int64, no column of zeros.
        fractions: (parts,) the share of every partition; they sum to 1.
        allowed: (constraints,) largest weight of a partition over its share.
        seed: The same seed gives the same partitions.
        edge_weights: (half-edges,) int64, or None if every edge weighs 1.
        volume: Whether to minimise the communication volume instead of the number of cut edges.
        bisect: Whether to use recursive bisection, which minimises the number of cut edges, instead of the
            k-way method. ``allowed`` is then for each bisection.

    Raises:
        EngineError: METIS failed.
    """
    parts = np.frombuffer(mmap.mmap(-1, 8 * graph.num_nodes), np.int64)  # shared with the child
    import pymetis._internal

    indices: Any = pymetis._internal.options_indices  # type: ignore[attr-defined]  # differ by version
    options = np.full(NUM_OPTIONS, -1, np.int64)  # -1 asks for METIS's default
    options[int(indices.SEED)] = seed
    options[int(indices.OBJTYPE)] = int(volume)
    options[int(indices.NUMBERING)] = 0
    neighbours = np.asarray(graph.neighbours, np.int64)
    call = partial(
        _library().METIS_PartGraphRecursive if bisect else _library().METIS_PartGraphKway,
        _number(graph.num_nodes),
        _number(weights.shape[1]),
        pointer(graph.offsets),
        pointer(neighbours),
        pointer(weights),
        None,  # sizes of the nodes, for the communication volume
        None if edge_weights is None else pointer(edge_weights),
        _number(len(fractions)),
        pointer(np.repeat(fractions, weights.shape[1]).astype(np.float32)),
        pointer(allowed.astype(np.float32)),
        pointer(options),
        _number(0),
        pointer(parts),
    )
    status = call_in_child("METIS", lambda: call() + LEAST_STATUS) - LEAST_STATUS  # METIS catches SIGTERM
    if status != METIS_OK:
        kind = LibraryDiedError if status == NO_MEMORY else EngineError
        raise kind(
            f"METIS could not partition the graph: {MESSAGES.get(status, f'status {status}')}",
            found=f"{graph.num_nodes} nodes, {graph.num_half_edges} half-edges, {weights.shape[1]} weights",
            remedy="Use a machine with more memory, another --balance, or --engine random.",
        )
    return parts.astype(np.int32)


def call_in_child(name: str, work: Callable[[], int]) -> int:
    """Return the result of a function, 0 to 254, that a forked child calls; a signal here ends the child.

    This process sees only what the child writes to shared memory; files and sockets are closed in the child.
    The function must call compiled code and nothing else, because a forked process has no other threads.

    Raises:
        LibraryDiedError: The child was killed, or crashed.
    """
    bind = end_with_parent(os.getpid())
    child = os.fork()
    if child == 0:
        try:
            restore_default_handlers()
            for number in (signal.SIGINT, signal.SIGHUP):  # a terminal sends them to the parent too
                signal.signal(number, signal.SIG_IGN)
            bind()
            with suppress(OSError):  # all but standard streams: a lock would outlive the parent
                os.closerange(3, max(int(path.name) for path in Path("/dev/fd").iterdir()) + 1)
            os._exit(work())
        finally:
            os._exit(255)
    _children.add(child)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    finally:
        _children.discard(child)
    if status < 0 or status == 255:
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else "could not be called"
        raise LibraryDiedError(
            f"{name} {how}", remedy="Use a machine with more memory, or another engine, such as random."
        )
    return status


def kill_children() -> None:
    """Kill the children that other threads wait for in `call_in_child`, which then raises an error there."""
    for child in [*_children]:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


@cache
def _library() -> Any:
    import pymetis._internal

    return ctypes.CDLL(pymetis._internal.__file__)


def _number(value: int) -> Any:
    return ctypes.byref(ctypes.c_int64(value))


def pointer(array: npt.NDArray[Any]) -> Any:
    """Return an array as an argument of a C function; it keeps the array alive."""
    return array.ctypes.data_as(ctypes.c_void_p)
