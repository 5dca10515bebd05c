"""Decorators for loops that numba compiles, and the message when it does.

numba compiles a loop when it is first called, and keeps the code in `cache_folder`, where other processes
find it. If that folder is read-only, the code is kept beside the module, and if that is read-only too, each
process compiles what it calls. The loops release the interpreter's lock, so that threads can run them.
"""

from __future__ import annotations

import importlib
import logging
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from types import ModuleType
from typing import Any, TypeVar, cast

import numpy as np
from llvmlite import ir  # type: ignore[import-untyped]
from numba import njit
from numba.core import config, event, types
from numba.extending import intrinsic

from partition_ops import __version__

logger = logging.getLogger("partition_ops")
Loop = TypeVar("Loop", bound=Callable[..., Any])
LOOPS: list[Any] = []  # of the modules that have been imported
_not_kept: list[Any] = []  # of these, those whose code finds no writable folder
# threads may import modules with loops at the same time: without it, one kept its code in the current folder
_setting = threading.RLock()
UNCOUNTED: dict[str, Any] = {"_nrt": False}  # numba's own loops use this option, too
AHEAD = 16  # turns of a loop, which take about as long as a read from memory
MESSAGE = (
    "Compiling loops for this processor: up to a minute, once for an installation."
    " 'partition-ops compile' does it ahead of time."
)
NOT_KEPT = (
    "Compiling loops for this processor: up to a minute, in each process, because neither %s nor the folder"
    " of the installation is writable. Set NUMBA_CACHE_DIR to a folder that is."
)


def _import_without_blas() -> None:
    """Import the module of numba that looks for SciPy's BLAS, without importing that.

    Our loops have no products of matrices, and `scipy.linalg` takes 0.25 s: an eighth of the job on a graph
    of 0.6 million edges, and as much of every task in Airflow. A product in somebody else's loop imports it.
    """
    blas = "scipy.linalg.cython_blas"
    looked_for = sys.modules.setdefault(blas, ModuleType(blas))
    try:
        with suppress(ImportError):  # another version of numba may look elsewhere
            importlib.import_module("numba.np.arraymath")
    finally:
        if looked_for.__spec__ is None:
            del sys.modules[blas]


_import_without_blas()


def cache_folder() -> str:
    """Return the folder for compiled code: ``NUMBA_CACHE_DIR``, or one of this version in the user's cache.

    Version 1.2.3 has ``~/.cache/partition-ops/1.2.3``; ``XDG_CACHE_HOME`` takes the place of ``~/.cache``.
    """
    settings: Any = config  # numba has no annotations for it
    home = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")  # noqa: PTH111 (Path's may fail)
    return str(settings.CACHE_DIR or f"{home}/partition-ops/{__version__}")


def compiled(loop: Loop) -> Loop:
    """Compile a loop that makes and returns no arrays, when it is first called.

    numba counts no references to arrays in it. Counting them took up to nine tenths of the time of loops that
    look up arrays of a `NamedTuple` and branch, and threads wait for each other's counts.
    """
    made = _dispatcher(loop, **UNCOUNTED)
    LOOPS.append(made)
    return cast(Loop, made)


def compiled_with_arrays(loop: Loop) -> Loop:
    """Compile a loop that makes or returns arrays, when it is first called."""
    made = _dispatcher(loop)
    LOOPS.append(made)
    return cast(Loop, made)


def compiled_inline(loop: Loop) -> Loop:
    """Compile a loop into each of its callers."""
    return cast(Loop, _dispatcher(loop, inline="always"))


def _dispatcher(loop: Loop, **options: Any) -> Any:
    """Return the loop as numba calls it, with its code in `cache_folder`."""
    settings: Any = config
    with _setting:
        usual = settings.CACHE_DIR
        settings.CACHE_DIR = cache_folder()  # numba reads it only here, a few times for each loop
        try:
            return njit(cache=True, nogil=True, **options)(loop)
        except RuntimeError:  # no folder is writable
            _not_kept.append(loop)
            return njit(nogil=True, **options)(loop)
        finally:
            settings.CACHE_DIR = usual


@compiled_inline
def unsigned(number: Any) -> Any:
    """Return an index without sign, for the innermost loops.

    numba checks whether an index with a sign is negative, to count from the end. Without these instructions
    the processor has more reads under way at once, and loops that wait for memory take half the time. A sum
    of one number with and one without sign would be a float.
    """
    return np.uint64(number)


def _prefetch(typing: Any, table: Any, place: Any) -> Any:
    """Begin to read ``table[place]``, which a loop needs later, into the cache; any place is allowed.

    The processor itself begins reads early only as far as it sees, some 20 turns of a short loop, and not
    beyond a branch that it has guessed wrong. In loops that compute with what they look up, this halves the
    time if the table is not in the cache; see docs/decisions/two-level.md. Loops that only copy gain nothing.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _begin_to_read(builder, context.make_array(table)(context, builder, arguments[0]), arguments[1])
        return context.get_dummy_value()

    return types.void(table, types.intp), generate


def _prefetch_ahead(typing: Any, table: Any, places: Any, i: Any) -> Any:
    """Prefetch the entry of ``table`` that a loop over ``places`` looks up `AHEAD` turns after ``i``.

    The places must be contiguous.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        array = context.make_array(table)(context, builder, arguments[0])
        numbers = context.make_array(places)(context, builder, arguments[1])
        later = builder.add(arguments[2], context.get_constant(types.intp, AHEAD))
        with builder.if_then(builder.icmp_signed("<", later, builder.extract_value(numbers.shape, 0))):
            number = context.unpack_value(builder, places.dtype, builder.gep(numbers.data, [later]))
            _begin_to_read(builder, array, context.cast(builder, number, places.dtype, types.intp))
        return context.get_dummy_value()

    return types.void(table, places, types.intp), generate


def _begin_to_read(builder: Any, array: Any, place: Any) -> None:
    """Write the instruction for a row of an array."""
    address, flag = ir.IntType(8).as_pointer(), ir.IntType(32)
    offset = builder.mul(place, builder.extract_value(array.strides, 0))
    declared = ir.FunctionType(ir.VoidType(), [address, flag, flag, flag])
    prefetch = builder.module.declare_intrinsic("llvm.prefetch", [address], declared)
    at = builder.gep(builder.bitcast(array.data, address), [offset])
    to_read, nearest, data = (ir.Constant(flag, number) for number in (0, 3, 1))
    builder.call(prefetch, [at, to_read, nearest, data])


prefetch: Callable[[Any, Any], None] = cast(Any, intrinsic(_prefetch))
prefetch_ahead: Callable[[Any, Any, Any], None] = cast(Any, intrinsic(_prefetch_ahead))


def set_up() -> None:
    """Let numba set up what it does before the first loop is called: 0.3 s, in which others may wait."""
    from numba.core.compiler_lock import global_compiler_lock  # which is not part of numba's interface
    from numba.core.registry import cpu_target

    with global_compiler_lock:
        cpu_target.target_context.refresh()


def load_loops() -> int:
    """Load the compiled loops of all imported modules from disk, for the processes that are forked later.

    Nothing is compiled: loops that are not on disk for this processor are left out.

    Returns:
        The number of loaded loops; one that was compiled for several types counts several times.
    """
    loaded = 0
    for loop in LOOPS:
        with suppress(AttributeError, OSError):  # the index is not part of numba's interface
            cache, generator = loop._cache, loop.targetctx.codegen()
            index = cache._cache_file._load_index()
            for signature in {key[0] for key in index}:
                if cache._index_key(signature, generator) in index:
                    loop.compile(signature)
                    loaded += 1
    return loaded


class _Announcement(event.Listener):
    """Logs that loops are compiled, once in a process. Loops that are loaded from disk do not count."""

    said = False

    def on_start(self, event: Any) -> None:
        if not self.said:
            self.said = True
            logger.warning(*((NOT_KEPT, cache_folder()) if _not_kept else (MESSAGE,)))

    def on_end(self, event: Any) -> None:
        """Do nothing: the message was logged at the start."""


event.register("numba:compile", _Announcement())  # type: ignore[no-untyped-call]
