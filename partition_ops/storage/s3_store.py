"""A store in a prefix of an S3 bucket, on AWS or a compatible server."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager, nullcontext
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.storage.local_errors import explain_full_disk
from partition_ops.storage.s3_client import Connection, make_client
from partition_ops.storage.s3_conditions import put, put_if_unchanged, remove_if_unchanged, settle_seconds
from partition_ops.storage.s3_integrity import md5_of, repeat
from partition_ops.storage.s3_known import ABSENT, SMALL_BYTES
from partition_ops.storage.s3_reader import S3Reader
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.s3_transfers import copy_object, upload, upload_body
from partition_ops.storage.store import (
    Artifact,
    NewObject,
    Store,
    check_key,
    sha256_of,
)
from partition_ops.system.progress import NoProgress, Progress

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import DeleteTypeDef

Deferred = list[Future[None]]  # uploads in the background that one context waits for

DELETE_AT_ONCE = 1000  # limit of S3 for one request


class S3Store(S3Reader):
    """A store whose objects are below a prefix of a bucket; each appears by one completed upload.

    Failed requests are repeated, large objects go in parallel parts, and every request has a timeout. Reads
    and uploads are checked, see `partition_ops.storage.s3_integrity`.
    Downloaded copies are in a private temporary folder until the store is closed.

    Args:
        bucket: Name of the bucket, which must exist.
        prefix: Root of the store in the bucket; may be empty.
        settings: Connection settings.
        client: An existing client, for example that of an Airflow hook. Then only the number of threads is
            taken from the settings.
        progress: Shows the progress of large transfers; by default nothing is shown.
    """

    def __init__(
        self,
        bucket: str,
        prefix: str = "",
        *,
        settings: StorageSettings | None = None,
        client: S3Client | None = None,
        progress: Progress | None = None,
    ) -> None:
        settings = settings or StorageSettings()
        connection = Connection(
            bucket,
            client or make_client(settings),
            progress or NoProgress(),
            settings,
            client_is_given=client is not None,
        )
        self._set_up(connection, prefix, owner=True)

    def _set_up(
        self, connection: Connection, prefix: str, *, owner: bool, deferred: Deferred | None = None
    ) -> None:
        prefix = prefix.strip("/")
        self._prefix = check_key(prefix) + "/" if prefix else ""
        self._connection = connection
        self._owner = owner
        self._deferred = deferred
        self.settings = connection.settings
        super().__init__(f"s3://{connection.bucket}/{prefix}")
        self.fenced = connection.fenced

    def child(self, prefix: str) -> S3Store:
        return self._view(self._prefix + check_key(prefix), self._deferred)

    def above(self, levels: int) -> S3Store:
        parts = self._prefix.rstrip("/").split("/")
        if len(parts) < levels or not parts[0]:
            raise InvalidInputError(f"There are no {levels} folders above {self.uri}")
        prefix = "/".join(parts[: len(parts) - levels])
        return self._view(prefix, self._deferred)

    def _view(self, prefix: str, deferred: Deferred | None) -> S3Store:
        view = S3Store.__new__(S3Store)
        view._set_up(self._connection, prefix, owner=False, deferred=deferred)
        return view

    @contextmanager
    def background_uploads(self) -> Iterator[Store]:
        self._connection.uploads.check()
        deferred: Deferred = []
        try:
            yield self._view(self._prefix, deferred)
        finally:
            wait(deferred)
        for future in deferred:
            future.result()

    @contextmanager
    def create(self, key: str) -> Iterator[NewObject]:
        new = NewObject(self._connection.cache.new_file())
        try:
            with explain_full_disk(new.path.parent):
                yield new
            with self._explain_errors(key):
                artifact = Artifact(key, new.path.stat().st_size, sha256_of(new.path))
        except BaseException:
            new.path.unlink(missing_ok=True)
            raise
        full = self._settled(key)
        self._connection.cache.forget(full)
        if new.keep_copy:
            self._connection.cache.keep(full, new.path)
        data = new.path.read_bytes() if artifact.size <= SMALL_BYTES else None
        finish = partial(self._finish, new, key, artifact.size, data)
        if self._deferred is None:
            self._connection.known.changing(full)
            finish()
        else:
            self._wrote(full, artifact.size, "", data)
            self._deferred.append(self._connection.uploads.start(full, finish))
        new.artifact = artifact

    def _finish(self, new: NewObject, key: str, size: int, data: bytes | None) -> None:
        """Upload a file, which is removed then."""
        try:
            with self._explain_errors(key), self._step("Uploading", key, size) as advance:
                place = self._place(key, advance)
                if data is None:
                    etag = repeat(lambda: upload(place, new.path))
                else:
                    etag = repeat(lambda: upload_body(place, data, md5_of([data])))
                    advance(size)
            self._wrote(self._full(key), size, etag, data)
        except BaseException:
            self._forget(self._full(key))
            raise
        finally:
            new.path.unlink(missing_ok=True)

    def copy_from(self, other: Store, key: str, size: int) -> bool:
        if not isinstance(other, S3Store) or other._endpoint != self._endpoint:
            return False
        found = other.stat(key)
        if found is None or found.size != size:
            return False
        self._settled(key)
        self._copy(other._bucket, other._full(key), key, size)
        return True

    def share(self, artifact: Artifact, key: str) -> Artifact:
        def copy() -> None:
            self._copy(self._bucket, self._settled(artifact.key), key, artifact.size)

        if self._deferred is None:
            self._settled(key)
            copy()
        else:  # the threads take uploads in order: none waits for one that has not begun
            self._deferred.append(self._connection.uploads.start(self._full(key), copy))
        return Artifact(key, artifact.size, artifact.sha256)

    def _copy(self, bucket: str, existing: str, key: str, size: int) -> None:
        """Let the server copy an object, given by its bucket and its key there."""
        full = self._full(key)
        self._forget(full)
        with self._explain_errors(key), self._step("Copying", key, size) as advance:
            etag = repeat(lambda: copy_object(self._place(key, advance), (bucket, existing), size))
        self._wrote(full, size, etag)

    def compare_and_set(
        self, key: str, data: bytes, *, expected: bytes | None, fenced: bool = True, settle: bool = True
    ) -> bool:
        full = self._settled(key)
        self._forget(full)
        if self.fence is not None and not fenced:
            self.fence.expire()
        with self._explain_errors(key), nullcontext() if fenced else self._connection.unfenced():
            place = self._place(key)
            return put_if_unchanged(self._connection, place, data, expected=expected, settle=settle)

    @property
    def settle_seconds(self) -> float:
        return settle_seconds(self._connection)

    def compare_and_delete(self, key: str, *, expected: bytes, instead: bytes) -> bool:
        full = self._settled(key)
        self._forget(full)
        with self._explain_errors(key), self._connection.unfenced():
            return repeat(
                lambda: remove_if_unchanged(
                    self._connection, self._place(key), expected=expected, instead=instead
                )
            )

    def write_first(self, key: str, data: bytes) -> Artifact:
        self._connection.uploads.finish()
        self._forget(self._settled(key))
        self._put_first(key, data)
        return Artifact(key, len(data), hashlib.sha256(data).hexdigest())

    def write_last(self, key: str, data: bytes, *, after: Iterable[str] = ()) -> None:
        full, uploads = self._settled(key), [*(self._deferred or ())]
        if self._deferred is None or self._connection.known.find(full) is None:
            for future in uploads:
                future.result()
            self.write_first(key, data)
            return
        self._deferred.clear()
        self._wrote(full, len(data), "", data)
        write = partial(self._put_first, key, data)
        self._connection.uploads.start_last(full, write, uploads, map(self._full, after))

    def is_written(self, key: str, *, wait: bool = False) -> bool:
        return self._connection.uploads.is_done(self._full(key), wait=wait)

    def _put_first(self, key: str, data: bytes) -> None:
        full = self._full(key)
        try:
            with self._explain_errors(key):
                etag = put(self._place(key), data)
                if etag is None:
                    # a holder that has lost its lock wrote it, or an earlier request of this one did
                    etag = repeat(lambda: upload_body(self._place(key), data, md5_of([data])))
        except BaseException:
            self._forget(full)
            raise
        self._wrote(full, len(data), etag, data)

    def delete(self, keys: Iterable[str]) -> None:
        known = self._connection.known
        names = (full for full in map(self._settled, keys) if known.find(full) != ABSENT)
        while batch := [*islice(names, DELETE_AT_ONCE)]:
            for name in batch:
                self._forget(name)
            objects: DeleteTypeDef = {"Objects": [{"Key": name} for name in batch], "Quiet": True}
            with self._explain_errors(""):
                answer = repeat(partial(self._client.delete_objects, Bucket=self._bucket, Delete=objects))
            for error in answer.get("Errors", ()):
                raise StorageError(
                    f"s3://{self._bucket}/{error.get('Key')} could not be removed", found=error.get("Code")
                )
            for name in batch:
                known.removed(name)

    def close(self) -> None:
        """Wait for uploads and remove the downloaded copies; has no effect on a child."""
        if self._owner:
            self._connection.uploads.close()
            self._connection.cache.close()
