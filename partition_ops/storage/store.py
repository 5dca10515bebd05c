"""The interface that every stage reads and writes through."""

from __future__ import annotations

import builtins
import hashlib
import json
import posixpath
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.errors import InvalidInputError, PartitionOpsError, StorageError
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress

REQUESTS = 8  # at a time, where many small ones are to be made
BLOCK_BYTES = 16 << 20
READS = 2  # blocks on their way at a time
THREADS = 8
FULL_DISK = 1 << 20  # bytes left with which nothing useful can be written


@dataclass(frozen=True)
class StoredObject:
    """One object as storage lists it.

    Attributes:
        key: Path below the root of the store, with ``/`` between its parts.
        size: Bytes.
        tag: Changes when the content changes: the ETag on S3, size and modification time on a disk.
        modified: When it was written, in seconds since the epoch.
    """

    key: str
    size: int
    tag: str
    modified: float = field(default=0.0, compare=False)  # not every answer of a server has it to the digit


@dataclass(frozen=True)
class Artifact:
    """One object that a stage wrote, as the manifest lists it: key, bytes and SHA-256 in hex."""

    key: str
    size: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class NewObject:
    """A local file to write into; it becomes an object of the store when the context ends well.

    Attributes:
        path: The file to write.
        read_again: Set by who writes it: the same process is likely to read the object, so that a local copy
            of it is worth its disk.
        passing: Set by who writes it: the object need not outlive a crash of the machine, so nobody waits for
            the disk. Whoever finds it later must compare its content.
        artifact: Set once the object is in the store, or on its way there.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.read_again = False
        self.passing = False
        self.artifact: Artifact | None = None

    def published(self) -> Artifact:
        """The artifact, once the context has ended well."""
        if self.artifact is None:
            raise RuntimeError(f"{self.path} has not been published yet")
        return self.artifact


class Store(ABC):
    """A root, on a local disk or on S3, below which objects have keys.

    Objects appear whole or not at all. Keys are relative, use ``/`` and may not leave the root.
    Usable from several threads.

    Attributes:
        uri: The root.
        settings: How its server was reached, so that another process can; None on a local disk.
    """

    settings: StorageSettings | None = None

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") if uri != "/" else uri

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def place(self) -> str:
        """The root, the same text for the same place."""
        return self.uri

    def uri_of(self, key: str) -> str:
        """The whole URI of an object, for messages and links."""
        return f"{self.uri}/{key}"

    @abstractmethod
    def child(self, prefix: str) -> Store:
        """A store whose root is ``prefix`` below this one; it shares this one's connection and cache."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Every object whose key begins with ``prefix``, in the order of their keys."""

    @abstractmethod
    def stat(self, key: str) -> StoredObject | None:
        """Size and tag of one object, or None where there is none."""

    def stat_all(self, keys: Iterable[str]) -> builtins.list[StoredObject | None]:
        """As `stat`, for many objects: several requests at a time."""
        return [*map_in_threads(self.stat, keys, workers=REQUESTS)]

    @abstractmethod
    def read_bytes(self, key: str) -> bytes:
        """The whole content of a small object.

        Raises:
            InvalidInputError: There is no such object.
        """

    def read_range(self, key: str, begin: int, end: int) -> bytes:
        """The bytes of an object from ``begin`` up to ``end``; from S3 nothing else is fetched.

        Raises:
            InvalidInputError: There is no such object.
        """
        with self.local_copy(key).open("rb") as stream:
            stream.seek(begin)
            return stream.read(end - begin)

    @abstractmethod
    def local_copy(self, key: str) -> Path:
        """A local file with the content of the object, to read or to map, never to write.

        On a local disk that is the object itself; from S3 it is fetched once and kept until the store
        is closed.

        Raises:
            InvalidInputError: There is no such object.
        """

    def is_local(self, key: str) -> bool:
        """Whether `local_copy` would be the object itself, so that nothing is fetched."""
        return False

    @abstractmethod
    def create(self, key: str) -> AbstractContextManager[NewObject]:
        """A local file that replaces the object ``key`` when the context ends without an error.

        After an error, or when the process dies, the object is what it was before.
        """

    @contextmanager
    def deferring(self) -> Iterator[Store]:
        """This store, but an object may still be on its way to it when `create` has ended.

        Whoever reads the object waits for it. When this context ends, all are there, or it raises what went
        wrong with the first that is not.
        """
        yield self

    @abstractmethod
    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None) -> bool:
        """Write a small object if its content is still what is expected.

        Of several callers that expect the same and write different things, one is told that it wrote.

        Args:
            key: The object.
            data: Its new content.
            expected: What it holds now; None where there is to be no such object.

        Returns:
            Whether ``data`` is there now.
        """

    def copy_from(self, other: Store, key: str, size: int) -> bool:
        """Take an object over from another root under the same key, without its content passing through here.

        On a local disk it is a hard link where the disk can, on S3 the server copies. It appears whole or not
        at all.

        Args:
            other: The root that has the object.
            key: The object.
            size: Bytes that it must have.

        Returns:
            Whether that could be done: both must be kept in the same way, and the object be there.
        """
        return False

    @abstractmethod
    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that are not there are passed over."""

    def delete_empty(self, folder: str) -> None:  # noqa: B027 - only some stores have folders
        """Remove a folder if there is one and nothing is in it."""

    def delete_unfinished(self, folders: Iterable[str]) -> None:  # noqa: B027 - as above
        """Remove what killed processes had begun to write into some folders; nobody else may write there."""

    @abstractmethod
    def close(self) -> None:
        """Give back what the store holds locally (fetched copies)."""

    def exists(self, key: str) -> bool:
        return self.stat(key) is not None

    def delete_prefix(self, prefix: str) -> None:
        """Remove every object whose key begins with ``prefix``."""
        self.delete([entry.key for entry in self.list(prefix)])

    def write_bytes(self, key: str, data: bytes) -> Artifact:
        """Write a small object."""
        with self.create(key) as new:
            new.path.write_bytes(data)
        return new.published()

    def write_array(self, key: str, array: npt.NDArray[Any]) -> Artifact:
        """Write an array as ``.npy``."""
        with self.create(key) as new, new.path.open("wb") as stream:
            np.save(stream, array, allow_pickle=False)
        return new.published()

    def write_json(self, key: str, value: Any) -> Artifact:
        """Write a JSON document; the same value gives the same bytes."""
        return self.write_bytes(key, json_bytes(value))

    def read_json(self, key: str) -> Any:
        """Read a JSON document.

        Raises:
            InvalidInputError: There is no such object, or it is not JSON.
        """
        return self.parse_json(key, self.read_bytes(key))

    def parse_json(self, key: str, data: bytes) -> Any:
        """The JSON document that has been read from an object.

        Raises:
            InvalidInputError: It is not JSON.
        """
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            from partition_ops.system.json_documents import not_json  # brings jsonschema

            raise not_json(self.uri_of(key), error) from error


def json_bytes(value: Any) -> bytes:
    """A JSON document as it is written; the same value gives the same bytes."""
    return (json.dumps(value, indent=2) + "\n").encode()


def check_key(key: str) -> str:
    """Refuse a key that is empty, absolute or leads out of its root.

    Raises:
        InvalidInputError: With the key in its message.
    """
    unsafe = not key or key.startswith("/") or "\\" in key or "\0" in key
    if unsafe or posixpath.normpath(key) != key or key.split("/")[0] == "..":
        raise InvalidInputError(
            "A path leaves its root or is not in its plain form",
            found=repr(key),
            expected="a relative path with '/' between its parts and without '.' or '..'",
        )
    return key


@contextmanager
def explained_full_disk(folder: Path) -> Iterator[None]:
    """Say so where writing failed because the disk is full: few libraries do."""
    try:
        yield
    except Exception as error:
        if isinstance(error, PartitionOpsError) or shutil.disk_usage(folder).free > FULL_DISK:
            raise
        raise StorageError(
            f"There is no space left in {folder}",
            remedy="Make room and repeat the call: it goes on from there.",
        ) from error


def sha256_of(path: Path) -> str:
    """SHA-256 of a file, in hex, read in blocks."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_object(store: Store, key: str, size: int) -> str:
    """SHA-256 of an object of so many bytes, in hex. Memory: 48 MiB."""
    if store.is_local(key):
        return sha256_of(store.local_copy(key))
    digest = hashlib.sha256()

    def read(begin: int) -> bytes:
        return store.read_range(key, begin, min(begin + BLOCK_BYTES, size))

    for block in map_in_threads(read, range(0, size, BLOCK_BYTES), workers=READS):
        digest.update(block)
    return digest.hexdigest()


def upload_folder(
    folder: Path, store: Store, *, progress: Progress | None = None, last: str | None = None
) -> list[Artifact]:
    """Copy every file below a local folder into a store; keys are the paths below the folder.

    Args:
        folder: The folder.
        store: Where to.
        progress: Shows how many bytes are there.
        last: Key that is copied after all others, for readers that start from it.

    Returns:
        What was written, in the order of the keys.

    Raises:
        InvalidInputError: There is no such folder, or no file in it.
    """
    keys = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    if not keys:
        raise InvalidInputError(f"There is nothing to upload in {folder}", remedy="Check the path.")
    total = sum((folder / key).stat().st_size for key in keys)
    with (progress or NoProgress()).step(f"Uploading to {store.uri}", total, "bytes") as advance:

        def upload(key: str) -> Artifact:
            with store.create(key) as new:
                shutil.copyfile(folder / key, new.path)
            artifact = new.published()
            advance(artifact.size)
            return artifact

        with ThreadPoolExecutor(THREADS) as pool:
            written = list(pool.map(upload, [key for key in keys if key != last]))
        if last in keys:
            written.append(upload(last))
    return sorted(written, key=lambda artifact: artifact.key)
