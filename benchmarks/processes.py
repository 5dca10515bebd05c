"""Run a command in its own process and measure its resources."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
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
            that they have mapped are part of it, and pages that they share count once.
        anonymous: Bytes, the same without the pages of files, which the system can drop at any time. 0 if the
            system does not tell, or nobody looked.
        output: Its standard output.
    """

    wall: float
    cpu: float
    peak: int
    anonymous: int = 0
    output: str = ""

    def to_json(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if name != "output"}


def measure(
    command: Sequence[str], environment: Mapping[str, str] | None = None, *, watched: bool = True
) -> Cost:
    """Run a command to its end, after everything that was written before is on the disk.

    Else a command would pay for the files of the one before it.

    Args:
        command: The command.
        environment: Additional environment variables.
        watched: Whether its memory is sampled, for the processes that it starts and for `anonymous`;
            if these have much memory, that takes a good part of a processor.

    Raises:
        RuntimeError: It failed.
    """
    os.sync()
    began = time.monotonic()
    variables = {**os.environ, **(environment or {})}
    with (
        tempfile.TemporaryFile("w+") as errors,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, text=True, env=variables) as process,
    ):
        watch = MemoryWatch(process.pid) if watched else None
        output = process.stdout.read() if process.stdout else ""
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - began
        peak, anonymous = watch.stop() if watch is not None else (0, 0)
        if process.returncode:
            errors.seek(0)
            tail = errors.read()[-2000:]
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}\n{tail}")
    cpu = usage.ru_utime + usage.ru_stime
    return Cost(wall, cpu, max(peak, usage.ru_maxrss * 1024), anonymous, output)


def fork(work: Callable[[], object]) -> int:
    """Call a function in a process of its own, which shares the imported libraries; return its ID."""
    process = os.fork()
    if process:
        return process
    status = 1
    try:
        work()
        status = 0
    except SystemExit as end:
        status = int(end.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


class MemoryWatch:
    """Samples the memory of a process and its descendants; pages that they share count once."""

    def __init__(self, pid: int) -> None:
        self._process = psutil.Process(pid)
        self._ended = threading.Event()
        self._peak = self._anonymous = 0
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def _look(self) -> None:
        while not self._ended.wait(WATCH_SECONDS):
            with suppress(psutil.Error):
                family = [self._process, *self._process.children(recursive=True)]
                found = _alone(family[0]) if len(family) == 1 else _together(family)
                self._peak, self._anonymous = max(self._peak, found[0]), max(self._anonymous, found[1])

    def stop(self) -> tuple[int, int]:
        """Return the largest samples in bytes: resident, and resident but for files."""
        self._ended.set()
        self._thread.join()
        return self._peak, self._anonymous


def _alone(process: psutil.Process) -> tuple[int, int]:
    """Return what is resident, and of it what is not of files, as the system counts it anyway."""
    found = _read(process, "status")
    return found["VmRSS"], found["RssAnon"] + found["RssShmem"]


def _together(family: Sequence[psutil.Process]) -> tuple[int, int]:
    """Return the same of several processes; the system has to look at every page for it."""
    found = [_read(one, "smaps_rollup") for one in family]
    return sum(one["Pss"] for one in found), sum(one["Pss_Anon"] + one["Pss_Shmem"] for one in found)


def _read(process: psutil.Process, name: str) -> Counter[str]:
    """Return the bytes by name in a file of the kernel; none if the process has ended."""
    found: Counter[str] = Counter()
    with suppress(OSError):
        for line in Path(f"/proc/{process.pid}/{name}").read_text().splitlines():
            if line.endswith(" kB"):
                key, value, _ = line.split()
                found[key.removesuffix(":")] = int(value) * 1024
    return found


def median(costs: Sequence[Cost]) -> Cost:
    """Return the median of each figure, with the output of the last process."""
    wall, cpu = (statistics.median(getattr(cost, name) for cost in costs) for name in ("wall", "cpu"))
    peak, anonymous = (
        int(statistics.median(getattr(c, name) for c in costs)) for name in ("peak", "anonymous")
    )
    return Cost(wall, cpu, peak, anonymous, costs[-1].output)


def machine() -> dict[str, Any]:
    """Return cores and memory of this machine."""
    pages = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {"cores": len(os.sched_getaffinity(0)), "memory_gib": round(pages / 2**30, 1)}


def report(found: Any, text: str, output: Path | None) -> None:
    """Print figures as Markdown; with an output, also write them to it, and as JSON, with suffixes added."""
    if output is not None:
        output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        output.with_suffix(".md").write_text(text)
    print(text)
