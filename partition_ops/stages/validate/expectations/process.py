"""The child process that Great Expectations lives in, seen from its parent.

Great Expectations takes seconds to import and prints what it likes. So it runs in a process of its own
that is started early; the two speak JSON, one line a message, over pipes that nothing else writes to.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

from partition_ops.errors import PartitionOpsError
from partition_ops.storage.store import FULL_DISK

CHILD = "partition_ops.stages.validate.expectations.child"
KEPT = {"LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"}
TAIL = 2000


class JudgeError(PartitionOpsError):
    """The process with Great Expectations died or does not answer.

    Attributes:
        transient: Whether it was killed from outside, which may not happen again.
    """

    def __init__(self, problem: str, *, found: str, remedy: str, transient: bool) -> None:
        super().__init__(problem, found=found, remedy=remedy)
        self.transient = transient


class ChildProcess:
    """Starts the child at once; `ask` waits for its answers.

    Args:
        folder: An existing folder that is the child's own: its home, its log.
        patience: Seconds to wait for one answer.
    """

    def __init__(self, folder: Path, *, patience: float) -> None:
        self._log = folder / "log.txt"
        self._patience = patience
        self._unread = b""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", CHILD, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(folder),
                cwd=folder,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            JudgeError: The child has died.
        """
        try:
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()
        except OSError:
            raise self._death() from None

    def receive(self) -> dict[str, Any]:
        """Wait for one message.

        Raises:
            JudgeError: The child has died, or is silent for longer than the patience lasts.
        """
        deadline = time.monotonic() + self._patience
        while b"\n" not in self._unread:
            self._unread += self._read(deadline - time.monotonic())
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """End the child; afterwards it is surely gone."""
        self._process.kill()  # it holds nothing that would need a gentle end
        self._process.wait()
        for stream in (self._stdin, self._stdout):
            try:
                stream.close()
            except OSError:  # what was still buffered for a dead child
                continue

    def _read(self, seconds: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if seconds <= 0 or not selector.select(seconds):
                raise self._error(f"has not answered for {self._patience:.0f} s", transient=True)
        data = os.read(self._stdout.fileno(), 1 << 16)
        if not data:
            raise self._death()
        return data

    def _death(self) -> JudgeError:
        code = self._process.wait()
        if code < 0:
            return self._error(f"was ended by {_signal_name(-code)}", transient=True)
        return self._error(f"ended with exit code {code}", transient=False)

    def _error(self, what: str, *, transient: bool) -> JudgeError:
        text = self._log.read_text(errors="replace").strip()
        free = shutil.disk_usage(self._log.parent).free
        if free <= FULL_DISK:  # then there is no room for its log either
            return JudgeError(
                f"The process that judges with Great Expectations {what}: there is no space left",
                found=f"{free >> 10} KiB free in {self._log.parent}",
                remedy="Make room there, or set TMPDIR to a folder on a disk with more room.",
                transient=transient,
            )
        return JudgeError(
            f"The process that judges with Great Expectations {what}",
            found="at the end of its log: " + text[-TAIL:] if text else "nothing in its log",
            remedy=_remedy(text, transient),
            transient=transient,
        )

    @property
    def _stdin(self) -> IO[bytes]:
        return _there(self._process.stdin)

    @property
    def _stdout(self) -> IO[bytes]:
        return _there(self._process.stdout)


def _remedy(log: str, transient: bool) -> str:
    if transient:
        return "The machine may be short of memory; try again."
    if "No module named" in log:
        return "Install the dependencies as constraints.txt says."
    return "This should not happen: please report it, with the suites."


def _there(stream: IO[bytes] | None) -> IO[bytes]:
    if stream is None:
        raise RuntimeError("the child was started without its pipes")
    return stream


def _environment(home: Path) -> dict[str, str]:
    """No secrets, no settings of the user's Great Expectations, and no telemetry."""
    kept = {name: value for name, value in os.environ.items() if name in KEPT or name.startswith("LC_")}
    paths = [_library(), os.environ.get("PYTHONPATH", "")]
    return {
        **kept,
        "HOME": str(home),
        "GX_ANALYTICS_ENABLED": "false",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONSAFEPATH": "1",
    }


def _library() -> str:
    import partition_ops

    return str(Path(partition_ops.__file__).parent.parent)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
