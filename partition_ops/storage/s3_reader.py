"""Reading of objects in a prefix of an S3 bucket: listings, sizes, contents and local copies."""

from __future__ import annotations

import builtins
import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError
from botocore.parsers import ResponseParserError

from partition_ops.errors import InvalidInputError, StorageError
from partition_ops.storage.s3_client import Connection, Listing
from partition_ops.storage.s3_errors import (
    MISSING_OBJECT,
    error_code,
    explain_s3_errors,
    missing_bucket,
    missing_object,
)
from partition_ops.storage.s3_integrity import (
    MD5,
    READS,
    etag_of,
    read_until_certain,
    read_until_right,
    repeat,
)
from partition_ops.storage.s3_known import ABSENT, SMALL_BYTES, Known
from partition_ops.storage.s3_transfers import (
    Place,
    check_copy,
    content_type,
    download,
    get,
    range_option,
)
from partition_ops.storage.store import (
    Store,
    StoredObject,
    check_key,
    sha256_of,
)
from partition_ops.system.parallel import begin_in_thread, map_in_threads
from partition_ops.system.progress import Advance, NoProgress, Progress

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

BIG_BYTES = 64 << 20  # transfers of smaller objects are too short for a progress bar
LISTED_PAGES = 4  # of a listing for a snapshot, with 1000 objects each


class S3Reader(Store):
    """The reading half of `partition_ops.storage.s3_store.S3Store`.

    In a snapshot, it answers from what is known. Otherwise reads wait for uploads of the same object.
    """

    _connection: Connection
    _prefix: str

    @property
    def progress(self) -> Progress:
        return self._connection.progress

    @progress.setter
    def progress(self, progress: Progress) -> None:
        self._connection.progress = progress

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

    @contextmanager
    def snapshot(self, *, but: Collection[str] = ()) -> Iterator[None]:
        self._connection.uploads.settle_all(self._prefix)
        ahead = self._connection.listed_ahead.pop(self._prefix, None)
        try:
            listed, complete = ahead.result() if ahead else self._listed(self._prefix, LISTED_PAGES)
        except StorageError:  # some users may read objects, but not list them
            listed, complete = [], False
        with self._connection.known.snapshot(
            self._prefix, listed, complete=complete, but=[self._full(key) for key in but]
        ):
            try:
                yield
            except BaseException:
                with suppress(Exception):
                    self._connection.uploads.finish()
                raise
            self._connection.uploads.finish()

    def list_ahead(self) -> None:
        look = partial(self._listed, self._prefix, LISTED_PAGES, at_once=1)
        self._connection.listed_ahead[self._prefix] = begin_in_thread(look, daemon=True)

    def changed_elsewhere(self, keys: Iterable[str]) -> None:
        for key in keys:
            self._forget(self._full(key))

    def list(self, prefix: str = "") -> Iterator[StoredObject]:
        full = self._prefix + prefix
        found = self._connection.known.below(full)
        if found is None:
            self._connection.uploads.settle_all(full)
            found, _ = self._listed(full)
        yield from (replace(entry, key=entry.key.removeprefix(self._prefix)) for entry in found)

    def _listed(self, full: str, pages: int | None = None, *, at_once: int = 2) -> Listing:
        with self._explain_errors(full.removeprefix(self._prefix)):
            certain = self._connection.plain
            found = list_objects(
                self._client, self._bucket, full, certain=certain, pages=pages, at_once=at_once
            )
        self._connection.bucket_seen = True
        return found

    def stat(self, key: str) -> StoredObject | None:
        known = self._connection.known.find(self._full(key))
        if known is None or (known.entry is not None and not known.entry.tag):
            known = self._connection.known.find(self._settled(key))
        found = known.entry if known is not None else self._head(key)
        return found and replace(found, key=key)

    def exists(self, key: str) -> bool:
        known = self._connection.known.find(self._full(key))
        return known.entry is not None if known is not None else super().exists(key)

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

    def read_range(
        self, key: str, begin: int, end: int, *, crc32: int | None = None, compared: bool = False
    ) -> bytes:
        if end <= begin:
            return b""
        full, _ = self._state(key)
        kept = self._connection.cache.kept(full)
        if kept is not None:
            with kept.open("rb") as stream:
                stream.seek(begin)
                return stream.read(end - begin)
        known = self._connection.known.find(full)
        if known is not None and known.entry is not None and known.entry.size <= SMALL_BYTES:
            return self._read(key)[begin:end]
        return self._read(key, (begin, end), crc32, compared=compared)

    def _read(
        self,
        key: str,
        part: tuple[int, int] | None = None,
        crc32: int | None = None,
        *,
        compared: bool = False,
    ) -> bytes:
        """Return an object, or the bytes of it from the first number up to the second.

        If their checksum is known, they are compared with that; if the caller compares them, with nothing.
        """
        (full, known), etag = self._state(key), ""
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
            if crc32 is not None:
                return read_until_right(read, self.uri_of(key), crc32)
            data = repeat(read)
            if compared:
                return data
            is_md5 = part is None and MD5.fullmatch(etag) is not None and "-" not in etag
            if not good(data) and (self._connection.plain or (is_md5 and not self._connection.other_etags)):
                data = read_until_certain(read, self.uri_of(key), first=data, good=good)
                self._connection.other_etags |= is_md5 and not good(data)
        if part is None and known is not None:
            self._connection.known.learn(known.entry, full, data)
        return data

    def fetch_ahead(self, keys: Iterable[str], digests: Mapping[str, str] | None = None) -> None:
        def fetch(key: str) -> Path | None:
            return self.local_copy(key) if digests is None else self.checked_copy(key, digests[key])

        self._connection.cache.fetch_ahead(keys, fetch)

    def local_copy(self, key: str) -> Path:
        return self._copy_of(key, "")

    def checked_copy(self, key: str, sha256: str) -> Path | None:
        path = self._copy_of(key, sha256)
        digests = self._connection.cache.digests
        found = digests.get(path)
        if found != sha256:
            found = digests[path] = sha256_of(path)
        return path if found == sha256 else None

    def _copy_of(self, key: str, sha256: str) -> Path:
        """Return the local copy, which is compared with a digest first, if there is one."""
        full, known = self._state(key)
        if known is not None and known.data is not None:
            data = known.data
            return self._connection.cache.fetch(full, lambda path: path.write_bytes(data))
        return self._connection.cache.fetch(full, lambda path: self._fetch(key, path, sha256))

    def _state(self, key: str) -> tuple[str, Known | None]:
        """Return the full key of an object, and what is known of it; wait for its upload if necessary."""
        full = self._full(key)
        known = self._connection.known.find(full)
        uploading = known is not None and known.entry is not None and not known.entry.tag
        if known is None or (uploading and known.data is None and self._connection.cache.kept(full) is None):
            known = self._connection.known.find(self._settled(key))
        return full, known

    def _forget(self, full: str) -> None:
        """Forget an object, with its full key, that changes now."""
        self._connection.known.changing(full)
        self._connection.cache.forget(full)

    def _wrote(self, full: str, size: int, etag: str, data: bytes | None = None) -> None:
        """Note an object that was written, or that is uploaded in the background if the ETag is empty."""
        self._connection.known.wrote(StoredObject(full, size, etag, time.time()), data)

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

    def _fetch(self, key: str, path: Path, sha256: str) -> str:
        """Download an object; return its SHA-256 if it is the one given, which saves the MD5 of the ETag."""
        known = self._connection.known.find(self._settled(key))
        entry = known.entry if known is not None else self._head(key)
        if entry is None:
            raise missing_object(self.uri_of(key))
        with self._explain_errors(key), self._step("Downloading", key, entry.size) as advance:
            place = self._place(key, advance)
            download(place, entry, path)
            if sha256 and sha256_of(path) == sha256:
                return sha256
            check_copy(self._connection, place, entry, path)
        return ""

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


def list_objects(
    client: S3Client,
    bucket: str,
    prefix: str,
    *,
    certain: bool,
    pages: int | None = None,
    at_once: int = 2,
) -> Listing:
    """Return the objects below a prefix, and whether these are all.

    Args:
        client: The client.
        bucket: Name of the bucket.
        prefix: Prefix of the full keys.
        certain: Whether to list again until two listings are equal, because the connection may change bytes.
        pages: Number of requests for each listing at most; None for all.
        at_once: Listings at a time: with 1, a server that hashes its objects does so once.

    Returns:
        The objects with their full keys, sorted by key, and whether there are no more. Memory: 300 bytes an
        object.
    """

    def look(_: int) -> Listing:
        return repeat(lambda: _list(client, bucket, prefix, pages))

    if not certain:
        return look(0)
    before, found = map_in_threads(look, range(2), workers=at_once)
    for number in range(2, READS + 1):
        if found == before:
            break
        before, found = found, look(number)
    return found


def _list(client: S3Client, bucket: str, prefix: str, pages: int | None) -> Listing:
    answers = client.get_paginator("list_objects_v2").paginate(Bucket=bucket, Prefix=prefix)
    found, complete = [], True
    try:
        for page in islice(answers, pages):
            complete = not page.get("IsTruncated", False)
            for entry in page.get("Contents", ()):
                key = entry["Key"]
                if key != prefix and not key.endswith("/"):  # some tools write an empty object for a folder
                    tag, modified = entry["ETag"].strip('"'), entry["LastModified"].timestamp()
                    found.append(StoredObject(key, entry["Size"], tag, modified))
    except (ValueError, KeyError) as error:  # of a damaged answer
        raise ResponseParserError(str(error)) from error
    # some servers do not list objects in the order of their keys
    return sorted(found, key=lambda entry: entry.key), complete
