"""Calling compiled code that takes long, or catches signals, in a process of its own."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from partition_ops.errors import EngineError
from partition_ops.system.signals import restore_default_handlers

PR_SET_PDEATHSIG = 1  # <linux/prctl.h>


def call_in_child(name: str, work: Callable[[], int]) -> int:
    """Call a function in a child that is forked from here, and wait for it; a signal to this process ends it.

    Of what the child writes only what lies in shared memory is seen here; files and sockets are closed in it.

    Args:
        name: What it is, for the message.
        work: Calls compiled code and nothing else: other threads are not there in a forked process.

    Returns:
        What the function gave back, from 0 to 254.

    Raises:
        EngineError: The child was killed, or crashed.
    """
    parent, prctl = os.getpid(), _prctl()
    child = os.fork()
    if child == 0:
        try:
            restore_default_handlers()
            for number in (signal.SIGINT, signal.SIGHUP):  # of a terminal, which sends them to its parent too
                signal.signal(number, signal.SIG_IGN)
            if prctl is not None:
                prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
            if os.getppid() != parent:  # it had died before
                os._exit(255)
            _close_all()
            os._exit(work())
        finally:
            os._exit(255)
    try:
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except BaseException:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
        raise
    if status < 0 or status == 255:
        how = f"was ended by {signal.Signals(-status).name}" if status < 0 else "could not be called"
        raise EngineError(
            f"{name} {how}", remedy="Use a machine with more memory, or another engine, such as random."
        )
    return status


def _prctl() -> Any:
    """What has the system end a child with its parent; loaded before the fork, as another thread may load."""
    return ctypes.CDLL(None).prctl if sys.platform == "linux" else None


def _close_all() -> None:
    """Close all that the parent has open but the standard streams: a lock on a folder would live on here."""
    with suppress(OSError):  # where it cannot be listed
        os.closerange(3, max(int(path.name) for path in Path("/dev/fd").iterdir()) + 1)
