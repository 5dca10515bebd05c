"""A store in a prefix of an S3 bucket, on AWS or a compatible server."""

from __future__ import annotations

import builtins
import hashlib
import time
from collections.abc import Collection, Iterable, Iterator
from concurrent.futures import Future, wait
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.storage.s3_client import Connection, make_client
from partition_ops.storage.s3_conditions import put_if_absent, put_if_unchanged, remove_if_unchanged
from partition_ops.storage.s3_errors import (
    MISSING_OBJECT,
    error_code,
    explain_s3_errors,
    missing_bucket,
    missing_object,
)
from partition_ops.storage.s3_integrity import (
    MD5,
    etag_of,
    md5_of,
    read_until_certain,
    repeat,
)
from partition_ops.storage.s3_known import ABSENT, SMALL_BYTES
from partition_ops.storage.s3_listing import Listing, list_objects
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.s3_transfers import (
    Place,
    check_copy,
    content_type,
    copy_object,
    download,
    get,
    range_option,
    upload,
    upload_body,
)
from partition_ops.storage.store import (
    Artifact,
    NewObject,
    Store,
    StoredObject,
    check_key,
    explain_full_disk,
    sha256_of,
)
from partition_ops.system.progress import Advance, NoProgress, Progress

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client
    from mypy_boto3_s3.type_defs import DeleteObjectsOutputTypeDef

Deferred = list[Future[None]]  # uploads in the background that one context waits for

BIG_BYTES = 64 << 20  # transfers of smaller objects are too short for a progress bar
DELETE_AT_ONCE = 1000  # limit of S3 for one request
LISTED_PAGES = 4  # of a listing for a snapshot, with 1000 objects each


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
        known = self._connection.known.below(self._prefix)
        if known is not None:
            return sorted({entry.key.removeprefix(self._prefix).split("/")[0] for entry in known} - {""})
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

    @contextmanager
    def snapshot(self, *, but: Collection[str] = ()) -> Iterator[None]:
        self._connection.uploads.settle_all(self._prefix)
        try:
            listed, complete = self._listed(self._prefix, LISTED_PAGES)
        except StorageError:  # some users may read objects, but not list them
            listed, complete = [], False
        with self._connection.known.snapshot(
            self._prefix, listed, complete=complete, but=[self._full(key) for key in but]
        ):
            yield

    def changed_elsewhere(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._forget(self._full(key))

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        full = self._prefix + prefix
        self._connection.uploads.settle_all(full)
        found = self._connection.known.below(full)
        if found is None:
            found, _ = self._listed(full)
        yield from (replace(entry, key=entry.key.removeprefix(self._prefix)) for entry in found)

    def _listed(self, full: str, pages: int | None = None) -> Listing:
        with self._explain_errors(full.removeprefix(self._prefix)):
            found = list_objects(
                self._client, self._bucket, full, certain=self._connection.plain, pages=pages
            )
        self._connection.bucket_seen = True
        return found

    def stat(self, key: str) -> StoredObject | None:
        full = self._settled(key)
        known = self._connection.known.find(full)
        found = known.entry if known is not None else self._head(key)
        return found and replace(found, key=key)

    def _head(self, key: str) -> StoredObject | None:
        """Return an object with its full key, as the server knows it now."""
        full = self._full(key)
        with self._explain_errors(key):
            try:
                head = repeat(lambda: self._client.head_object(Bucket=self._bucket, Key=full))
            except ClientError as error:
                if error_code(error) not in MISSING_OBJECT:
                    raise
                self._check_bucket()
                return None
        tag, modified = head["ETag"].strip('"'), head["LastModified"].timestamp()
        found = StoredObject(full, head["ContentLength"], tag, modified)
        self._connection.known.learn(found, full)
        return found

    def read_bytes(self, key: str) -> bytes:
        return self._read(key)

    def read_if_there(self, key: str) -> bytes | None:
        try:
            return self._read(key)
        except InvalidInputError:  # there is no other one
            return None

    def read_range(self, key: str, begin: int, end: int) -> bytes:
        if end <= begin:
            return b""
        full = self._settled(key)
        kept = self._connection.cache.kept(full)
        if kept is not None:
            with kept.open("rb") as stream:
                stream.seek(begin)
                return stream.read(end - begin)
        known = self._connection.known.find(full)
        if known is not None and known.entry is not None and known.entry.size <= SMALL_BYTES:
            return self._read(key)[begin:end]
        return self._read(key, (begin, end))

    def _read(self, key: str, part: tuple[int, int] | None = None) -> bytes:
        """Return an object, or the bytes of it from the first number up to the second."""
        full, etag = self._settled(key), ""
        known = self._connection.known.find(full)
        if known == ABSENT:
            raise missing_object(self.uri_of(key))
        if known is not None and known.data is not None and part is None:
            return known.data

        def read() -> bytes:
            nonlocal etag
            if known is not None and known.entry is not None:
                etag = known.entry.tag
                data: bytes = get(self._place(key), known.entry, part).read()
                return data
            answer = self._client.get_object(Bucket=self._bucket, Key=full, **range_option(part))  # type: ignore[arg-type]
            etag = answer.get("ETag", "").strip('"')
            return answer["Body"].read()

        def good(data: bytes) -> bool:
            return part is None and etag == etag_of([data])

        with self._explain_errors(key):
            data = repeat(read)
            is_md5 = part is None and MD5.fullmatch(etag) is not None and "-" not in etag
            if not good(data) and (self._connection.plain or (is_md5 and not self._connection.other_etags)):
                data = read_until_certain(read, self.uri_of(key), first=data, good=good)
                self._connection.other_etags |= is_md5 and not good(data)
        if part is None and known is not None:
            self._connection.known.learn(known.entry, full, data)
        return data

    def local_copy(self, key: str) -> Path:
        full = self._settled(key)
        known = self._connection.known.find(full)
        if known is not None and known.data is not None:
            data = known.data
            return self._connection.cache.fetch(full, lambda path: write_whole(path, data))
        return self._connection.cache.fetch(full, lambda path: self._fetch(key, path))

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
        self._forget(full)
        try:
            with self._explain_errors(key):
                data = new.path.read_bytes() if size <= SMALL_BYTES else None
                with self._step("Uploading", key, size) as advance:
                    place = self._place(key, advance)
                    if data is None:
                        etag = repeat(lambda: upload(place, new.path))
                    else:
                        etag = repeat(lambda: upload_body(place, data, md5_of([data])))
                        advance(size)
            if new.keep_copy:
                cache.keep(full, new.path)
            self._wrote(full, size, etag, data)
        finally:
            new.path.unlink(missing_ok=True)

    def _forget(self, full: str) -> None:
        """Forget an object, with its full key, that changes now."""
        self._connection.known.changing(full)
        self._connection.cache.forget(full)

    def _wrote(self, full: str, size: int, etag: str, data: bytes | None = None) -> None:
        self._connection.known.wrote(StoredObject(full, size, etag, time.time()), data)

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

    def compare_and_set(self, key: str, data: bytes, *, expected: bytes | None, fenced: bool = True) -> bool:
        full = self._settled(key)
        self._forget(full)
        if self.fence is not None and not fenced:
            self.fence.expire()
        with self._explain_errors(key), nullcontext() if fenced else self._connection.unfenced():
            return put_if_unchanged(
                self._connection, full, data, expected=expected, content_type=content_type(key)
            )

    def compare_and_delete(self, key: str, *, expected: bytes, instead: bytes) -> bool:
        full = self._settled(key)
        self._forget(full)
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

    def write_first(self, key: str, data: bytes) -> Artifact:
        full, kind = self._settled(key), content_type(key)
        self._forget(full)
        with self._explain_errors(key):
            etag = put_if_absent(self._client, self._bucket, full, data, kind)
            if etag is None:
                # a holder that has lost its lock wrote it, or an earlier request of this one did
                etag = repeat(lambda: upload_body(self._place(key), data, md5_of([data])))
        self._wrote(full, len(data), etag, data)
        return Artifact(key, len(data), hashlib.sha256(data).hexdigest())

    def delete(self, keys: Iterable[str]) -> None:
        known = self._connection.known
        names = (full for full in map(self._settled, keys) if known.find(full) != ABSENT)
        while batch := [*islice(names, DELETE_AT_ONCE)]:
            for name in batch:
                self._forget(name)
            with self._explain_errors(""):
                answer = repeat(partial(self._delete, batch))
            for error in answer.get("Errors", ()):
                raise StorageError(
                    f"s3://{self._bucket}/{error.get('Key')} could not be removed", found=error.get("Code")
                )
            for name in batch:
                known.removed(name)

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
        known = self._connection.known.find(self._settled(key))
        entry = known.entry if known is not None else self._head(key)
        if entry is None:
            raise missing_object(self.uri_of(key))
        with self._explain_errors(key), self._step("Downloading", key, entry.size) as advance:
            place = self._place(key, advance)
            download(place, entry, path)
            check_copy(self._connection, place, entry, path)

    def _place(self, key: str, advance: Advance = lambda done: None) -> Place:
        return Place(
            self._client,
            self._bucket,
            self._full(key),
            self.uri_of(key),
            content_type(key),
            self._connection.settings.max_concurrency,
            advance,
        )

    def _step(self, verb: str, key: str, size: int) -> AbstractContextManager[Advance]:
        progress = self.progress if size >= BIG_BYTES else NoProgress()
        return progress.step(f"{verb} {self.uri_of(key)}", size, "bytes")


def write_whole(path: Path, data: bytes) -> None:
    path.write_bytes(data)
