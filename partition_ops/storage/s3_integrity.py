"""Checks of the bytes that S3 sends and receives, and the repetition of requests that fail.

Every upload carries its MD5, which the server compares. A copy of an object whose SHA-256 the caller knows is
compared with that first. Other reads are compared with the ETag of their object where that is an MD5, and a
part of an object with a checksum that the caller knows. Otherwise, a read over plain HTTP is repeated until
two reads are equal; over TLS the connection itself detects other bytes.
docs/decisions/storage-on-s3.md has the reasons.
"""

from __future__ import annotations

import hashlib
import random
import re
import time
import zlib
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any, TypeVar

from boto3.exceptions import Boto3Error
from botocore import exceptions as boto
from botocore.exceptions import BotoCoreError, ClientError
from botocore.parsers import ResponseParserError
from urllib3.exceptions import HTTPError

from partition_ops.errors import TransientStorageError
from partition_ops.storage.s3_errors import PASSING, error_code

T = TypeVar("T")

READS = 8  # reads of the same bytes until two are equal
ROUNDS = 6  # of a call whose answer arrives incomplete or damaged, which botocore does not repeat
EXHAUSTED_ROUNDS = 2  # of a call that botocore has repeated already
FIRST_WAIT = 0.1  # seconds; doubles with every round
BLOCK_BYTES = 1 << 20
MD5 = re.compile(r"[0-9a-f]{32}(-[1-9][0-9]*)?")
UNREACHABLE = (
    boto.EndpointConnectionError,
    boto.ConnectTimeoutError,
    boto.ProxyConnectionError,
    boto.SSLError,
)
DAMAGED_ANSWERS = (
    boto.IncompleteReadError,
    boto.ResponseStreamingError,
    boto.FlexibleChecksumError,
    boto.HTTPClientError,
    ResponseParserError,
    HTTPError,
    ConnectionError,
    TimeoutError,
)
DAMAGED_REQUESTS = {"BadDigest", "XAmzContentSHA256Mismatch", "IncompleteBody", "NoSuchUpload"}
FAULTS = (
    BotoCoreError,
    ClientError,
    Boto3Error,
    HTTPError,
    ResponseParserError,
    ConnectionError,
    TimeoutError,
)


def repeat(call: Callable[[], T]) -> T:
    """Return the result of a call to S3; after a passing fault, the call is repeated.

    botocore repeats single requests. This function repeats the rest: bodies that end early or are damaged,
    uploads that arrived with other bytes, and requests that failed in all attempts of botocore. It waits
    between the rounds, longer every time and by a random share.

    Args:
        call: The call, which must have the same effect if it is repeated.
    """
    for number in range(1, ROUNDS):
        try:
            return call()
        except FAULTS as error:
            if number >= _rounds(error):
                raise
            time.sleep(random.uniform(0.5, 1) * FIRST_WAIT * 2**number)
    return call()


def _rounds(error: Exception) -> int:
    """Return how many rounds an error deserves."""
    if isinstance(error, UNREACHABLE):
        return 1
    if isinstance(error, ClientError):
        code = error_code(error)
        status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
        if code in DAMAGED_REQUESTS:
            return ROUNDS
        return EXHAUSTED_ROUNDS if (code in PASSING - {"PreconditionFailed"} or status >= 500) else 1
    if isinstance(error, boto.ConnectionError):
        return EXHAUSTED_ROUNDS
    return ROUNDS if isinstance(error, DAMAGED_ANSWERS) else 1


def read_until_certain(
    read: Callable[[], bytes],
    where: str,
    *,
    first: bytes | None = None,
    good: Callable[[bytes], bool] = lambda found: False,
) -> bytes:
    """Return the first bytes that are good, or that equal bytes that were read before.

    Args:
        read: Reads the bytes from the server.
        where: URI, for the message.
        first: Bytes that have been read before.
        good: Whether bytes agree with a checksum of the server.

    Raises:
        TransientStorageError: The bytes are different every time.

    Peak memory: two reads.
    """
    last, others = first, set()  # to compare bytes takes a tenth of the time of their MD5
    for _ in range(READS):
        found = repeat(read)
        if found == last or good(found):
            return found
        if last is not None:
            others.add(md5_of([last]))
            if md5_of([found]) in others:
                return found
        last = found
    raise TransientStorageError(
        f"{where} arrives with different bytes each time",
        found=f"{READS} reads, no two of which are equal",
        remedy="Check the network and the server; use https:// if the server supports it. Then retry.",
    )


def read_until_right(read: Callable[[], bytes], where: str, crc32: int) -> bytes:
    """Return bytes that have a checksum.

    Args:
        read: Reads the bytes from the server.
        where: URI, for the message.
        crc32: The checksum.

    Raises:
        TransientStorageError: The bytes never have it.
    """
    for _ in range(READS):
        found = repeat(read)
        if zlib.crc32(found) == crc32:
            return found
    raise TransientStorageError(
        f"{where} does not have the bytes that were written",
        found=f"{READS} reads with another checksum",
        remedy="Check network and disks. Delete the object and repeat the stage that wrote it.",
    )


def etag_of(blocks: Iterable[bytes]) -> str:
    """Return the ETag of an object that was uploaded by one request: its MD5, in hex."""
    return md5_of(blocks).hex()


def etag_of_file(path: Path, part_bytes: int | None) -> str:
    """Return the ETag of an object, computed from its local copy. Memory: 1 MiB.

    Args:
        path: The local copy.
        part_bytes: Size of the parts in which the object was uploaded; None for an upload by one request.
    """
    size = path.stat().st_size
    with path.open("rb") as stream:
        if part_bytes is None:
            return etag_of(_blocks(stream, size))
        parts = [md5_of(_blocks(stream, part_bytes)) for _ in range(0, size, part_bytes)]
    return f"{etag_of(parts)}-{len(parts)}"


def md5_of_file(path: Path, begin: int, size: int) -> bytes:
    """Return the MD5 of a part of a file. Memory: 1 MiB."""
    with path.open("rb") as stream:
        stream.seek(begin)
        return md5_of(_blocks(stream, size))


def _blocks(stream: Any, size: int) -> Iterator[bytes]:
    while size and (block := stream.read(min(size, BLOCK_BYTES))):
        size -= len(block)
        yield block


def md5_of(blocks: Iterable[bytes | bytearray]) -> bytes:
    """Return the MD5 of the blocks together."""
    digest = hashlib.md5(usedforsecurity=False)
    for block in blocks:
        digest.update(block)
    return digest.digest()
