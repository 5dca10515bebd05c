"""Folders for temporary files, below ``TMPDIR``; those of a process that was killed are removed later.

The name of a folder says whose it is: the system, the process and when that began.
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

from partition_ops.errors import UsageError

logger = logging.getLogger("partition_ops")


PREFIX = "partition-ops-"
ATTEMPTS = 3
BOOT = Path("/proc/sys/kernel/random/boot_id")
# in which the number of a process, and the time of its start, mean something; old systems have no second one
NAMESPACES = (Path("/proc/self/ns/pid"), Path("/proc/self/ns/time"))
PLACES: set[Path] = set()  # where this process has made folders; a verb may choose one for its own


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder of mode 0700 that goes with its context."""
    return tempfile.TemporaryDirectory(prefix=_prefix(), dir=_place())


def new_folder() -> Path:
    """A folder of mode 0700 that the caller removes."""
    return Path(tempfile.mkdtemp(prefix=_prefix(), dir=_place()))


def remove_abandoned() -> None:
    """Remove the folders of this user's processes that have ended on this system without removing them.

    Where it cannot be known whether a process has ended, its folders stay: those of another host, of another
    container, and of the time before the system was started.
    """
    system = _system()
    if system is None:
        return
    named = re.compile(rf"{PREFIX}{system}-(\d{{1,9}})-(\d+)-.+")
    for path in _found(f"{PREFIX}{system}-*"):
        with suppress(OSError):  # another command has removed it
            owner = named.fullmatch(path.name)
            if owner and _is_ours(path) and _has_ended(int(owner[1]), owner[2]):
                logger.info("%s is removed: its process has ended", path)
                shutil.rmtree(path, ignore_errors=True)


def remove_own() -> None:
    """Remove the folders of this process, which is about to end, though its threads may still write there."""
    prefix = _prefix()
    for _ in range(ATTEMPTS if prefix != PREFIX else 0):
        for path in (path for place in [*PLACES] for path in place.glob(f"{prefix}*")):
            shutil.rmtree(path, ignore_errors=True)


def _place() -> Path:
    place = Path(tempfile.gettempdir())
    PLACES.add(place)
    return place


def _found(pattern: str) -> list[Path]:
    """What is in the place for temporary files, full or not: of a full ``TMPDIR`` Python takes no notice."""
    with suppress(OSError):
        place = tempfile.tempdir or os.environ.get("TMPDIR") or tempfile.gettempdir()
        return [*Path(place).glob(pattern)]
    return []


def _prefix() -> str:
    system, start = _system(), _start(os.getpid())
    if system is None or start is None:
        return PREFIX
    return f"{PREFIX}{system}-{os.getpid()}-{start}-"


def _system() -> str | None:
    """A name of this host since it was started, and of this container; None where it cannot be told."""
    try:
        spaces = [str(path.readlink()) for path in NAMESPACES if path.is_symlink()]
        parts = [socket.gethostname(), BOOT.read_text().strip(), *spaces]
    except OSError:
        return None
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:12]


def _start(process: int) -> str | None:
    """When a process began, in ticks of the system's clock; None where it cannot be told."""
    try:
        text = Path(f"/proc/{process}/stat").read_text(errors="replace")
    except OSError:
        return None
    return text.rpartition(")")[2].split()[19]  # field 22, see proc(5); the name before may hold spaces


def _has_ended(process: int, start: str) -> bool:
    """Whether there is no such process any more; another one may have its number."""
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return True
    except OSError:  # another user's: the number was given again, or not
        pass
    found = _start(process)
    return found is not None and found != start


def _is_ours(path: Path) -> bool:
    found = path.lstat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid()


def check_tmpdir() -> None:
    """Refuse a ``TMPDIR`` that cannot be used: Python would silently take another folder, such as ``/tmp``.

    Raises:
        UsageError: There is no such folder, nothing may be written there, or it is full.
    """
    named = os.environ.get("TMPDIR")
    if not named:
        return
    try:
        with tempfile.TemporaryFile(dir=named, buffering=0) as file:
            file.write(b"x")
    except OSError as error:
        full = error.errno in (errno.ENOSPC, errno.EDQUOT)
        raise UsageError(
            f"There is no space left in TMPDIR: {named}" if full else f"TMPDIR cannot be used: {named}",
            found=error.strerror,
            expected="a folder that may be written, with room for temporary files",
            remedy=f"{'Make room there' if full else 'Make that folder'}, or set TMPDIR to another one.",
        ) from error
