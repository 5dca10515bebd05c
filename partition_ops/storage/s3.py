"""A prefix of an S3 bucket, on AWS or on any server that speaks its protocol."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError, HTTPClientError, IncompleteReadError

from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.progress import Advance, NoProgress, Progress
from partition_ops.storage.base import (
    Artifact,
    NewObject,
    Store,
    StoredObject,
    check_key,
    explained_full_disk,
    sha256_of,
)
from partition_ops.storage.s3_client import Connection, make_client, transfer_config
from partition_ops.storage.s3_errors import MISSING_OBJECT, changed, code_of, explained, no_bucket
from partition_ops.storage.settings import StorageSettings

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BIG_BYTES = 64 << 20  # what is smaller is over before a bar could be read
DELETE_AT_ONCE = 1000  # what S3 takes in one request
READ_ATTEMPTS = 3
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
            progress or NoProgress(),
            settings,
        )
        self._set_up(connection, prefix, owner=True)

    def _set_up(self, connection: Connection, prefix: str, *, owner: bool) -> None:
        prefix = prefix.strip("/")
        self._prefix = check_key(prefix) + "/" if prefix else ""
        self._connection = connection
        self._owner = owner
        self.settings = connection.settings
        super().__init__(f"s3://{connection.bucket}/{prefix}")

    @property
    def progress(self) -> Progress:
        return self._connection.progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self._connection.progress = progress

    def child(self, prefix: str) -> S3Store:
        child = S3Store.__new__(S3Store)
        child._set_up(self._connection, self._prefix + check_key(prefix), owner=False)
        return child

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        found = []
        with self._explained(prefix):
            for page in pages:
                for entry in page.get("Contents", ()):
                    key = entry["Key"].removeprefix(self._prefix)
                    if key and not key.endswith("/"):  # some tools make an empty object for a folder
                        found.append(StoredObject(key, entry["Size"], entry["ETag"].strip('"')))
        # not every server lists in the order of the keys
        yield from sorted(found, key=lambda entry: entry.key)

    def stat(self, key: str) -> StoredObject | None:
        full = self._full(key)
        with self._explained(key):
            try:
                head = self._client.head_object(Bucket=self._bucket, Key=full)
            except ClientError as error:
                if code_of(error) not in MISSING_OBJECT:
                    raise
                self._check_bucket()
                return None
        return StoredObject(key, head["ContentLength"], head["ETag"].strip('"'))

    def read_bytes(self, key: str) -> bytes:
        return self._read(key)

    def read_range(self, key: str, begin: int, end: int) -> bytes:
        if end <= begin:
            return b""
        return self._read(key, Range=f"bytes={begin}-{end - 1}")

    def _read(self, key: str, **options: Any) -> bytes:
        full = self._full(key)
        with self._explained(key):
            for _ in range(READ_ATTEMPTS - 1):
                # botocore tries a request again, but not the reading of its answer
                with suppress(HTTPClientError, IncompleteReadError):
                    return self._client.get_object(Bucket=self._bucket, Key=full, **options)["Body"].read()
            return self._client.get_object(Bucket=self._bucket, Key=full, **options)["Body"].read()

    def local_copy(self, key: str) -> Path:
        return self._connection.cache.fetch(self._full(key), lambda path: self._fetch(key, path))

    @contextmanager
    def create(self, key: str) -> Iterator[NewObject]:
        full = self._full(key)
        new = NewObject(self._connection.cache.new_file())
        try:
            with explained_full_disk(new.path.parent):
                yield new
            with self._explained(key):
                artifact = Artifact(key, new.path.stat().st_size, sha256_of(new.path))
                self._upload(new.path, key, artifact.size)
        finally:
            new.path.unlink(missing_ok=True)
            self._connection.cache.forget(full)
        new.artifact = artifact

    def delete(self, keys: Iterable[str]) -> None:
        names = (self._full(key) for key in keys)
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
            self._connection.cache.close()

    @property
    def _client(self) -> S3Client:
        return self._connection.client

    @property
    def _bucket(self) -> str:
        return self._connection.bucket

    def _full(self, key: str) -> str:
        return self._prefix + check_key(key)

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
                Config=self._connection.transfer,
            )
            fetched = path.stat().st_size
        if fetched != before.size or self.stat(key) != before:
            raise changed(self.uri_of(key))

    def _upload(self, path: Path, key: str, size: int) -> None:
        kind = CONTENT_TYPES.get(Path(key).suffix, "application/octet-stream")
        with self._shown("Uploading", key, size) as advance:
            self._client.upload_file(
                str(path),
                self._bucket,
                self._full(key),
                ExtraArgs={"ContentType": kind},
                Callback=advance,
                Config=self._connection.transfer,
            )

    def _shown(self, verb: str, key: str, size: int) -> AbstractContextManager[Advance]:
        progress = self.progress if size >= BIG_BYTES else NoProgress()
        return progress.step(f"{verb} {self.uri_of(key)}", size, "bytes")
