"""Commands in processes of their own, which an attempt may kill, suspend and resume.

A process is forked from one that has imported the library, into a process group of its own, and runs the
function that the command ``partition-ops`` runs. This saves the seconds of CPU that the imports take.
"""

from __future__ import annotations

import os
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import cache
from importlib import import_module
from pathlib import Path

import psutil

from tests.campaign.frame import Defect

MOST_SECONDS = 300.0  # for a process that hangs
LOADED = (  # not numba's and torch's threads: only modules
    "partition_ops.cli.dispatch",
    "partition_ops.jobs.whole_job",
    "partition_ops.stages.partition.engines.two_level",
    "partition_ops.stages.partition.metis_library",
    "partition_ops.stages.quality.page_sections",
    "partition_ops.storage.s3_store",
    "partition_ops.verification",
)


@cache
def load() -> None:
    """Import what commands import."""
    for name in LOADED:
        import_module(name)


class Command:
    """A command in a process group of its own.

    Args:
        words: Its arguments.
        log: File for what it prints.
        environment: Variables to set.
        patch: Called in the new process before the command begins.
    """

    def __init__(
        self,
        words: Sequence[object],
        log: Path,
        *,
        environment: Mapping[str, str] | None = None,
        patch: Callable[[], None] | None = None,
    ) -> None:
        load()
        self.words, self.log = [*map(str, words)], log
        self.code: int | None = None
        sys.stdout.flush()
        sys.stderr.flush()
        self.pid = os.fork()
        if self.pid == 0:
            self._become(environment or {}, patch)
        with suppress(OSError):  # in both processes: whoever is first
            os.setpgid(self.pid, self.pid)

    def _become(self, environment: Mapping[str, str], patch: Callable[[], None] | None) -> None:
        code = 1
        try:
            os.setpgid(0, 0)
            handle = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
            for stream in (1, 2):
                os.dup2(handle, stream)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            os.environ.update(environment)
            sys.argv = ["partition-ops", *self.words]
            if patch is not None:
                patch()
            from partition_ops.cli import main

            code = main(self.words)
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else 1
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def ended(self) -> bool:
        """Return whether it has ended by itself or by a signal."""
        if self.code is None:
            found, status = os.waitpid(self.pid, os.WNOHANG)
            if found:
                self.code = os.waitstatus_to_exitcode(status)
        return self.code is not None

    def wait(self, seconds: float = MOST_SECONDS) -> int:
        """Wait until it ends, and return its exit code.

        Raises:
            Defect: It takes too long.
        """
        end = time.monotonic() + seconds
        while not self.ended():
            if time.monotonic() > end:
                self.kill_group()
                raise Defect(f"{self.words} did not end within {seconds:.0f} s: {self.output()}")
            time.sleep(0.005)
        return self.code if self.code is not None else 1

    def output(self) -> str:
        """Return the last lines that it printed."""
        return self.log.read_text(errors="replace")[-4000:] if self.log.exists() else ""

    def send(self, number: int) -> None:
        """Send a signal to the process group."""
        with suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def kill_group(self) -> None:
        self.send(signal.SIGKILL)
        if not self.ended():
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)

    def kill_main(self) -> None:
        """Kill the main process only; its children stay for the moment."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        if not self.ended():
            _, status = os.waitpid(self.pid, 0)
            self.code = os.waitstatus_to_exitcode(status)

    def children(self) -> list[psutil.Process]:
        """Return its child processes, and theirs."""
        with suppress(psutil.Error):
            return psutil.Process(self.pid).children(recursive=True)
        return []


def succeed(command: Command) -> None:
    """Wait for a command that must succeed.

    Raises:
        Defect: It did not.
    """
    code = command.wait()
    if code != 0:
        raise Defect(f"{' '.join(command.words)} ended with {code}: {command.output()}")
