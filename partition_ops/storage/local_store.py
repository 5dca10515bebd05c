"""A folder of the local disk."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import pwd
import secrets
import shutil
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from stat import filemode
from typing import Any

from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.storage.store import (
    Artifact,
    NewObject,
    Store,
    StoredObject,
    check_key,
    explained_full_disk,
    sha256_of,
)

PARTIAL = ".partial-"
SYNC_FILE_RANGE_WRITE = 2  # <linux/fs.h>: begin to write what is dirty, wait for nothing
TO_THE_END = 0
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
ALLOW = "Let that user write there, run as one who may, or give another output."


class LocalStore(Store):
    """Objects are files below a folder; each appears by a rename.

    Args:
        root: The folder; it is made when something is written.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        super().__init__(str(self.root))

    def path(self, key: str) -> Path:
        """Where the object is on the disk."""
        path = self.root / check_key(key)
        try:
            inside = path.resolve().is_relative_to(self.root.resolve())
        except (RuntimeError, OSError) as error:  # links that lead to each other
            raise InvalidInputError(f"{path} cannot be followed: {error}") from error
        if not inside:
            raise InvalidInputError(
                "A symbolic link leads out of the root",
                found=str(path),
                expected=f"a path in {self.uri}",
            )
        return path

    @property
    def place(self) -> str:
        return str(self.root.resolve())

    def child(self, prefix: str) -> LocalStore:
        return LocalStore(self.root / check_key(prefix))

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        # only the folder that the prefix names can hold keys that begin with it
        parent = prefix.rpartition("/")[0]
        folder = self.path(parent) if "/" in prefix else self.root
        found = []
        for path in folder.rglob("*") if folder.is_dir() else ():
            key = path.relative_to(self.root).as_posix()
            if key.startswith(prefix) and PARTIAL not in path.name and path.is_file():
                found.append(key)
        for key in sorted(found):
            entry = self.stat(key)
            if entry is not None:
                yield entry

    def stat(self, key: str) -> StoredObject | None:
        try:
            status = self.path(key).stat()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise StorageError(f"{self.uri_of(key)} cannot be looked at: {error.strerror}") from error
        if not self.path(key).is_file():
            return None
        tag = f"{status.st_size}-{status.st_mtime_ns}"
        return StoredObject(key, status.st_size, tag, status.st_mtime)

    def read_bytes(self, key: str) -> bytes:
        with _explained(self.uri_of(key)):
            return self.path(key).read_bytes()

    def local_copy(self, key: str) -> Path:
        path = self.path(key)
        with _explained(self.uri_of(key)), path.open("rb"):
            return path

    def is_local(self, key: str) -> bool:
        return True

    @contextmanager
    def create(self, key: str) -> Iterator[NewObject]:
        path = self.path(key)
        _make_folder(path.parent)
        new = NewObject(path.with_name(f"{PARTIAL}{secrets.token_hex(8)}"))
        try:
            with explained_full_disk(path.parent), _forbidden(path):
                yield new
            with _refused(path, "written"), new.path.open("rb") as stream:
                if not new.passing:
                    start_flushing(stream.fileno())
                artifact = Artifact(key, new.path.stat().st_size, sha256_of(new.path))
                if not new.passing:
                    os.fsync(stream.fileno())
                new.path.replace(path)
        finally:
            new.path.unlink(missing_ok=True)
        new.artifact = artifact

    def copy_from(self, other: Store, key: str, size: int) -> bool:
        found = other.stat(key) if isinstance(other, LocalStore) else None
        if not isinstance(other, LocalStore) or found is None or found.size != size:
            return False
        path = self.path(key)
        _make_folder(path.parent)
        new = path.with_name(f"{PARTIAL}{secrets.token_hex(8)}")
        try:
            with explained_full_disk(path.parent), _refused(path, "written"):
                try:
                    os.link(other.path(key), new)
                except OSError:  # another disk, or one that has no links
                    shutil.copyfile(other.path(key), new)
                new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        return True

    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None) -> bool:
        path = self.path(key)
        _make_folder(path.parent)
        with _alone_in(path.parent):
            with _refused(path, "read"):
                found = path.read_bytes() if path.is_file() else None
            if found == expected:
                self.write_bytes(key, data)
            return found in (expected, data)

    def delete(self, keys: Iterable[str]) -> None:
        for key in keys:
            path = self.path(key)
            with _refused(path, "removed"), suppress(NotADirectoryError):  # nothing can be there then
                path.unlink(missing_ok=True)

    def delete_empty(self, folder: str) -> None:
        with suppress(OSError):  # it has something in it, or is not there
            self.path(folder).rmdir()

    def delete_unfinished(self, folders: Iterable[str]) -> None:
        for folder in folders:
            for path in self.path(folder).rglob(f"{PARTIAL}*"):
                with _refused(path, "removed"):
                    path.unlink(missing_ok=True)

    def delete_prefix(self, prefix: str) -> None:
        if prefix.endswith("/"):
            shutil.rmtree(self.path(prefix.rstrip("/")), ignore_errors=True)
        else:
            super().delete_prefix(prefix)

    def close(self) -> None:
        """Nothing to give back: a local object is its own copy."""


@contextmanager
def _alone_in(folder: Path) -> Iterator[None]:
    """Keep the others out who compare and set in a folder: the system ends the lock with its process."""
    with _refused(folder, "locked"):
        handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def check_folder(store: Store) -> None:
    """Refuse a local root where, or above which, there is a file.

    Raises:
        UsageError: With the file.
    """
    if isinstance(store, LocalStore):
        path = _nearest(store.root)
        if not path.is_dir():
            raise _file_in_the_way(store.root, path)


def _nearest(path: Path) -> Path:
    """The path, or what is nearest above it, that is there."""
    return next((one for one in (path, *path.parents) if os.path.lexists(one)), path)


def _make_folder(path: Path) -> None:
    try:
        with _refused(path, "made"):
            path.mkdir(parents=True, exist_ok=True)
    except StorageError:
        there = _nearest(path)
        if there.is_dir():
            raise
        raise _file_in_the_way(path, there) from None


def _file_in_the_way(path: Path, there: Path) -> UsageError:
    return UsageError(
        f"{path} cannot be a folder",
        found=f"{'a link that leads nowhere' if there.is_symlink() else 'a file'}, {there}",
        expected="a folder, or nothing yet",
        remedy="Give another output, or move what is there out of the way.",
    )


@contextmanager
def _refused(path: Path, what: str) -> Iterator[None]:
    """Turn the errors of changing a file into ours."""
    try:
        yield
    except OSError as error:
        problem = f"{path} cannot be {what}: {error.strerror or error}"
        if error.errno not in FORBIDDEN:
            raise StorageError(problem) from error
        raise StorageError(problem, found=_rights(path), remedy=ALLOW) from error


@contextmanager
def _forbidden(path: Path) -> Iterator[None]:
    """Turn the error of whoever writes a file where that is not allowed into ours."""
    try:
        yield
    except OSError as error:
        if error.errno not in FORBIDDEN or os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            raise
        problem = f"{path} cannot be written: {os.strerror(error.errno or 0)}"
        raise StorageError(problem, found=_rights(path), remedy=ALLOW) from error


def _rights(path: Path) -> str:
    """Who works here, and whose what is nearest to a path is."""
    there = path
    with suppress(OSError):
        there = _nearest(path.parent)
        status = there.stat()
        return (
            f"this process is user {_user(os.geteuid())}; {there} is {_user(status.st_uid)}'s,"
            f" mode {filemode(status.st_mode)}"
        )
    return f"this process is user {_user(os.geteuid())}, who may not look at {there}"


def _user(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return str(number)


@contextmanager
def _explained(uri: str) -> Iterator[None]:
    """Turn the errors of reading a file into ours."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        at_root = "; metadata.json must be at the root of a graph" if uri.endswith("/metadata.json") else ""
        raise InvalidInputError(f"There is no file {uri}", remedy=f"Check the path{at_root}.") from error
    except (IsADirectoryError, PermissionError) as error:
        allowed = error.errno not in FORBIDDEN
        raise InvalidInputError(
            f"{uri} cannot be read: {error.strerror}",
            found=None if allowed else f"this process is user {_user(os.geteuid())}",
            remedy=None if allowed else "Let that user read it, or run as one who may.",
        ) from error


def start_flushing(file: int) -> None:
    """Ask the kernel to begin writing a file to the disk, so that a later ``fsync`` has less to wait for.

    Only Linux can; elsewhere, and where it refuses, nothing happens.

    Args:
        file: Descriptor of the file.
    """
    sync_file_range = _sync_file_range()
    if sync_file_range is not None:
        sync_file_range(file, 0, TO_THE_END, SYNC_FILE_RANGE_WRITE)


@cache
def _sync_file_range() -> Any:
    if sys.platform != "linux":
        return None
    function = getattr(ctypes.CDLL(None, use_errno=True), "sync_file_range", None)
    if function is not None:
        function.argtypes = [ctypes.c_int, ctypes.c_int64, ctypes.c_int64, ctypes.c_uint]
    return function
