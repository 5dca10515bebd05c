"""Run a command in its own process and measure its resources."""

from __future__ import annotations

import os
import statistics
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from typing import Any

import psutil

WATCH_SECONDS = 0.05


@dataclass(frozen=True)
class Cost:
    """Resources that one process used.

    Attributes:
        wall: Seconds from its start to its end.
        cpu: Seconds on all cores, with those of its own children.
        peak: Bytes, the largest resident set of the process and those that it started, all together; files
            that they have mapped are part of it.
        output: Its standard output.
    """

    wall: float
    cpu: float
    peak: int
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "output"}


def measure(command: Sequence[str], environment: Mapping[str, str] | None = None) -> Cost:
    """Run a command to its end.

    Args:
        command: The command.
        environment: Additional environment variables.

    Raises:
        RuntimeError: It failed.
    """
    began = time.monotonic()
    variables = {**os.environ, **(environment or {})}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables) as process,
    ):
        watch = _Watch(process.pid)
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        peak = watch.stop()
        if process.returncode:
            errors.seek(0)
            tail = errors.read()[-2000:]
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}\n{tail}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, max(peak, usage.ru_maxrss * 1024), output)


class _Watch:
    """Samples the memory of a process and its descendants."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._peak = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            with suppress(psutil.Error):
                family = [self._process, *self._process.children(recursive=True)]
                self._peak = max(self._peak, sum(_resident(one) for one in family))

    def stop(self) -> int:
        """Return the largest sample in bytes."""
        self._ended.set()
        self._thread.join()
        return self._peak


def _resident(process: psutil.Process) -> int:
    try:
        return int(process.memory_info().rss)
    except psutil.Error:
        return 0


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure, with the output of the last process."""
    wall, cpu = (statistics.median(getattr(cost, name) for cost in costs) for name in ("wall", "cpu"))
    return Cost(wall, cpu, int(statistics.median(cost.peak for cost in costs)), costs[-1].output)


def machine() -> dict[str, Any]:
    """Return cores and memory of this machine."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(pages / 2**30, 1)}
