"""A store in a prefix of an S3 bucket, on AWS or a compatible server."""

from __future__ import annotations

import builtins
import hashlib
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.storage.s3_client import (
    PART_BYTES,
    Connection,
    make_client,
    transfer_config,
)
from partition_ops.storage.s3_conditions import put_if_absent, put_if_unchanged, remove_if_unchanged
from partition_ops.storage.s3_errors import (
    MISSING_OBJECT,
    changed_during_download,
    error_code,
    explain_s3_errors,
    missing_bucket,
)
from partition_ops.storage.s3_integrity import (
    MD5,
    READS,
    etag_of,
    etag_of_file,
    read_until_certain,
    repeat,
)
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.store import (
    Artifact,
    NewObject,
    Store,
    StoredObject,
    check_key,
    explain_full_disk,
    sha256_of,
)
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import Advance, NoProgress, Progress

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import DeleteObjectsOutputTypeDef

Deferred = list[Future[None]]  # uploads in the background that one context waits for

BIG_BYTES = 64 << 20  # transfers of smaller objects are too short for a progress bar
DELETE_AT_ONCE = 1000  # limit of S3 for one request
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
            transfer_config(settings),
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

    @property
    def progress(self) -> Progress:
        return self._connection.progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self._connection.progress = progress

    def child(self, prefix: str) -> S3Store:
        return self._view(self._prefix + check_key(prefix), self._deferred)

    def above(self, levels: int) -> S3Store:
        parts = self._prefix.rstrip("/").split("/")
        if len(parts) < levels or not parts[0]:
            raise InvalidInputError(f"There are no {levels} folders above {self.uri}")
        prefix = "/".join(parts[: len(parts) - levels])
        return self._view(prefix, self._deferred)

    def names(self) -> builtins.list[str]:
        with self._explain_errors(""):
            page = repeat(
                lambda: self._client.list_objects_v2(Bucket=self._bucket, Prefix=self._prefix, Delimiter="/")
            )
        found = [entry["Key"] for entry in page.get("Contents", ())]
        found += [entry["Prefix"].rstrip("/") for entry in page.get("CommonPrefixes", ())]
        return sorted({name.removeprefix(self._prefix) for name in found} - {""})

    def _view(self, prefix: str, deferred: Deferred | None) -> S3Store:
        view = S3Store.__new__(S3Store)
        view._set_up(self._connection, prefix, owner=False, deferred=deferred)
        return view

    @contextmanager
    def background_uploads(self) -> Iterator[Store]:
        deferred: Deferred = []
        try:
            yield self._view(self._prefix, deferred)
        finally:
            wait(deferred)
        for future in deferred:
            future.result()

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        self._connection.uploads.settle_all(self._prefix + prefix)
        with self._explain_errors(prefix):
            found = repeat(lambda: self._list(prefix))
            for _ in range(READS if self._connection.plain else 0):
                before, found = found, repeat(lambda: self._list(prefix))
                if found == before:
                    break
        yield from found

    def _list(self, prefix: str) -> builtins.list[StoredObject]:
        pages = self._client.get_paginator("list_objects_v2").paginate(
            Bucket=self._bucket, Prefix=self._prefix + prefix
        )
        found = []
        try:
            for page in pages:
                for entry in page.get("Contents", ()):
                    key = entry["Key"].removeprefix(self._prefix)
                    if key and not key.endswith("/"):  # some tools write an empty object for a folder
                        tag, modified = entry["ETag"].strip('"'), entry["LastModified"].timestamp()
                        found.append(StoredObject(key, entry["Size"], tag, modified))
        except (ValueError, KeyError) as error:  # of a damaged answer
            raise ResponseParserError(str(error)) from error
        # some servers do not list objects in the order of their keys
        return sorted(found, key=lambda entry: entry.key)

    def stat(self, key: str) -> StoredObject | None:
        full = self._settled(key)
        with self._explain_errors(key):
            try:
                head = repeat(lambda: self._client.head_object(Bucket=self._bucket, Key=full))
            except ClientError as error:
                if error_code(error) not in MISSING_OBJECT:
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
        return self._read(key, {"Range": f"bytes={begin}-{end - 1}"})

    def _read(self, key: str, options: dict[str, str] | None = None) -> bytes:
        """Return an object, or a part of it if options say so."""
        full, etag = self._settled(key), ""

        def read() -> bytes:
            nonlocal etag
            answer = self._client.get_object(Bucket=self._bucket, Key=full, **(options or {}))  # type: ignore[arg-type]
            etag = answer.get("ETag", "").strip('"')
            return answer["Body"].read()

        def good(data: bytes) -> bool:
            return not options and etag == etag_of([data])

        with self._explain_errors(key):
            data = repeat(read)
            is_md5 = not options and MD5.fullmatch(etag) is not None and "-" not in etag
            if good(data) or not (self._connection.plain or (is_md5 and not self._connection.other_etags)):
                return data
            again = read_until_certain(read, self.uri_of(key), first=data, good=good)
            self._connection.other_etags |= is_md5 and not good(again)
            return again

    def local_copy(self, key: str) -> Path:
        return self._connection.cache.fetch(self._settled(key), lambda path: self._fetch(key, path))

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
        if self._deferred is None:
            self._finish(new, key, artifact.size)
        else:
            upload = partial(self._finish, new, key, artifact.size)
            self._deferred.append(self._connection.uploads.start(self._full(key), upload))
        new.artifact = artifact

    def _finish(self, new: NewObject, key: str, size: int) -> None:
        cache, full = self._connection.cache, self._full(key)
        try:
            with self._explain_errors(key):
                repeat(lambda: self._upload(new.path, key, size))
            if new.keep_copy:
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
        with self._explain_errors(key), self._step("Copying", key, size) as advance:
            repeat(
                lambda: self._client.copy(
                    {"Bucket": bucket, "Key": existing}, self._bucket, full, Callback=advance, Config=COPYING
                )
            )
        self._connection.cache.forget(full)

    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None, fenced: bool = True) -> bool:
        full = self._settled(key)
        try:
            with self._explain_errors(key), nullcontext() if fenced else self._connection.unfenced():
                return put_if_unchanged(
                    self._connection, full, data, expected=expected, content_type=content_type(key)
                )
        finally:
            self._connection.cache.forget(full)

    def compare_and_delete(self, key: str, *, expected: bytes, instead: bytes) -> bool:
        full = self._settled(key)
        try:
            with self._explain_errors(key), self._connection.unfenced():
                return repeat(
                    lambda: remove_if_unchanged(
                        self._connection,
                        full,
                        expected=expected,
                        instead=instead,
                        content_type=content_type(key),
                    )
                )
        finally:
            self._connection.cache.forget(full)

    def write_first(self, key: str, data: bytes) -> Artifact:
        full, kind = self._settled(key), content_type(key)
        try:
            with self._explain_errors(key):
                if not repeat(lambda: put_if_absent(self._client, self._bucket, full, data, kind)):
                    # a holder that has lost its lock wrote it, or an earlier request of this one did
                    repeat(
                        lambda: self._client.put_object(
                            Bucket=self._bucket, Key=full, Body=data, ContentType=kind
                        )
                    )
        finally:
            self._connection.cache.forget(full)
        return Artifact(key, len(data), hashlib.sha256(data).hexdigest())

    def delete(self, keys: Iterable[str]) -> None:
        names = (self._settled(key) for key in keys)
        while batch := [*islice(names, DELETE_AT_ONCE)]:
            with self._explain_errors(""):
                answer = repeat(partial(self._delete, batch))
            for name in batch:
                self._connection.cache.forget(name)
            for error in answer.get("Errors", ()):
                raise StorageError(
                    f"s3://{self._bucket}/{error.get('Key')} could not be removed", found=error.get("Code")
                )

    def _delete(self, names: builtins.list[str]) -> DeleteObjectsOutputTypeDef:
        return self._client.delete_objects(
            Bucket=self._bucket, Delete={"Objects": [{"Key": name} for name in names], "Quiet": True}
        )

    def close(self) -> None:
        """Wait for uploads and remove the downloaded copies; has no effect on a child."""
        if self._owner:
            self._connection.uploads.close()
            self._connection.cache.close()

    @property
    def _client(self) -> S3Client:
        return self._connection.current_client()

    @property
    def _endpoint(self) -> str:
        return self._client.meta.endpoint_url

    @property
    def _bucket(self) -> str:
        return self._connection.bucket

    def _full(self, key: str) -> str:
        return self._prefix + check_key(key)

    def _settled(self, key: str) -> str:
        """Wait for the upload of an object, if there is one, and return its key in the bucket."""
        full = self._full(key)
        self._connection.uploads.settle(full)
        return full

    def _explain_errors(self, key: str) -> AbstractContextManager[None]:
        return explain_s3_errors(self.uri_of(key), self._client.meta.endpoint_url)

    def _check_bucket(self) -> None:
        """Raise an error if the bucket is missing: HEAD does not tell it from a missing object."""
        if self._connection.bucket_seen:
            return
        try:
            repeat(lambda: self._client.head_bucket(Bucket=self._bucket))
        except ClientError as error:
            if error_code(error) in MISSING_OBJECT:
                raise missing_bucket(self.uri, self._client.meta.endpoint_url) from error
        self._connection.bucket_seen = True

    def _fetch(self, key: str, path: Path) -> None:
        before = self.stat(key)
        if before is None:
            raise InvalidInputError(f"There is no object {self.uri_of(key)}", remedy="Check the URI.")
        with self._explain_errors(key), self._step("Downloading", key, before.size) as advance:
            repeat(
                lambda: self._client.download_file(
                    self._bucket,
                    self._full(key),
                    str(path),
                    Callback=advance,
                    Config=self._connection.transfers,
                )
            )
            if path.stat().st_size == before.size:
                self._check_copy(before, path)
            fetched = path.stat().st_size
        if fetched != before.size or self.stat(key) != before:
            raise changed_during_download(self.uri_of(key))

    def _check_copy(self, entry: StoredObject, path: Path) -> None:
        """Compare a local copy with the ETag of its object; read it again if that does not prove it right."""
        is_md5 = MD5.fullmatch(entry.tag) is not None
        if is_md5 and etag_of_file(path, self._part_bytes(entry)) == entry.tag:
            return
        if not self._connection.plain and (self._connection.other_etags or not is_md5):
            return
        full = self._full(entry.key)

        def correct(begin: int) -> bool:
            end = min(begin + PART_BYTES, entry.size)

            def read() -> bytes:
                answer = self._client.get_object(
                    Bucket=self._bucket, Key=full, Range=f"bytes={begin}-{end - 1}", IfMatch=f'"{entry.tag}"'
                )
                return answer["Body"].read()

            with path.open("r+b") as stream:
                stream.seek(begin)
                first = stream.read(end - begin)
                again = read_until_certain(read, self.uri_of(entry.key), first=first)
                if again != first:
                    stream.seek(begin)
                    stream.write(again)
            return again != first

        corrected = [*map_in_threads(correct, range(0, entry.size, PART_BYTES))]
        self._connection.other_etags |= is_md5 and not any(corrected)

    def _part_bytes(self, entry: StoredObject) -> int | None:
        """Return the size of the parts in which an object was uploaded, None for an upload by one request."""
        _, several, parts = entry.tag.partition("-")
        if not several:
            return None
        if -(-entry.size // PART_BYTES) == int(parts):
            return PART_BYTES
        full = self._full(entry.key)
        head = repeat(lambda: self._client.head_object(Bucket=self._bucket, Key=full, PartNumber=1))
        return max(1, head["ContentLength"])

    def _upload(self, path: Path, key: str, size: int) -> None:
        with self._step("Uploading", key, size) as advance:
            self._client.upload_file(
                str(path),
                self._bucket,
                self._full(key),
                ExtraArgs={"ContentType": content_type(key)},
                Callback=advance,
                Config=self._connection.transfers,
            )

    def _step(self, verb: str, key: str, size: int) -> AbstractContextManager[Advance]:
        progress = self.progress if size >= BIG_BYTES else NoProgress()
        return progress.step(f"{verb} {self.uri_of(key)}", size, "bytes")


def content_type(key: str) -> str:
    """Return the media type of an object, by the suffix of its key."""
    return CONTENT_TYPES.get(Path(key).suffix, "application/octet-stream")
