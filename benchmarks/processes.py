"""Run a command in a process of its own and say what it took."""

from __future__ import annotations

import os
import statistics
import subprocess
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Cost:
    """What one process took.

    Attributes:
        wall: Seconds from its start to its end.
        cpu: Seconds on all cores, with those of its own children.
        peak: Bytes, the largest resident set; files that it has mapped are part of it.
        output: What it printed.
    """

    wall: float
    cpu: float
    peak: int
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "output"}


def measure(command: Sequence[str]) -> Cost:
    """Run a command to its end.

    Raises:
        RuntimeError: It failed.
    """
    began = time.monotonic()
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    wall = time.monotonic() - began
    if process.returncode:
        raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}")
    return Cost(wall, usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, output)


def median(costs: Sequence[Cost]) -> Cost:
    """The median of each figure, with the output of the last process."""
    wall, cpu = (statistics.median(getattr(cost, name) for cost in costs) for name in ("wall", "cpu"))
    return Cost(wall, cpu, int(statistics.median(cost.peak for cost in costs)), costs[-1].output)


def machine() -> dict[str, Any]:
    """What the figures were measured on."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(pages / 2**30, 1)}
