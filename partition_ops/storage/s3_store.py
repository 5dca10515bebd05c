"""A prefix of an S3 bucket, on AWS or on any server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, suppress
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.storage.s3_client import (
    WHOLE_BYTES,
    Connection,
    make_client,
    put_if_unchanged,
    transfer_config,
)
from partition_ops.storage.s3_errors import (
    MISSING_OBJECT,
    changed,
    code_of,
    explained,
    no_bucket,
)
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.store import (
    Artifact,
    NewObject,
    Store,
    StoredObject,
    check_key,
    explained_full_disk,
    sha256_of,
)
from partition_ops.system.progress import Advance, NoProgress, Progress

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Deferred = list[Future[None]]  # uploads that one context waits for

BIG_BYTES = 64 << 20  # what is smaller is over before a bar could be read
DELETE_AT_ONCE = 1000  # what S3 takes in one request
READ_ATTEMPTS = 3
COPYING = TransferConfig(
    multipart_threshold=5 << 30, multipart_chunksize=1 << 30
)  # the most that S3 copies at once
CONTENT_TYPES = {
    ".csv": "text/csv",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}


class S3Store(Store):
    """Objects below a prefix of a bucket; each appears by one completed upload.

    Requests are tried several times by botocore, big objects go in parts and in parallel, and every
    wait has an end. Fetched copies are in a private temporary folder until the store is closed.

    Args:
        bucket: Name of the bucket, which must be there.
        prefix: Root of the store in the bucket; may be empty.
        settings: How to reach the server.
        client: A client made elsewhere, for instance by an Airflow hook; then the settings are only
            used for the number of threads.
        progress: Shows how far the transfer of a big object has come.
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
            transfer_config(settings),
            transfer_config(settings, WHOLE_BYTES),
            progress or NoProgress(),
            settings,
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

    @property
    def progress(self) -> Progress:
        return self._connection.progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self._connection.progress = progress

    def child(self, prefix: str) -> S3Store:
        return self._view(self._prefix + check_key(prefix), self._deferred)

    def _view(self, prefix: str, deferred: Deferred | None) -> S3Store:
        view = S3Store.__new__(S3Store)
        view._set_up(self._connection, prefix, owner=False, deferred=deferred)
        return view

    @contextmanager
    def deferring(self) -> Iterator[Store]:
        deferred: Deferred = []
        try:
            yield self._view(self._prefix, deferred)
        finally:
            wait(deferred)
        for future in deferred:
            future.result()

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        found = []
        self._connection.uploads.settle_all(self._prefix + prefix)
        with self._explained(prefix):
            for page in pages:
                for entry in page.get("Contents", ()):
                    key = entry["Key"].removeprefix(self._prefix)
                    if key and not key.endswith("/"):  # some tools make an empty object for a folder
                        tag, modified = entry["ETag"].strip('"'), entry["LastModified"].timestamp()
                        found.append(StoredObject(key, entry["Size"], tag, modified))
        # not every server lists in the order of the keys
        yield from sorted(found, key=lambda entry: entry.key)

    def stat(self, key: str) -> StoredObject | None:
        full = self._settled(key)
        with self._explained(key):
            try:
                head = self._client.head_object(Bucket=self._bucket, Key=full)
            except ClientError as error:
                if code_of(error) not in MISSING_OBJECT:
                    raise
                self._check_bucket()
                return None
        tag, modified = head["ETag"].strip('"'), head["LastModified"].timestamp()
        return StoredObject(key, head["ContentLength"], tag, modified)

    def read_bytes(self, key: str) -> bytes:
        return self._read(key)

    def read_range(self, key: str, begin: int, end: int) -> bytes:
        if end <= begin:
            return b""
        kept = self._connection.cache.kept(self._settled(key))
        if kept is not None:
            with kept.open("rb") as stream:
                stream.seek(begin)
                return stream.read(end - begin)
        return self._read(key, Range=f"bytes={begin}-{end - 1}")

    def _read(self, key: str, **options: Any) -> bytes:
        full = self._settled(key)
        with self._explained(key):
            for _ in range(READ_ATTEMPTS - 1):
                # botocore tries a request again, but not the reading of its answer
                with suppress(HTTPClientError, IncompleteReadError):
                    return self._client.get_object(Bucket=self._bucket, Key=full, **options)["Body"].read()
            return self._client.get_object(Bucket=self._bucket, Key=full, **options)["Body"].read()

    def local_copy(self, key: str) -> Path:
        return self._connection.cache.fetch(self._settled(key), lambda path: self._fetch(key, path))

    @contextmanager
    def create(self, key: str) -> Iterator[NewObject]:
        new = NewObject(self._connection.cache.new_file())
        try:
            with explained_full_disk(new.path.parent):
                yield new
            with self._explained(key):
                artifact = Artifact(key, new.path.stat().st_size, sha256_of(new.path))
        except BaseException:
            new.path.unlink(missing_ok=True)
            raise
        if self._deferred is None:
            self._finish(new, key, artifact.size)
        else:
            upload = partial(self._finish, new, key, artifact.size)
            self._deferred.append(self._connection.uploads.start(self._full(key), upload))
        new.artifact = artifact

    def _finish(self, new: NewObject, key: str, size: int) -> None:
        cache, full = self._connection.cache, self._full(key)
        try:
            with self._explained(key):
                self._upload(new.path, key, size)
            if new.read_again:
                cache.keep(full, new.path)
            else:
                cache.forget(full)
        finally:
            new.path.unlink(missing_ok=True)

    def copy_from(self, other: Store, key: str, size: int) -> bool:
        if not isinstance(other, S3Store) or other._endpoint != self._endpoint:
            return False
        found = other.stat(key)
        if found is None or found.size != size:
            return False
        full = self._settled(key)
        with self._explained(key), self._shown("Copying", key, size) as advance:
            self._client.copy(
                {"Bucket": other._bucket, "Key": other._full(key)},
                self._bucket,
                full,
                Callback=advance,
                Config=COPYING,
            )
        self._connection.cache.forget(full)
        return True

    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None) -> bool:
        full = self._settled(key)
        try:
            with self._explained(key):
                return put_if_unchanged(
                    self._client, self._bucket, full, data, expected=expected, content_type=content_type(key)
                )
        finally:
            self._connection.cache.forget(full)

    def delete(self, keys: Iterable[str]) -> None:
        names = (self._settled(key) for key in keys)
        while batch := [*islice(names, DELETE_AT_ONCE)]:
            with self._explained(""):
                answer = self._client.delete_objects(
                    Bucket=self._bucket,
                    Delete={"Objects": [{"Key": name} for name in batch], "Quiet": True},
                )
            for name in batch:
                self._connection.cache.forget(name)
            for error in answer.get("Errors", ()):
                raise StorageError(
                    f"s3://{self._bucket}/{error.get('Key')} could not be removed", found=error.get("Code")
                )

    def close(self) -> None:
        """Remove the fetched copies; a child leaves that to the store that it came from."""
        if self._owner:
            self._connection.uploads.close()
            self._connection.cache.close()

    @property
    def _client(self) -> S3Client:
        return self._connection.client

    @property
    def _endpoint(self) -> str:
        return self._client.meta.endpoint_url

    @property
    def _bucket(self) -> str:
        return self._connection.bucket

    def _full(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _settled(self, key: str) -> str:
        """The full key of an object that is not on its way any more."""
        full = self._full(key)
        self._connection.uploads.settle(full)
        return full

    def _explained(self, key: str) -> AbstractContextManager[None]:
        return explained(self.uri_of(key), self._client.meta.endpoint_url)

    def _check_bucket(self) -> None:
        """Tell a missing bucket from a missing object: the answers to HEAD are the same."""
        if self._connection.bucket_seen:
            return
        try:
            self._client.head_bucket(Bucket=self._bucket)
        except ClientError as error:
            if code_of(error) in MISSING_OBJECT:
                raise no_bucket(self.uri, self._client.meta.endpoint_url) from error
        self._connection.bucket_seen = True

    def _fetch(self, key: str, path: Path) -> None:
        before = self.stat(key)
        if before is None:
            raise InvalidInputError(f"There is no object {self.uri_of(key)}", remedy="Check the URI.")
        with self._explained(key), self._shown("Fetching", key, before.size) as advance:
            self._client.download_file(
                self._bucket,
                self._full(key),
                str(path),
                Callback=advance,
                Config=self._connection.download,
            )
            fetched = path.stat().st_size
        if fetched != before.size or self.stat(key) != before:
            raise changed(self.uri_of(key))

    def _upload(self, path: Path, key: str, size: int) -> None:
        with self._shown("Uploading", key, size) as advance:
            self._client.upload_file(
                str(path),
                self._bucket,
                self._full(key),
                ExtraArgs={"ContentType": content_type(key)},
                Callback=advance,
                Config=self._connection.upload,
            )

    def _shown(self, verb: str, key: str, size: int) -> AbstractContextManager[Advance]:
        progress = self.progress if size >= BIG_BYTES else NoProgress()
        return progress.step(f"{verb} {self.uri_of(key)}", size, "bytes")


def content_type(key: str) -> str:
    """The media type of an object, by the end of its name."""
    return CONTENT_TYPES.get(Path(key).suffix, "application/octet-stream")
