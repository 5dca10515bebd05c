"""Errors of the local disk, with the path, its permissions and a remedy."""

from __future__ import annotations

import errno
import os
import pwd
import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from stat import filemode

from partition_ops.errors import InvalidInputError, PartitionOpsError, StorageError, UsageError

FULL_DISK = 1 << 20  # with fewer free bytes than this, a failed write means that the disk is full
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
ALLOW = "Grant that user write access, run as another user, or choose another output."


@contextmanager
def explain_os_errors(path: Path, what: str) -> Iterator[None]:
    """Turn operating system errors into a `StorageError` with the path and its permissions."""
    try:
        yield
    except OSError as error:
        problem = f"{path} cannot be {what}: {error.strerror or error}"
        if error.errno not in FORBIDDEN:
            raise StorageError(problem) from error
        raise StorageError(problem, found=_permissions(path), remedy=ALLOW) from error


@contextmanager
def explain_forbidden_write(path: Path) -> Iterator[None]:
    """Turn permission errors of the code that writes a file into a `StorageError`."""
    try:
        yield
    except OSError as error:
        if error.errno not in FORBIDDEN or os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            raise
        problem = f"{path} cannot be written: {os.strerror(error.errno or 0)}"
        raise StorageError(problem, found=_permissions(path), remedy=ALLOW) from error


@contextmanager
def explain_read_errors(uri: str) -> Iterator[None]:
    """Turn the errors of reading a file into an `InvalidInputError`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        at_root = (
            "; metadata.json must be at the root of a graph. A graph in tables is given by its graph.yaml"
            if uri.endswith("/metadata.json")
            else ""
        )
        raise InvalidInputError(f"There is no file {uri}", remedy=f"Check the path{at_root}.") from error
    except (IsADirectoryError, PermissionError) as error:
        forbidden = error.errno in FORBIDDEN
        raise InvalidInputError(
            f"{uri} cannot be read: {error.strerror}",
            found=f"this process runs as user {_user_name(os.geteuid())}" if forbidden else None,
            remedy="Grant that user read access, or run as another user." if forbidden else None,
        ) from error


def not_a_folder(path: Path, existing: Path) -> UsageError:
    kind = "a broken symbolic link" if existing.is_symlink() else "a file"
    return UsageError(
        f"{path} cannot be a folder",
        found=f"{kind}, {existing}",
        expected="a folder, or a path that does not exist",
        remedy="Choose another output, or move the file away.",
    )


def nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest of its parents that exists."""
    return next((one for one in (path, *path.parents) if os.path.lexists(one)), path)


def _permissions(path: Path) -> str:
    """Return the user of this process, and owner and mode of the nearest existing folder, for messages."""
    user, folder = f"this process runs as user {_user_name(os.geteuid())}", path
    with suppress(OSError):
        folder = nearest_existing(path.parent)
        status = folder.stat()
        return f"{user}; {folder} belongs to {_user_name(status.st_uid)}, mode {filemode(status.st_mode)}"
    return f"{user}, who has no access to {folder}"


def _user_name(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return str(number)


@contextmanager
def explain_full_disk(folder: Path) -> Iterator[None]:
    """Raise a `StorageError` instead of any other error if the disk is full: few libraries report that.

    What is reserved and does not fit is given back at once, so that only the error says that it is full. An
    error about a file elsewhere stays as it is.
    """
    try:
        yield
    except Exception as error:
        full = _says_that_it_is_full(error, folder) or shutil.disk_usage(folder).free <= FULL_DISK
        if isinstance(error, PartitionOpsError) or not full:
            raise
        raise StorageError(
            f"There is no space left in {folder}",
            remedy="Free some space and run the same command again: it resumes.",
        ) from error


def _says_that_it_is_full(error: Exception, folder: Path) -> bool:
    if not isinstance(error, OSError) or error.errno not in (errno.ENOSPC, errno.EDQUOT):
        return False
    return not isinstance(error.filename, str) or folder in Path(error.filename).parents
