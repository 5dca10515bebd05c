"""How a command ends when Ctrl-C, SIGTERM or SIGHUP says so. Imports as little as can be: it comes first."""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

TYPE_CHECKING = False  # that of typing takes milliseconds to import
if TYPE_CHECKING:
    import threading
    from types import FrameType
    from typing import Any

    import psutil

PATIENCE = 8.0  # seconds; who stops a container commonly kills it after ten
GRACE = 1.5  # for children, so that the ten are kept
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
UNTOUCHED = (signal.SIG_DFL, signal.default_int_handler)  # nohup, for one, has a signal ignored


class Ending:
    """For the length of a context, what a signal does to a command.

    At first it ends the process at once: nothing is there yet that would stay. After `unwinds` it is a
    ``KeyboardInterrupt`` in the main thread, as Python does with Ctrl-C alone: whoever holds a lock, a
    temporary folder or another process gives it back. Compiled code, or a thread that is waited for, may hold
    that up: after `PATIENCE`, or another Ctrl-C, all is given back from here and the process ends.

    Handlers that somebody else has set stay, and outside of the main thread there are none.

    Args:
        as_json: Say on standard output too, as JSON, what has ended the command.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.signal: int | None = None
        self._as_json = as_json
        self._at_once = True
        self._before: dict[int, Any] = {}
        self._over: threading.Event | None = None
        self._mouth = self._mouth_before = -1
        self._giver: int | None = None

    def __enter__(self) -> Ending:
        for number in SIGNALS:
            if signal.getsignal(number) in UNTOUCHED:
                try:
                    self._before[number] = signal.signal(number, self._end)
                except ValueError:  # not the main thread
                    break
        return self

    def __exit__(self, *error: object) -> None:
        self._at_once = True
        if self._over is not None:
            self._over.set()
            signal.set_wakeup_fd(self._mouth_before)
            os.close(self._mouth)
        for number, handler in self._before.items():
            signal.signal(number, handler)

    def unwinds(self) -> None:
        """From now on there may be something to give back."""
        if self._before:
            import threading

            self._over = threading.Event()
            ear, self._mouth = os.pipe()
            os.set_blocking(self._mouth, False)
            self._mouth_before = signal.set_wakeup_fd(self._mouth, warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=(ear, self._over), daemon=True).start()
        self._at_once = False

    def ended(self) -> int:
        """Give back what is left, and say what has ended the command; the exit code.

        The signal may have come while something was being given back, which ended that.
        """
        if self.signal is not None:  # else the process is somebody else's, and goes on
            if "partition_ops.artifacts.lock" in sys.modules:
                from partition_ops.artifacts import lock

                lock.release_all()
            if "partition_ops.system.temporary_folders" in sys.modules:
                from partition_ops.system import temporary_folders as temporary

                temporary.remove_own()
        return self.told()

    def told(self) -> int:
        """Say what has ended the command; the exit code."""
        number = self.signal or signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        text = f"{how}; what was finished stays, and the same call goes on from there"
        # not through Python's streams: the signal may have come into one of their functions
        if self._as_json:
            _write(1, f'{{"error": {{"problem": "{text}"}}}}\n')
        _write(2, f"partition-ops: {text}\n")
        return 128 + number

    def _end(self, number: int, frame: FrameType | None) -> None:
        if self.signal is not None:
            if number == signal.SIGINT:
                self._give_back()
            return  # a terminal that goes sends SIGHUP twice
        self.signal = number
        if self._at_once:
            os._exit(self.told())
        if number == signal.SIGHUP:
            _forget_terminal()
        raise KeyboardInterrupt

    def _watch(self, ear: int, over: threading.Event) -> None:
        """Hear of a signal even while compiled code keeps the main thread from it."""
        with open(ear, "rb", buffering=0) as heard:
            while number := heard.read(1):
                if number[0] in self._before and not over.wait(PATIENCE):
                    self.signal = number[0]
                    self._give_back()

    def _give_back(self) -> None:
        """End what this process has started, remove its temporary folders, give its locks back, and end."""
        import threading

        thread = threading.get_ident()
        if self._giver is not None and self._giver != thread:
            threading.Event().wait()  # for the other thread, which ends the process
        try:
            if self._giver is None:  # the third Ctrl-C is answered at once
                self._giver = thread
                self._give_all_back()
        finally:
            os._exit(128 + (self.signal or signal.SIGINT))

    def _give_all_back(self) -> None:
        import threading

        from partition_ops.artifacts import lock
        from partition_ops.system import temporary_folders as temporary

        children = _children_told_to_end()
        # children may take their time, and so may storage
        locks = threading.Thread(target=lock.release_all, daemon=True)
        locks.start()
        _end(children)
        temporary.remove_own()
        self.told()
        locks.join()


def leave_to_system() -> None:
    """Have signals end this process as they do any other: somebody else looks after it, and speaks for it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _write(stream: int, text: str) -> None:
    with suppress(OSError):  # nobody is there to read it
        if select.select([], [stream], [], 1)[1]:  # else nobody reads it, and a pipe is full
            os.write(stream, text.encode())


def _children_told_to_end() -> list[psutil.Process]:
    import psutil

    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.Error):
            child.terminate()
    return children


def _end(children: list[psutil.Process]) -> None:
    """Wait for children, and kill those that stay; mpirun ends its ranks on other hosts before."""
    import psutil

    for child in psutil.wait_procs(children, GRACE)[1]:
        with suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, GRACE)


def _forget_terminal() -> None:
    """Write to nowhere where the terminal is gone: whoever gives something back must not fail at a line."""
    for stream in (1, 2):
        try:
            os.write(stream, b"")
        except OSError:
            nowhere = os.open(os.devnull, os.O_WRONLY)
            os.dup2(nowhere, stream)
            os.close(nowhere)
