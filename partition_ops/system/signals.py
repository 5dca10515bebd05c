"""Handling of Ctrl-C, SIGTERM and SIGHUP, and the clean-ups that a process runs when one of them ends it.

The command line imports this module before all others, to handle signals during its own start too.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from types import FrameType

    import psutil  # takes a while to import, and most commands never need it

PATIENCE = 8.0  # seconds to unwind: container runtimes commonly kill a process ten seconds after SIGTERM
GRACE = 1.5  # seconds for child processes, within those ten
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEFAULT_HANDLERS = (signal.SIG_DFL, signal.default_int_handler)  # nohup, for example, has SIGHUP ignored
STDOUT, STDERR = 1, 2
PR_SET_PDEATHSIG = 1  # <linux/prctl.h>
ORPHANED = 255  # exit code of a child whose parent has died

Cleanup = Callable[[], None]

_first_cleanups: list[Cleanup] = []
_last_cleanups: list[Cleanup] = []
_process_ends = threading.Event()


def register_cleanup(cleanup: Cleanup, *, after_children: bool = False) -> None:
    """Register a function to call when a signal ends the process.

    A module that holds something outside of the process, such as a lock or a temporary folder, registers its
    clean-up once, at import.

    Args:
        cleanup: Called from any thread, perhaps while other threads still work. It must do nothing if nothing
            is left to clean up.
        after_children: Call it only after the child processes have ended, because they may still use what it
            removes. Other clean-ups do not wait for child processes.
    """
    (_last_cleanups if after_children else _first_cleanups).append(cleanup)


class SignalHandler:
    """A context in which signals end the command cleanly.

    At first a signal ends the process immediately, because nothing needs a clean-up yet. After
    `unwind_on_signal`, it raises ``KeyboardInterrupt`` in the main thread, so that context managers release
    locks, temporary folders and child processes. Compiled code, or a wait for another thread, may block the
    main thread. After `PATIENCE`, or on another Ctrl-C, this class runs the registered clean-ups itself and
    ends the process.

    Handlers that somebody else has set stay in place. Outside of the main thread, no handler is set.

    Args:
        as_json: Also report the signal on standard output, as JSON.

    Attributes:
        received: The signal that ended the command; None if there was none.
    """

    def __init__(self, *, as_json: bool) -> None:
        self.received: int | None = None
        self._as_json = as_json
        self._exit_at_once = True
        self._old_handlers: dict[int, Any] = {}
        self._context_ended: threading.Event | None = None
        self._wakeup_fd = self._old_wakeup_fd = -1
        self._cleaning_thread: int | None = None

    def __enter__(self) -> SignalHandler:
        for number in SIGNALS:
            if signal.getsignal(number) in DEFAULT_HANDLERS:
                try:
                    self._old_handlers[number] = signal.signal(number, self._handle)
                except ValueError:  # not the main thread
                    break
        return self

    def __exit__(self, *error: object) -> None:
        self._exit_at_once = True
        if self._context_ended is not None:
            self._context_ended.set()
            signal.set_wakeup_fd(self._old_wakeup_fd)
            os.close(self._wakeup_fd)
        for number, handler in self._old_handlers.items():
            signal.signal(number, handler)

    def unwind_on_signal(self) -> None:
        """Raise ``KeyboardInterrupt`` on signals from now on, because there may be something to clean up."""
        if self._old_handlers:
            self._context_ended = threading.Event()
            pipe, self._wakeup_fd = os.pipe()
            os.set_blocking(self._wakeup_fd, False)
            self._old_wakeup_fd = signal.set_wakeup_fd(self._wakeup_fd, warn_on_full_buffer=False)
            threading.Thread(target=self._watch, args=(pipe, self._context_ended), daemon=True).start()
        self._exit_at_once = False

    def finish(self) -> int:
        """Clean up what unwinding has left, report the signal, and return the exit code.

        Unwinding is incomplete if the signal interrupted a clean-up that was already under way.
        """
        if self.received is not None:  # otherwise the process belongs to a caller and continues
            for cleanup in (*_first_cleanups, *_last_cleanups):
                cleanup()
        return self._report()

    def _report(self) -> int:
        """Print which signal ended the command, and return the exit code."""
        number = self.received or signal.SIGINT
        how = "interrupted" if number == signal.SIGINT else f"ended by {signal.Signals(number).name}"
        text = f"{how}; finished work is kept, and the same command resumes from there"
        # not through Python's streams: the signal may have interrupted one of their functions
        if self._as_json:
            _write(STDOUT, f'{{"error": {{"problem": "{text}"}}}}\n')
        _write(STDERR, f"partition-ops: {text}\n")
        return 128 + number

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self.received is not None:
            if number == signal.SIGINT:
                self._clean_up_and_exit()
            return  # a closing terminal sends SIGHUP twice
        self.received = number
        if self._exit_at_once:
            os._exit(self._report())
        if number == signal.SIGHUP:
            _detach_from_terminal()
        raise KeyboardInterrupt

    def _watch(self, pipe: int, context_ended: threading.Event) -> None:
        """Notice signals even while compiled code keeps the main thread from handling them."""
        with open(pipe, "rb", buffering=0) as signals:
            while number := signals.read(1):
                if number[0] in self._old_handlers and not context_ended.wait(PATIENCE):
                    self.received = number[0]
                    self._clean_up_and_exit()

    def _clean_up_and_exit(self) -> None:
        thread = threading.get_ident()
        if self._cleaning_thread is not None and self._cleaning_thread != thread:
            threading.Event().wait()  # for the other thread, which ends the process
        try:
            if self._cleaning_thread is None:  # a third Ctrl-C exits without waiting
                self._cleaning_thread = thread
                clean_up(self._report)
        finally:
            os._exit(128 + (self.received or signal.SIGINT))


def clean_up(report: Callable[[], object]) -> None:
    """End the child processes, run the registered clean-ups, and report, before the process ends."""
    _process_ends.set()
    children = _terminate_children()
    # child processes may take their time, and so may storage
    threads = [threading.Thread(target=cleanup, daemon=True) for cleanup in _first_cleanups]
    for thread in threads:
        thread.start()
    _wait_or_kill(children)
    for cleanup in _last_cleanups:
        cleanup()
    report()
    for thread in threads:
        thread.join()


def wait_if_process_ends() -> None:
    """Let this thread begin nothing more once `clean_up` ends the process."""
    if _process_ends.is_set():
        threading.Event().wait()


def end_with_parent(parent: int, number: int = signal.SIGKILL) -> Callable[[], None]:
    """Return a function by which a child lets the kernel end it when its parent dies, however that happens.

    Call this before a fork, because a thread of the parent may hold the loader of libraries at that moment,
    and the returned function in the child. It ends the child if the parent has died already. Only Linux can
    do this; on other systems the function does nothing else.

    Args:
        parent: Process ID of the parent.
        number: The signal that the kernel sends.
    """
    import ctypes  # only commands with child processes need it

    prctl = ctypes.CDLL(None).prctl if sys.platform == "linux" else None

    def bind() -> None:
        if prctl is not None:
            prctl(PR_SET_PDEATHSIG, number)
        if os.getppid() != parent:  # it died before the call
            os._exit(ORPHANED)

    return bind


def restore_default_handlers() -> None:
    """Let signals end this process at once; its parent cleans up and reports for it."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_DFL)


def _write(stream: int, text: str) -> None:
    with suppress(OSError):  # a closed stream
        if select.select([], [stream], [], 1)[1]:  # otherwise it is a full pipe that nobody reads
            os.write(stream, text.encode())


def _terminate_children() -> list[psutil.Process]:
    """Send SIGTERM to the child processes and theirs, and return them."""
    import psutil

    children = psutil.Process().children(recursive=True)
    for child in children:
        with suppress(psutil.Error):
            child.terminate()
    return children


def _wait_or_kill(children: list[psutil.Process]) -> None:
    """Wait for child processes, and kill those that remain; mpirun ends its ranks on other hosts first."""
    import psutil

    for child in psutil.wait_procs(children, GRACE)[1]:
        with suppress(psutil.Error):
            child.kill()
    psutil.wait_procs(children, GRACE)


def _detach_from_terminal() -> None:
    """Redirect closed streams to the null device, so that no clean-up fails at a line that it prints."""
    for stream in (STDOUT, STDERR):
        try:
            os.write(stream, b"")
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream)
            os.close(null)
