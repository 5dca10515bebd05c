"""Downloads, uploads and copies of objects by plain requests of boto3's client.

boto3's managed transfers ask for the size of an object before each download and each copy, and do not return
the ETag of an upload. docs/decisions/storage-on-s3.md has the other reasons.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from io import SEEK_CUR, SEEK_END, SEEK_SET
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from botocore.exceptions import ClientError

from partition_ops.storage.s3_errors import UNMET, changed_during_download, error_code
from partition_ops.storage.s3_integrity import (
    BLOCK_BYTES,
    MD5,
    etag_of_file,
    md5_of_file,
    read_until_certain,
    repeat,
)
from partition_ops.storage.store import StoredObject
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import Advance

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from partition_ops.storage.s3_client import Connection

PART_BYTES = 16 << 20  # of a download
UPLOAD_BYTES = 256 << 20  # of an upload by one request, and of a part of a larger one
EARLIER_UPLOADS = 128 << 20, 16 << 20  # parts of earlier versions
COPY_BYTES = 1 << 30  # of a part of a copy
MOST_COPIED = 5 << 30  # by one request
CONTENT_TYPES = {
    ".csv": "text/csv",
    ".html": "text/html; charset=utf-8",
    ".json": "application/json",
    ".txt": "text/plain; charset=utf-8",
}


@dataclass(frozen=True)
class Place:
    """Where an object is, and how its bytes are transferred."""

    client: S3Client
    bucket: str  # name of the bucket
    key: str  # full key in the bucket
    uri: str  # URI of the object, for messages
    content_type: str  # media type
    workers: int  # requests at a time
    advance: Advance = lambda done: None  # called with the number of bytes that were transferred


class FilePart:
    """A part of a file as the body of a request.

    Args:
        path: The file.
        begin: First byte.
        size: Number of bytes.
        advance: Called with the number of bytes that are read for the first time.
    """

    def __init__(self, path: Path, begin: int, size: int, advance: Advance) -> None:
        self._stream: BinaryIO = path.open("rb")
        self._begin, self._size, self._advance = begin, size, advance
        self._place = self._seen = 0
        self.seek(0)

    def __len__(self) -> int:
        return self._size

    def read(self, size: int | None = -1) -> bytes:
        left = self._size - self._place
        data = self._stream.read(left if size is None or size < 0 else min(size, left))
        self._place += len(data)
        if self._place > self._seen:
            self._advance(self._place - self._seen)
            self._seen = self._place
        return data

    def seek(self, offset: int, whence: int = SEEK_SET) -> int:
        self._place = offset + {SEEK_SET: 0, SEEK_CUR: self._place, SEEK_END: self._size}[whence]
        self._stream.seek(self._begin + self._place)
        return self._place

    def tell(self) -> int:
        return self._place

    def __enter__(self) -> FilePart:
        return self

    def __exit__(self, *error: object) -> None:
        self._stream.close()


def get(place: Place, entry: StoredObject, part: tuple[int, int] | None = None) -> Any:
    """Return the body of an object, or of a part of it, on the condition that it has not changed.

    Args:
        place: Its place.
        entry: The object as it was.
        part: First byte, and the byte after the last one; None for the whole object.

    Raises:
        TransientStorageError: It has changed.
        ClientError: The server refused the request for another reason.
    """
    options = {"IfMatch": f'"{entry.tag}"', **range_option(part)}
    try:
        answer = place.client.get_object(Bucket=place.bucket, Key=place.key, **options)  # type: ignore[arg-type]
    except ClientError as error:
        if error_code(error) in UNMET:
            raise changed_during_download(place.uri) from error
        raise
    if answer.get("ETag", "").strip('"') != entry.tag:  # some servers ignore the condition
        answer["Body"].close()
        raise changed_during_download(place.uri)
    return answer["Body"]


def range_option(part: tuple[int, int] | None) -> dict[str, str]:
    """Return the option of a request for a part of an object."""
    return {} if part is None else {"Range": f"bytes={part[0]}-{part[1] - 1}"}


def download(place: Place, entry: StoredObject, path: Path) -> None:
    """Download an object into a file, in parallel parts. Memory: 1 MiB for each worker.

    Raises:
        TransientStorageError: The object has changed.
    """
    with path.open("wb") as stream:

        def fetch(begin: int) -> None:
            end = min(begin + PART_BYTES, entry.size)
            part = None if end - begin == entry.size else (begin, end)

            def once() -> None:
                at = begin
                with closing(get(place, entry, part)) as body:
                    while block := body.read(BLOCK_BYTES):
                        os.pwrite(stream.fileno(), block, at)
                        at += len(block)
                if at != end:
                    raise changed_during_download(place.uri)

            repeat(once)
            place.advance(end - begin)

        starts = range(0, entry.size, PART_BYTES)
        if len(starts) == 1:
            fetch(0)
        else:
            for _ in map_in_threads(fetch, starts, workers=place.workers):
                pass


def check_copy(connection: Connection, place: Place, entry: StoredObject, path: Path) -> None:
    """Compare a local copy with the ETag of its object; read it again if that does not prove it right."""
    is_md5 = MD5.fullmatch(entry.tag) is not None
    if is_md5 and etag_of_file(path, _part_bytes(place, entry)) == entry.tag:
        return
    if not connection.plain and (connection.other_etags or not is_md5):
        return

    def correct(begin: int) -> bool:
        end = min(begin + PART_BYTES, entry.size)
        with path.open("r+b") as stream:
            stream.seek(begin)
            first = stream.read(end - begin)
            again = read_until_certain(lambda: get(place, entry, (begin, end)).read(), place.uri, first=first)
            if again != first:
                stream.seek(begin)
                stream.write(again)
        return again != first

    corrected = [*map_in_threads(correct, range(0, entry.size, PART_BYTES))]
    connection.other_etags |= is_md5 and not any(corrected)


def _part_bytes(place: Place, entry: StoredObject) -> int | None:
    """Return the size of the parts in which an object was uploaded, None for an upload by one request."""
    _, several, parts = entry.tag.partition("-")
    if not several:
        return None
    for size in (UPLOAD_BYTES, *EARLIER_UPLOADS):
        if -(-entry.size // size) == int(parts):
            return size
    head = repeat(lambda: place.client.head_object(Bucket=place.bucket, Key=place.key, PartNumber=1))
    return max(1, head["ContentLength"])


def upload(place: Place, path: Path) -> str:
    """Upload a file, and return the ETag of the object; up to `UPLOAD_BYTES` go in one request.

    The object appears when the last request is done. If an upload in parts fails, it is aborted. The body is
    read twice: for its MD5, which the server compares, and to send it.
    """
    total = path.stat().st_size
    if total <= UPLOAD_BYTES:
        with FilePart(path, 0, total, place.advance) as body:
            return upload_body(place, body, md5_of_file(path, 0, total))

    def send(number: int, upload_id: str) -> str:
        begin = (number - 1) * UPLOAD_BYTES
        size = min(UPLOAD_BYTES, total - begin)
        with FilePart(path, begin, size, place.advance) as body:
            return place.client.upload_part(
                Bucket=place.bucket,
                Key=place.key,
                UploadId=upload_id,
                PartNumber=number,
                Body=body,  # type: ignore[arg-type]
                ContentMD5=base64.b64encode(md5_of_file(path, begin, size)).decode(),
            )["ETag"]

    return _in_parts(place, send, -(-total // UPLOAD_BYTES))


def upload_body(place: Place, body: bytes | FilePart, md5: bytes, **condition: Any) -> str:
    """Upload an object by one request, perhaps on a condition, and return its ETag."""
    answer = place.client.put_object(
        Bucket=place.bucket,
        Key=place.key,
        Body=body,  # type: ignore[arg-type]
        ContentType=place.content_type,
        ContentMD5=base64.b64encode(md5).decode(),
        **condition,
    )
    return answer["ETag"].strip('"')


def copy_object(place: Place, source: tuple[str, str], size: int) -> str:
    """Let the server copy an object, given by its bucket and full key, and return the ETag of the copy."""
    existing: Any = {"Bucket": source[0], "Key": source[1]}
    if size <= MOST_COPIED:
        answer = place.client.copy_object(Bucket=place.bucket, Key=place.key, CopySource=existing)
        place.advance(size)
        return answer["CopyObjectResult"]["ETag"].strip('"')

    def send(number: int, upload_id: str) -> str:
        begin = (number - 1) * COPY_BYTES
        end = min(begin + COPY_BYTES, size)
        copied = place.client.upload_part_copy(
            Bucket=place.bucket,
            Key=place.key,
            UploadId=upload_id,
            PartNumber=number,
            CopySource=existing,
            CopySourceRange=f"bytes={begin}-{end - 1}",
        )
        place.advance(end - begin)
        return copied["CopyPartResult"]["ETag"]

    return _in_parts(place, send, -(-size // COPY_BYTES))


def _in_parts(place: Place, send: Callable[[int, str], str], count: int) -> str:
    """Send the parts of an object, complete it and return its ETag; after an error, abort the upload."""
    client, target = place.client, {"Bucket": place.bucket, "Key": place.key}
    upload_id = client.create_multipart_upload(**target, ContentType=place.content_type)["UploadId"]  # type: ignore[arg-type]

    def sent(number: int) -> Any:
        return {"PartNumber": number, "ETag": repeat(lambda: send(number, upload_id))}

    try:
        parts = [*map_in_threads(sent, range(1, count + 1), workers=place.workers)]
        client.complete_multipart_upload(
            **target,  # type: ignore[arg-type]
            UploadId=upload_id,
            MultipartUpload={"Parts": parts},
        )
    except BaseException:
        with suppress(Exception):  # the first error counts
            client.abort_multipart_upload(**target, UploadId=upload_id)  # type: ignore[arg-type]
        raise
    # some servers, such as rclone's, answer the upload with another ETag than they give the object
    return repeat(lambda: client.head_object(Bucket=place.bucket, Key=place.key))["ETag"].strip('"')


def content_type(key: str) -> str:
    """Return the media type of an object, by the suffix of its key."""
    return CONTENT_TYPES.get(Path(key).suffix, "application/octet-stream")
