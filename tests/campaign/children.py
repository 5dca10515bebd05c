"""Functions in child processes, which are forked: a child that crashes or hangs is a result."""

from __future__ import annotations

import os
import pickle
import signal
import tempfile
import time
import traceback
from collections.abc import Callable
from typing import Any

from tests.campaign.frame import Defect

PATIENCE = 300.0  # seconds


def in_child(work: Callable[[], Any], what: str) -> Any:
    """Return what a function returns in a child process.

    Raises:
        Defect: The child raised an exception, crashed, or did not end.
    """
    with tempfile.TemporaryFile() as answer:
        child = os.fork()
        if child == 0:
            _become(work, answer.fileno())
        end = time.monotonic() + PATIENCE
        pause = 0.001
        while True:
            found, status = os.waitpid(child, os.WNOHANG)
            if found:
                break
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                raise Defect(f"{what}: no end within {PATIENCE:.0f} s")
            time.sleep(pause)
            pause = min(0.02, pause * 1.5)
        answer.seek(0)
        data = answer.read()
    code = os.waitstatus_to_exitcode(status)
    if code != 0 or not data:
        raise Defect(f"{what}: the process ended with {code}")
    good, value = pickle.loads(data)
    if not good:
        raise Defect(f"{what}: {value}")
    return value


def _become(work: Callable[[], Any], answer: int) -> None:
    """Run the function, and write its result; never returns."""
    code = 1
    try:
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(quiet, stream)
        try:
            result = True, work()
        except BaseException:
            result = False, traceback.format_exc()
        os.write(answer, pickle.dumps(result))
        code = 0
    finally:
        os._exit(code)
