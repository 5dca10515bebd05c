"""A store in a folder of the local disk."""

from __future__ import annotations

import builtins
import ctypes
import errno
import fcntl
import os
import pwd
import re
import secrets
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from stat import S_ISDIR, S_ISREG, filemode
from typing import Any

from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.storage.store import (
    Artifact,
    NewObject,
    Store,
    StoredObject,
    check_key,
    explain_full_disk,
    sha256_of,
)

PARTIAL = ".partial-"
PARTIAL_NAME = re.compile(r"\.partial-[0-9a-f]{16}")
LOCK_SECONDS = 30.0  # a process holds a file lock for milliseconds, unless it is suspended
SYNC_FILE_RANGE_WRITE = 2  # <linux/fs.h>: start to write dirty pages, without waiting
TO_THE_END = 0
FORBIDDEN = (errno.EACCES, errno.EPERM, errno.EROFS)
ALLOW = "Grant that user write access, run as another user, or choose another output."


class LocalStore(Store):
    """A store whose objects are files below a folder; each appears by a rename.

    Args:
        root: The folder; the first write creates it.
    """

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._unsynced = _UnsyncedFolders()
        super().__init__(str(self.root))

    def path(self, key: str) -> Path:
        """Return the path of an object.

        Raises:
            InvalidInputError: The path leaves the root, perhaps by a symbolic link.
        """
        path = self.root / check_key(key)
        try:
            inside = path.resolve().is_relative_to(self.root.resolve())
        except (RuntimeError, OSError) as error:  # a cycle of symbolic links
            raise InvalidInputError(f"{path} cannot be resolved: {error}") from error
        if not inside:
            raise InvalidInputError(
                "A symbolic link leads out of the root",
                found=str(path),
                expected=f"a path in {self.uri}",
            )
        return path

    @property
    def canonical_uri(self) -> str:
        return str(self.root.resolve())

    def child(self, prefix: str) -> LocalStore:
        child = LocalStore(self.root / check_key(prefix))
        child.fenced, child._unsynced = self.fenced, self._unsynced
        return child

    def above(self, levels: int) -> LocalStore:
        if len(self.root.parents) < levels:
            raise InvalidInputError(f"There are no {levels} folders above {self.root}")
        above = LocalStore(self.root.parents[levels - 1])
        above.fenced, above._unsynced = self.fenced, self._unsynced
        return above

    def names(self) -> builtins.list[str]:
        if not self.root.is_dir():
            return []
        with _explain_os_errors(self.root, "listed"):
            found = [path.name for path in self.root.iterdir()]
        return sorted(name for name in found if not PARTIAL_NAME.fullmatch(name))

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        # only the folder of the prefix can hold keys that begin with it
        parent = prefix.rpartition("/")[0]
        folder = self.path(parent) if "/" in prefix else self.root
        found = []
        for path in folder.rglob("*") if folder.is_dir() else ():
            key = path.relative_to(self.root).as_posix()
            if key.startswith(prefix) and not PARTIAL_NAME.fullmatch(path.name) and path.is_file():
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
            raise StorageError(f"{self.uri_of(key)} cannot be accessed: {error.strerror}") from error
        if not self.path(key).is_file():
            return None
        # the time of the last change of the inode: unlike the modification time, nobody can set it
        tag = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}"
        return StoredObject(key, status.st_size, tag, status.st_mtime)

    def read_bytes(self, key: str) -> bytes:
        with _explain_read_errors(self.uri_of(key)):
            _check_regular(self.path(key))
            return self.path(key).read_bytes()

    def local_copy(self, key: str) -> Path:
        path = self.path(key)
        with _explain_read_errors(self.uri_of(key)):
            _check_regular(path)
            with path.open("rb"):
                return path

    def is_local(self, key: str) -> bool:
        return True

    @contextmanager
    def create(self, key: str) -> Iterator[NewObject]:
        with self._create(key, self._guard()) as new:
            yield new

    @contextmanager
    def _create(self, key: str, guard: AbstractContextManager[None]) -> Iterator[NewObject]:
        path = self.path(key)
        self._make_folder(path.parent)
        new = NewObject(path.with_name(f"{PARTIAL}{secrets.token_hex(8)}"))
        try:
            with explain_full_disk(path.parent), _explain_forbidden_write(path):
                yield new
            with _explain_os_errors(path, "written"), new.path.open("rb") as stream:
                if not new.volatile:
                    start_flushing(stream.fileno())
                artifact = Artifact(key, new.path.stat().st_size, sha256_of(new.path))
                if not new.volatile:
                    os.fsync(stream.fileno())
                with guard:
                    new.path.replace(path)
        finally:
            new.path.unlink(missing_ok=True)
        if not new.volatile:
            self._unsynced.add(path.parent)
        new.artifact = artifact

    @contextmanager
    def background_uploads(self) -> Iterator[Store]:
        with self._unsynced.deferred():
            yield self

    def copy_from(self, other: Store, key: str, size: int) -> bool:
        found = other.stat(key) if isinstance(other, LocalStore) else None
        if not isinstance(other, LocalStore) or found is None or found.size != size:
            return False
        self._link(other.path(key), key)
        return True

    def share(self, artifact: Artifact, key: str) -> Artifact:
        self._link(self.path(artifact.key), key)
        return Artifact(key, artifact.size, artifact.sha256)

    def _link(self, existing: Path, key: str) -> None:
        """Make an object a hard link to a file, or a copy if the disk has no links."""
        path = self.path(key)
        self._make_folder(path.parent)
        new = path.with_name(f"{PARTIAL}{secrets.token_hex(8)}")
        try:
            with explain_full_disk(path.parent), _explain_os_errors(path, "written"):
                try:
                    os.link(existing, new)
                except OSError:  # another disk, or one without hard links
                    copy_durably(existing, new)
                with self._guard():
                    new.replace(path)
        finally:
            new.unlink(missing_ok=True)
        self._unsynced.add(path.parent)

    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None, fenced: bool = True) -> bool:
        path = self.path(key)
        self._make_folder(path.parent)
        with _file_lock(path.parent, fcntl.LOCK_EX):
            if fenced and self.fence is not None:
                self.fence.check()
            with _explain_os_errors(path, "read"):
                found = path.read_bytes() if path.is_file() else None
            if found == expected:
                with self._create(key, nullcontext()) as new:
                    new.path.write_bytes(data)
            return found in (expected, data)

    def compare_and_delete(self, key: str, *, expected: bytes) -> bool:
        path = self.path(key)
        if not path.parent.is_dir():
            return False
        with _file_lock(path.parent, fcntl.LOCK_EX), _explain_os_errors(path, "removed"):
            found = path.is_file() and path.read_bytes() == expected
            if found:
                path.unlink()
        return found

    def without_takeover(self) -> AbstractContextManager[None]:
        if not self.root.is_dir():  # then there is no lock either
            return nullcontext()
        return _file_lock(self.root, fcntl.LOCK_SH)

    def _guard(self) -> AbstractContextManager[None]:
        """Return a context in which this process has the right to change something."""
        return nullcontext() if self.fence is None else self.fence.held()

    def delete(self, keys: Iterable[str]) -> None:
        folders = set()
        with self._guard():
            for key in keys:
                path = self.path(key)
                with (
                    _explain_os_errors(path, "removed"),
                    suppress(FileNotFoundError, NotADirectoryError),
                ):  # then the object does not exist
                    path.unlink()
                    folders.add(path.parent)
        for folder in folders:  # what is written next must not survive a power failure without this
            self._unsynced.add(folder)

    def delete_empty(self, folder: str) -> None:
        with suppress(OSError):  # it is not empty, or does not exist
            self.path(folder).rmdir()

    def delete_unfinished(self, folders: Iterable[str]) -> None:
        for folder in folders:
            for path in self.path(folder).rglob(f"{PARTIAL}*"):
                if PARTIAL_NAME.fullmatch(path.name):
                    with self._guard(), _explain_os_errors(path, "removed"):
                        path.unlink(missing_ok=True)

    def delete_empty_folders(self, folder: str) -> None:
        path = self.path(folder)
        below = path.rglob("*") if path.is_dir() else ()
        for one in sorted((one for one in below if one.is_dir() and not one.is_symlink()), reverse=True):
            with suppress(OSError):  # it is not empty
                one.rmdir()
        self.delete_empty(folder)

    def delete_made_folders(self) -> None:
        for path in sorted(self._unsynced.made, reverse=True):
            with suppress(OSError):  # it is not empty
                path.rmdir()

    def close(self) -> None:
        """Do nothing: a local object is its own copy."""

    def _make_folder(self, path: Path) -> None:
        with self._unsynced.making:  # nobody uses a folder that another thread makes and has not noted yet
            self._unsynced.made += make_folder(path, self._unsynced.add)


class _UnsyncedFolders:
    """Folders with new or removed entries that may not be on the disk yet. Several threads can use it.

    Attributes:
        made: Folders that the store has made.
        making: Held while a folder is made.
    """

    def __init__(self) -> None:
        self.made: list[Path] = []
        self.making = threading.Lock()
        self._lock = threading.Lock()
        self._syncing = threading.Lock()
        self._deferred = 0
        self._folders: set[Path] = set()

    def add(self, folder: Path) -> None:
        """Write the entries of a folder to the disk, now or at the end of `deferred`."""
        with self._lock:
            if self._deferred:
                self._folders.add(folder)
                return
        sync_folder(folder)

    @contextmanager
    def deferred(self) -> Iterator[None]:
        """Write each folder once, at the end of the block.

        Blocks of several threads overlap. What one has changed may be written at the end of the block of
        another one, which the first then waits for.
        """
        with self._lock:
            self._deferred += 1
        try:
            yield
        finally:
            with self._syncing:
                with self._lock:
                    self._deferred -= 1
                while (folder := self._next()) is not None:
                    try:
                        sync_folder(folder)
                    except StorageError:
                        with self._lock:
                            self._folders.add(folder)
                        raise

    def _next(self) -> Path | None:
        """Remove and return a folder; its later changes add it again."""
        with self._lock:
            return self._folders.pop() if self._folders else None


def sync_folder(folder: Path) -> None:
    """Wait until the entries of a folder are on the disk; a folder that has been removed is ignored."""
    try:
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ENOTSUP):  # a file system without it
            raise StorageError(f"{folder} cannot be written to the disk: {error.strerror}") from error
    finally:
        os.close(handle)


def copy_durably(source: Path, target: Path) -> None:
    """Copy the content of a file, and wait until it is on the disk; `sync_folder` does so for its name."""
    shutil.copyfile(source, target)
    with target.open("rb") as stream:
        os.fsync(stream.fileno())


def _check_regular(path: Path) -> None:
    """Raise an error for a FIFO, a socket or a device: opening one may wait forever."""
    mode = path.stat().st_mode
    if not S_ISREG(mode) and not S_ISDIR(mode):
        raise InvalidInputError(
            f"{path} is not a file", found=f"the mode {filemode(mode)}", expected="a regular file"
        )


@contextmanager
def _file_lock(folder: Path, kind: int) -> Iterator[None]:
    """Exclude others from a folder; the system releases the lock if the process dies.

    Raises:
        StorageError: Another process keeps it for `LOCK_SECONDS`.
    """
    with _explain_os_errors(folder, "locked"):
        handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                with _explain_os_errors(folder, "locked"):
                    fcntl.flock(handle, kind | fcntl.LOCK_NB)
                break
            except StorageError as error:
                if not isinstance(error.__cause__, BlockingIOError):
                    raise
                if time.monotonic() > end:
                    raise StorageError(
                        f"{folder} is locked by a process that does not go on",
                        remedy="Look for a suspended process that works there, and continue or end it.",
                    ) from error
            time.sleep(0.002)
        yield
    finally:
        os.close(handle)


def check_folder(store: Store) -> None:
    """Check that a local root is, or can become, a folder.

    Raises:
        UsageError: The root, or a parent of it, is a file.
    """
    if isinstance(store, LocalStore):
        path = _nearest_existing(store.root)
        if not path.is_dir():
            raise _not_a_folder(store.root, path)


def _nearest_existing(path: Path) -> Path:
    """Return the path, or the nearest of its parents that exists."""
    return next((one for one in (path, *path.parents) if os.path.lexists(one)), path)


def make_folder(path: Path, changed: Callable[[Path], None] | None = None) -> list[Path]:
    """Make a folder and its parents, and return those that did not exist.

    Args:
        path: The folder.
        changed: Called with each folder that has a new entry. Default: `sync_folder`.

    Raises:
        StorageError: It cannot be made.
        UsageError: A file has its name, or that of a parent.
    """
    if path.is_dir():
        return []
    existing = _nearest_existing(path)
    try:
        with _explain_os_errors(path, "made"):
            path.mkdir(parents=True, exist_ok=True)
    except StorageError:
        existing = _nearest_existing(path)
        if existing.is_dir():
            raise
        raise _not_a_folder(path, existing) from None
    made = []
    while path != existing and path.parent != path:
        made.append(path)
        path = path.parent
        (changed or sync_folder)(path)
    return made


def _not_a_folder(path: Path, existing: Path) -> UsageError:
    kind = "a broken symbolic link" if existing.is_symlink() else "a file"
    return UsageError(
        f"{path} cannot be a folder",
        found=f"{kind}, {existing}",
        expected="a folder, or a path that does not exist",
        remedy="Choose another output, or move the file away.",
    )


@contextmanager
def _explain_os_errors(path: Path, what: str) -> Iterator[None]:
    """Turn operating system errors into a `StorageError` with the path and its permissions."""
    try:
        yield
    except OSError as error:
        problem = f"{path} cannot be {what}: {error.strerror or error}"
        if error.errno not in FORBIDDEN:
            raise StorageError(problem) from error
        raise StorageError(problem, found=_permissions(path), remedy=ALLOW) from error


@contextmanager
def _explain_forbidden_write(path: Path) -> Iterator[None]:
    """Turn permission errors of the code that writes a file into a `StorageError`."""
    try:
        yield
    except OSError as error:
        if error.errno not in FORBIDDEN or os.access(path.parent, os.W_OK | os.X_OK, effective_ids=True):
            raise
        problem = f"{path} cannot be written: {os.strerror(error.errno or 0)}"
        raise StorageError(problem, found=_permissions(path), remedy=ALLOW) from error


def _permissions(path: Path) -> str:
    """Return the user of this process, and owner and mode of the nearest existing folder, for messages."""
    user, folder = f"this process runs as user {_user_name(os.geteuid())}", path
    with suppress(OSError):
        folder = _nearest_existing(path.parent)
        status = folder.stat()
        return f"{user}; {folder} belongs to {_user_name(status.st_uid)}, mode {filemode(status.st_mode)}"
    return f"{user}, who has no access to {folder}"


def _user_name(number: int) -> str:
    try:
        return f"{pwd.getpwuid(number).pw_name} ({number})"
    except KeyError:
        return str(number)


@contextmanager
def _explain_read_errors(uri: str) -> Iterator[None]:
    """Turn the errors of reading a file into an `InvalidInputError`."""
    try:
        yield
    except (FileNotFoundError, NotADirectoryError) as error:
        at_root = "; metadata.json must be at the root of a graph" if uri.endswith("/metadata.json") else ""
        raise InvalidInputError(f"There is no file {uri}", remedy=f"Check the path{at_root}.") from error
    except (IsADirectoryError, PermissionError) as error:
        forbidden = error.errno in FORBIDDEN
        raise InvalidInputError(
            f"{uri} cannot be read: {error.strerror}",
            found=f"this process runs as user {_user_name(os.geteuid())}" if forbidden else None,
            remedy="Grant that user read access, or run as another user." if forbidden else None,
        ) from error


def start_flushing(file: int) -> None:
    """Ask the kernel to start writing a file to the disk, which shortens a later ``fsync``.

    This does nothing on systems other than Linux, or if the kernel refuses.

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
