"""A store in a folder of the local disk."""

from __future__ import annotations

import builtins
import errno
import fcntl
import os
import re
import secrets
import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from stat import S_ISDIR, S_ISLNK, S_ISREG, filemode
from typing import BinaryIO, cast

from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.storage.direct_file import DirectFile
from partition_ops.storage.durability import copy_durably, make_folder, sync_folder
from partition_ops.storage.local_errors import (
    explain_forbidden_write,
    explain_full_disk,
    explain_os_errors,
    explain_read_errors,
    nearest_existing,
    not_a_folder,
)
from partition_ops.storage.store import (
    Artifact,
    NewObject,
    Store,
    StoredObject,
    check_key,
    sha256_of,
)
from partition_ops.system.signals import register_cleanup, wait_if_process_ends

PARTIAL = ".partial-"
PARTIAL_NAME = re.compile(r"\.partial-[0-9a-f]{16}")
ATTEMPTS = 3
LOCK_SECONDS = 30.0  # a process holds a file lock for milliseconds, unless it is suspended
partial_files: set[Path] = set()  # that this process writes


class _NewFile(NewObject):
    """A file that goes past the page cache if this process is not going to read it."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self._stream: DirectFile | None = None

    def open(self) -> BinaryIO:
        if self.keep_copy:
            return super().open()
        self._stream = DirectFile(self.path)
        return cast(BinaryIO, self._stream)

    @property
    def sha256(self) -> str | None:
        """SHA-256 of the file in hex, if it was computed while the file was written."""
        return None if self._stream is None else self._stream.sha256


class MadeFolders:
    """Folders that a store and its children have made, and the lock that is held while one is made."""

    def __init__(self) -> None:
        self.paths: list[Path] = []
        self.making = threading.Lock()


class LocalStore(Store):
    """A store whose objects are files below a folder; each appears by a rename.

    Args:
        root: The folder; the first write creates it.
    """

    requests = 1  # a thread takes as long to begin as a small file to be read

    def __init__(self, root: Path) -> None:
        self.root = root.absolute()
        self._made = MadeFolders()
        super().__init__(str(self.root))

    def path(self, key: str) -> Path:
        """Return the path of an object.

        Raises:
            InvalidInputError: The path leaves the root, perhaps by a symbolic link.
        """
        path = self.root / check_key(key)
        if not _may_have_links(self.root, key):
            return path
        try:
            resolved, root = _resolve(path), _resolve(self.root)
        except (RuntimeError, OSError) as error:
            raise InvalidInputError(f"{path} cannot be resolved: {error}") from error
        if not resolved.is_relative_to(root):
            raise InvalidInputError(
                "A symbolic link leads out of the root",
                found=str(path),
                expected=f"a path in {self.uri}",
            )
        return path

    @property
    def canonical_uri(self) -> str:
        return str(_resolve(self.root))

    def child(self, prefix: str) -> LocalStore:
        child = LocalStore(self.root / check_key(prefix))
        child.fenced, child._made = self.fenced, self._made
        return child

    def above(self, levels: int) -> LocalStore:
        if len(self.root.parents) < levels:
            raise InvalidInputError(f"There are no {levels} folders above {self.root}")
        above = LocalStore(self.root.parents[levels - 1])
        above.fenced, above._made = self.fenced, self._made
        return above

    def names(self) -> builtins.list[str]:
        if not self.root.is_dir():
            return []
        with explain_os_errors(self.root, "listed"):
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
            if error.errno == errno.ENAMETOOLONG:  # no file can have it
                return None
            raise StorageError(f"{self.uri_of(key)} cannot be accessed: {error.strerror}") from error
        if not self.path(key).is_file():
            return None
        # the time of the last change of the inode: unlike the modification time, nobody can set it
        tag = f"{status.st_size}-{status.st_mtime_ns}-{status.st_ctime_ns}"
        return StoredObject(key, status.st_size, tag, status.st_mtime)

    def read_bytes(self, key: str) -> bytes:
        with explain_read_errors(self.uri_of(key)):
            _check_regular(self.path(key))
            return self.path(key).read_bytes()

    def local_copy(self, key: str) -> Path:
        path = self.path(key)
        with explain_read_errors(self.uri_of(key)):
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
        with _partial_file(path) as partial:
            new = _NewFile(partial)
            with explain_full_disk(path.parent), explain_forbidden_write(path):
                yield new
            with explain_os_errors(path, "written"), partial.open("rb") as stream:
                artifact = Artifact(key, partial.stat().st_size, new.sha256 or sha256_of(partial))
                os.fsync(stream.fileno())
                with guard:
                    partial.replace(path)
        sync_folder(path.parent)
        new.artifact = artifact

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
        with (
            _partial_file(path) as partial,
            explain_full_disk(path.parent),
            explain_os_errors(path, "written"),
        ):
            try:
                os.link(existing, partial)
            except OSError:  # another disk, or one without hard links
                copy_durably(existing, partial)
            with self._guard():
                partial.replace(path)
        sync_folder(path.parent)

    def compare_and_set(
        self, key: str, data: bytes, *, expected: bytes | None, fenced: bool = True, settle: bool = True
    ) -> bool:
        path = self.path(key)
        self._make_folder(path.parent)
        with _file_lock(path.parent, fcntl.LOCK_EX):
            if fenced and self.fence is not None:
                self.fence.check()
            with explain_os_errors(path, "read"):
                found = path.read_bytes() if path.is_file() else None
            if found == expected:
                with self._create(key, nullcontext()) as new:
                    new.path.write_bytes(data)
            return found in (expected, data)

    def compare_and_delete(self, key: str, *, expected: bytes, instead: bytes) -> bool:
        path = self.path(key)
        if not path.parent.is_dir():
            return False
        with _file_lock(path.parent, fcntl.LOCK_EX), explain_os_errors(path, "removed"):
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
                    explain_os_errors(path, "removed"),
                    suppress(FileNotFoundError, NotADirectoryError),
                ):  # then the object does not exist
                    path.unlink()
                    folders.add(path.parent)
        for folder in folders:  # what is written next must not survive a power failure without this
            sync_folder(folder)

    def delete_empty(self, folder: str) -> None:
        with suppress(OSError):  # it is not empty, or does not exist
            self.path(folder).rmdir()

    def delete_unfinished(self, folders: Iterable[str]) -> None:
        for folder in folders:
            for path in self.path(folder).rglob(f"{PARTIAL}*"):
                if PARTIAL_NAME.fullmatch(path.name):
                    with self._guard(), explain_os_errors(path, "removed"):
                        path.unlink(missing_ok=True)

    def delete_empty_folders(self, folder: str) -> None:
        path = self.path(folder)
        below = path.rglob("*") if path.is_dir() else ()
        for one in sorted((one for one in below if one.is_dir() and not one.is_symlink()), reverse=True):
            with suppress(OSError):  # it is not empty
                one.rmdir()
        self.delete_empty(folder)

    def delete_made_folders(self) -> None:
        for path in sorted(self._made.paths, reverse=True):
            with suppress(OSError):  # it is not empty
                path.rmdir()

    def _make_folder(self, path: Path) -> None:
        with self._made.making:  # nobody uses a folder that another thread makes and has not noted yet
            self._made.paths += make_folder(path)


@contextmanager
def _partial_file(path: Path) -> Iterator[Path]:
    """Yield the path of a new file beside ``path``, which is removed at the end of the block or process."""
    partial = path.with_name(f"{PARTIAL}{secrets.token_hex(8)}")
    partial_files.add(partial)
    wait_if_process_ends()  # nothing removes what is begun after the clean-up
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)
        partial_files.discard(partial)


def _remove_partial_files() -> None:
    """Remove the partial files before the process exits; its threads may still write them."""
    for _ in range(ATTEMPTS):
        for partial in [*partial_files]:
            with suppress(OSError):
                partial.unlink(missing_ok=True)


register_cleanup(_remove_partial_files, after_children=True)


def _may_have_links(root: Path, key: str) -> bool:
    """Return whether a part of a key is a symbolic link, or cannot be looked at.

    Most have none. With `_resolve`, a path takes 28 µs and not 5; a run in 64 partitions asks for 9,000.
    """
    path = str(root)
    for name in key.split("/"):
        path = f"{path}/{name}"
        try:
            if S_ISLNK(os.lstat(path).st_mode):
                return True
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError:
            return True
    return False


def _resolve(path: Path) -> Path:
    """Return a path without symbolic links.

    Raises:
        OSError: Symbolic links lead to each other. Before Python 3.13 this is a RuntimeError.
    """
    resolved = path.resolve()
    if resolved.is_symlink():
        raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
    return resolved


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
    with explain_os_errors(folder, "locked"):
        handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + LOCK_SECONDS
        while True:
            try:
                with explain_os_errors(folder, "locked"):
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
        path = nearest_existing(store.root)
        if not path.is_dir():
            raise not_a_folder(store.root, path)
