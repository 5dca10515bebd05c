"""Temporary folders below ``TMPDIR``, and the removal of those that killed processes have left behind.

The name of a folder identifies its owner: the system, the process ID and the start time of the process.
"""

from __future__ import annotations

import errno
import hashlib
import logging
import os
import re
import shutil
import socket
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from partition_ops.errors import StorageError, UsageError
from partition_ops.system.signals import register_cleanup

logger = logging.getLogger("partition_ops")

PREFIX = "partition-ops-"
ATTEMPTS = 3
ENDED = ("Z", "X")  # states of a process in /proc
BOOT_ID = Path("/proc/sys/kernel/random/boot_id")
# process IDs and start times are valid inside these; old kernels have no time namespace
NAMESPACES = (Path("/proc/self/ns/pid"), Path("/proc/self/ns/time"))
# folders in which this process has made temporary folders; a verb may choose one of its own
PARENTS: set[Path] = set()


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a context manager for a temporary folder of mode 0700, which is removed at its end."""
    return tempfile.TemporaryDirectory(prefix=_prefix(), dir=_parent())


def new_folder() -> Path:
    """Make a temporary folder of mode 0700; the caller removes it."""
    return Path(tempfile.mkdtemp(prefix=_prefix(), dir=_parent()))


def remove_abandoned() -> None:
    """Remove the temporary folders of processes of this user that have ended without removing them.

    Folders stay if nobody can know whether their process has ended: those of another host, of another
    container, and from before the last start of the system.
    """
    system = system_id()
    if system is None:
        return
    pattern = re.compile(rf"{PREFIX}{system}-(\d{{1,9}})-(\d+)-.+")
    for path in _temporary_paths(f"{PREFIX}{system}-*"):
        with suppress(OSError):  # another command has removed it
            owner = pattern.fullmatch(path.name)
            if owner and _is_own_folder(path) and has_ended(int(owner[1]), owner[2]):
                logger.info("Removing %s: its process has ended", path)
                shutil.rmtree(path, ignore_errors=True)


def remove_own() -> None:
    """Remove the temporary folders of this process before it exits; its threads may still write there."""
    prefix = _prefix()
    if prefix == PREFIX:  # the names do not identify their owner
        return
    for _ in range(ATTEMPTS):
        for path in (path for parent in [*PARENTS] for path in parent.glob(f"{prefix}*")):
            shutil.rmtree(path, ignore_errors=True)


register_cleanup(remove_own, after_children=True)


def check_tmpdir() -> None:
    """Check that ``TMPDIR`` is usable: if not, Python would silently use another folder, such as ``/tmp``.

    Raises:
        UsageError: The folder does not exist, is not writable, or is full.
    """
    folder = os.environ.get("TMPDIR")
    if not folder:
        return
    try:
        with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
            file.write(b"x")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UsageError(
            f"There is no space left in TMPDIR: {folder}" if full else f"TMPDIR cannot be used: {folder}",
            found=error.strerror,
            expected="a writable folder with room for temporary files",
            remedy=f"{'Free some space' if full else 'Create the folder'}, or set TMPDIR to another folder.",
        ) from error


def full_disk(error: Exception) -> StorageError | None:
    """Return the error about a full disk for temporary files, if that is what a library's error says."""
    if not any(os.strerror(code) in str(error) for code in (errno.ENOSPC, errno.EDQUOT)):
        return None
    return StorageError(
        "The disk for temporary files is full",
        found=str(error).splitlines()[0],
        remedy=f"Free some space in {tempfile.gettempdir()}, or set TMPDIR to another folder, and run the"
        " command again.",
    )


def _parent() -> Path:
    parent = Path(tempfile.gettempdir())
    PARENTS.add(parent)
    return parent


def _temporary_paths(pattern: str) -> list[Path]:
    """Return the matching paths in ``TMPDIR``, even if it is full: Python ignores a full ``TMPDIR``."""
    with suppress(OSError):
        parent = tempfile.tempdir or os.environ.get("TMPDIR") or tempfile.gettempdir()
        return [*Path(parent).glob(pattern)]
    return []


def _prefix() -> str:
    system, start = system_id(), start_time(os.getpid())
    if system is None or start is None:
        return PREFIX
    return f"{PREFIX}{system}-{os.getpid()}-{start}-"


def system_id() -> str | None:
    """Return an ID of this host since its start, and of this container; None if it is unknown."""
    try:
        namespaces = [str(path.readlink()) for path in NAMESPACES if path.is_symlink()]
        parts = [socket.gethostname(), BOOT_ID.read_text().strip(), *namespaces]
    except OSError:
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def start_time(process: int) -> str | None:
    """Return when a process started, in ticks of the system's clock; None if it is unknown."""
    fields = _stat_fields(process)
    return fields[19] if fields else None  # field 22, see proc(5)


def _stat_fields(process: int) -> list[str]:
    """Return the fields of ``/proc/<process>/stat`` from the third on; none if there is no such file."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return []
    return text.rpartition(")")[2].split()  # the name before may hold spaces


def has_ended(process: int, start: str | None) -> bool:
    """Return whether a process has ended; another process may have its ID now.

    A process that is stopped has not ended. One that waits for its parent to ask for its exit code has.

    Args:
        process: Process ID.
        start: Its `start_time`; None if it is unknown.
    """
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # the process of another user, which may have the same ID or be the same process
        pass
    fields = _stat_fields(process)
    return bool(fields) and (fields[0] in ENDED or (start is not None and fields[19] != start))


def _is_own_folder(path: Path) -> bool:
    status = path.lstat()
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
