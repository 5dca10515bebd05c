"""The storage interface `Store`, through which every stage reads and writes, and what belongs to it."""

from __future__ import annotations

import builtins
import hashlib
import json
import posixpath
import shutil
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from io import UnsupportedOperation
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, BinaryIO

from partition_ops.errors import InvalidInputError
from partition_ops.storage.fence import Fence, Fenced
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.system.parallel import map_in_threads

if TYPE_CHECKING:
    import numpy.typing as npt

ATTEMPTS = 5  # to read an object that others remove and write
BLOCK_BYTES = 16 << 20
READS = 2  # range reads at a time


@dataclass(frozen=True)
class StoredObject:
    """An object as storage lists it.

    Attributes:
        key: Path below the root of the store, with ``/`` between its parts.
        size: Bytes.
        tag: Changes when the content changes: the ETag on S3, size and times of the last changes on a disk.
        modified: Time of the last write, in seconds since the epoch.
    """

    key: str
    size: int
    tag: str
    modified: float = field(default=0.0, compare=False)  # some answers of a server round it


@dataclass(frozen=True)
class Artifact:
    """An object that a stage wrote, as the manifest lists it: key, size in bytes and SHA-256 in hex."""

    key: str
    size: int
    sha256: str

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


class NewObject:
    """A local file that becomes an object of the store when the context of `Store.create` succeeds.

    Attributes:
        path: The file to write.
        keep_copy: The writer sets this if the same process is likely to read the object, so that keeping a
            local copy is worth the disk space: this saves 5 % of a job on S3, see docs/decisions/tricks.md.
        artifact: Set once the object is in the store or its upload has started.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.keep_copy = False
        self.artifact: Artifact | None = None

    def open(self) -> BinaryIO:
        """Open the file to write it, best from front to back: a store may then hash it meanwhile."""
        return self.path.open("wb")

    def get_artifact(self) -> Artifact:
        """Return the artifact, after the context has succeeded."""
        if self.artifact is None:
            raise RuntimeError(f"{self.path} has not been published yet")
        return self.artifact


class Store(ABC):
    """Objects below a root, which is a folder of the local disk or a prefix of an S3 bucket.

    Writes are atomic: an object appears whole or not at all. Keys are relative paths with ``/``, and cannot
    leave the root. A store can be used from several threads.

    Attributes:
        uri: URI or path of the root.
        settings: Connection settings for other processes that open the same root; None on a local disk.
        requests: Small requests to send at a time.
    """

    settings: StorageSettings | None = None
    requests = 8

    def __init__(self, uri: str) -> None:
        self.uri = uri.rstrip("/") if uri != "/" else uri
        self.fenced = Fenced()

    @property
    def fence(self) -> Fence | None:
        """What is checked before each change, here and in children of this store; None for nothing."""
        return self.fenced.fence

    @fence.setter
    def fence(self, fence: Fence | None) -> None:
        self.fenced.fence = fence

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.uri!r})"

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def canonical_uri(self) -> str:
        """The root in canonical form: equal for two stores with the same root."""
        return self.uri

    def uri_of(self, key: str) -> str:
        """Return the URI of an object, for messages and links."""
        return f"{self.uri}/{key}"

    @abstractmethod
    def child(self, prefix: str) -> Store:
        """Return a store for the root ``prefix`` below this one; it shares the connection and the cache."""

    def above(self, levels: int) -> Store:
        """Return a store for the root so many folders above this one; it shares what a child shares.

        Raises:
            InvalidInputError: There are fewer folders above it.
        """
        raise UnsupportedOperation(self.uri)

    def names(self) -> builtins.list[str]:
        """Return the names of folders and objects directly below the root, sorted; of very many, some."""
        raise UnsupportedOperation(self.uri)

    def snapshot(self, *, but: Collection[str] = ()) -> AbstractContextManager[None]:
        """Let an S3 store answer from one listing during the block, because nobody else changes its objects.

        Sizes, tags, missing objects and small contents are then known without requests. Changes through this
        store and its children are noted. If somebody else changes an object, reading it raises a
        `TransientStorageError`. On a local disk, nothing is remembered.

        Args:
            but: Keys of objects that others change.
        """
        return nullcontext()

    def list_ahead(self) -> None:  # noqa: B027 - only some stores list
        """Begin the listing for the next `snapshot` now, if it takes a request.

        Some servers hash all objects for it: a second for 0.5 GB, in which a job can load its modules.
        """

    def changed_elsewhere(self, keys: Iterable[str]) -> None:  # noqa: B027 - only some stores remember
        """Forget what a snapshot knows of objects that another process has written or removed."""

    @abstractmethod
    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        """Yield every object whose key begins with ``prefix``, in the order of the keys."""

    @abstractmethod
    def stat(self, key: str) -> StoredObject | None:
        """Return size and tag of an object, or None if it does not exist."""

    def stat_all(self, keys: Iterable[str]) -> builtins.list[StoredObject | None]:
        """Return the result of `stat` for each of several objects, with concurrent requests."""
        return [*map_in_threads(self.stat, keys, workers=self.requests)]

    @abstractmethod
    def read_bytes(self, key: str) -> bytes:
        """Return the content of a small object.

        Raises:
            InvalidInputError: The object does not exist.
        """

    def read_if_there(self, key: str) -> bytes | None:
        """Return the content of a small object, or None if it does not exist; this is one request to S3.

        Others may remove and write it meanwhile.
        """
        for _ in range(ATTEMPTS):
            try:
                return self.read_bytes(key)
            except InvalidInputError:
                if not self.exists(key):
                    return None
        return self.read_bytes(key)

    def read_range(
        self, key: str, begin: int, end: int, *, crc32: int | None = None, compared: bool = False
    ) -> bytes:
        """Return the bytes of an object from ``begin`` up to ``end``; only these are downloaded from S3.

        Args:
            key: Key of the object.
            begin: First byte.
            end: Last byte, excluded.
            crc32: Checksum of these bytes, if the caller knows it. What arrives from S3 is compared with it;
                otherwise it is read twice over plain HTTP. Local files are not compared.
            compared: Whether the caller compares a digest of the object, and reads it again without this if
                it is another one. One read is enough then.

        Raises:
            InvalidInputError: The object does not exist.
            TransientStorageError: What arrives from S3 does not have the checksum.
        """
        with self.local_copy(key).open("rb") as stream:
            stream.seek(begin)
            return stream.read(end - begin)

    @abstractmethod
    def local_copy(self, key: str) -> Path:
        """Return a local file with the content of the object, to read or to map, never to write.

        On a local disk, this is the object itself. From S3, the object is downloaded once and kept until the
        store is closed.

        Raises:
            InvalidInputError: The object does not exist.
        """

    def checked_copy(self, key: str, sha256: str) -> Path | None:
        """Return `local_copy` if its content has this digest, in hex; otherwise None.

        A copy of an object on S3 is hashed once, when it arrives, and then not compared with its ETag.
        """
        path = self.local_copy(key)
        return path if sha256_of(path) == sha256 else None

    def fetch_ahead(  # noqa: B027 - only remote objects are fetched
        self, keys: Iterable[str], digests: Mapping[str, str] | None = None
    ) -> None:
        """Begin to fetch objects whose `local_copy` will be needed, in their order.

        Args:
            keys: Keys of the objects.
            digests: The SHA-256 of all of them, in hex, if `checked_copy` will be needed instead.
        """

    def is_local(self, key: str) -> bool:
        """Return whether `local_copy` returns the object itself, without a download."""
        return False

    def create(self, key: str) -> AbstractContextManager[NewObject]:
        """Return a context with a local file, which replaces the object when the context succeeds.

        After an error, or if the process dies, the object is unchanged.
        """
        raise UnsupportedOperation(key)

    @contextmanager
    def background_uploads(self) -> Iterator[Store]:
        """Yield this store with uploads in the background: `create` may return before its upload is done.

        Reads of such an object wait for its upload. The end of the context waits for all uploads, and raises
        the error of the first that failed.
        """
        yield self

    def compare_and_set(
        self, key: str, data: bytes, *, expected: bytes | None, fenced: bool = True, settle: bool = True
    ) -> bool:
        """Write a small object if its current content is the expected one.

        If several callers at once expect the same content and write different data, one of them succeeds.

        Args:
            key: Key of the object.
            data: The new content.
            expected: The expected current content; None if the object must not exist.
            fenced: False for the lock itself.
            settle: Whether to wait until the result is certain. Otherwise the caller reads the object again
                `settle_seconds` later.

        Returns:
            Whether the content is ``data`` now.
        """
        raise UnsupportedOperation(key)

    @property
    def settle_seconds(self) -> float:
        """Seconds until the result of a `compare_and_set` is certain; 0 unless S3 ignores conditions."""
        return 0.0

    def compare_and_delete(self, key: str, *, expected: bytes, instead: bytes) -> bool:
        """Remove a lock if its current content is the expected one; the fence is not checked.

        Args:
            key: Key of the object.
            expected: The expected current content.
            instead: Content that stands for a removed lock, for S3 servers that can replace an object on a
                condition but not remove it.

        Returns:
            Whether it was removed or replaced. On S3 servers that ignore all conditions, a write between the
            comparison and the removal is lost.
        """
        raise UnsupportedOperation(key)

    def without_takeover(self) -> AbstractContextManager[None]:
        """Keep `compare_and_set` in the root from writing during the block, if the system has file locks."""
        return nullcontext()

    def write_first(self, key: str, data: bytes) -> Artifact:
        """Write a small object that does not exist; on S3, the request has that condition.

        Raises:
            ConflictError: There is a fence, and the lock is lost.
        """
        return self.write_bytes(key, data)

    def write_last(self, key: str, data: bytes, *, after: Iterable[str] = ()) -> None:
        """Write a small object as `write_first` does, after what the context of `background_uploads` wrote.

        In a snapshot on S3, this happens in the background, and reads find the object at once. The next
        `write_first` and the end of the snapshot wait for it and raise its error.

        Args:
            key: Key of the object.
            data: The content.
            after: Keys of objects that are written before.
        """
        self.write_first(key, data)

    def is_written(self, key: str, *, wait: bool = False) -> bool:
        """Return whether what `write_last` took is in storage; with ``wait``, wait for it or for an error."""
        return True

    def copy_from(self, other: Store, key: str, size: int) -> bool:
        """Copy an object from another root, under the same key and without downloading it.

        A local store makes a hard link if the disk supports it; an S3 server makes the copy itself. The copy
        is atomic.

        Args:
            other: Root of the existing object.
            key: Key of the object in both stores.
            size: Size that the object must have, in bytes.

        Returns:
            Whether it was copied: both stores must be of the same kind, and the object must have that size.
        """
        return False

    def share(self, artifact: Artifact, key: str) -> Artifact:
        """Create another object with the content of one that this process has written to this store.

        A local store makes a hard link if the disk supports it; an S3 server makes the copy itself, in the
        background if uploads are.

        Args:
            artifact: The existing object.
            key: Key of the new object.
        """
        with self.create(key) as new:
            shutil.copyfile(self.local_copy(artifact.key), new.path)
        return new.get_artifact()

    def delete(self, keys: Iterable[str]) -> None:
        """Remove objects; those that do not exist are ignored."""
        raise UnsupportedOperation(self.uri)

    def delete_empty(self, folder: str) -> None:  # noqa: B027 - only some stores have folders
        """Remove a folder if it exists and is empty."""

    def delete_empty_folders(self, folder: str) -> None:  # noqa: B027 - as above
        """Remove all empty folders in a folder, and the folder itself if it is empty then."""

    def delete_made_folders(self) -> None:  # noqa: B027 - as above
        """Remove the folders that this store has made and that are empty."""

    def delete_unfinished(self, folders: Iterable[str]) -> None:  # noqa: B027 - as above
        """Remove the partial files of killed processes from some folders, in which nobody else may write."""

    def close(self) -> None:  # noqa: B027 - as above
        """Remove the downloaded copies, if the store has any of its own."""

    def exists(self, key: str) -> bool:
        return self.stat(key) is not None

    def write_bytes(self, key: str, data: bytes, *, keep_copy: bool = False) -> Artifact:
        """Write a small object; ``keep_copy`` is that of `NewObject`."""
        with self.create(key) as new:
            new.keep_copy = keep_copy
            new.path.write_bytes(data)
        return new.get_artifact()

    def write_array(self, key: str, array: npt.NDArray[Any], *, keep_copy: bool = False) -> Artifact:
        """Write an array as a ``.npy`` file; ``keep_copy`` is that of `NewObject`."""
        import numpy as np

        with self.create(key) as new, new.path.open("wb") as stream:
            new.keep_copy = keep_copy
            np.save(stream, array, allow_pickle=False)
        return new.get_artifact()

    def write_json(self, key: str, value: Any) -> Artifact:
        """Write a JSON document; equal values give equal bytes."""
        return self.write_bytes(key, json_bytes(value))

    def read_json(self, key: str) -> Any:
        """Read a JSON document.

        Raises:
            InvalidInputError: The object does not exist, or is not JSON.
        """
        return self.parse_json(key, self.read_bytes(key))

    def parse_json(self, key: str, data: bytes) -> Any:
        """Parse the content of an object as JSON.

        Raises:
            InvalidInputError: The content is not JSON.
        """
        try:
            return json.loads(data)
        except (ValueError, RecursionError) as error:
            from partition_ops.system.json_documents import invalid_json_error  # brings jsonschema

            raise invalid_json_error(self.uri_of(key), error) from error


def json_bytes(value: Any) -> bytes:
    """Return a JSON document as bytes; equal values give equal bytes."""
    return (json.dumps(value, indent=2) + "\n").encode()


def check_key(key: str) -> str:
    """Check that a key is a plain relative path inside its root, and return it.

    Raises:
        InvalidInputError: The key is empty, absolute, not normalised, or leads out of the root.
    """
    unsafe = not key or key.startswith("/") or "\\" in key or "\0" in key
    if unsafe or posixpath.normpath(key) != key or key.split("/")[0] == "..":
        raise InvalidInputError(
            "A path leaves its root or is not normalised",
            found=repr(key),
            expected="a relative path with '/' as separator, without '.' and '..'",
        )
    return key


def sha256_of(path: Path) -> str:
    """Return the SHA-256 of a file, in hex. Memory: one block."""
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def sha256_of_object(store: Store, key: str, size: int, expected: str = "") -> str:
    """Return the SHA-256 of an object, in hex, without keeping a copy.

    Args:
        store: The store.
        key: Key of the object.
        size: Its bytes.
        expected: The SHA-256 that it should have: then it is read once, and only with another one again.

    Peak memory: 48 MiB.
    """
    if store.is_local(key):
        return sha256_of(store.local_copy(key))

    def read(begin: int) -> bytes:
        return store.read_range(key, begin, min(begin + BLOCK_BYTES, size), compared=bool(expected))

    digest = hashlib.sha256()
    for block in map_in_threads(read, range(0, size, BLOCK_BYTES), workers=READS):
        digest.update(block)
    found = digest.hexdigest()
    return sha256_of_object(store, key, size) if expected and found != expected else found
