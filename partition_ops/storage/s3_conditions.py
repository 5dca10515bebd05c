"""Writes and removals on the condition that an object is unchanged, or does not exist.

docs/decisions/locks.md says which servers honour which conditions.
"""

from __future__ import annotations

import secrets
import time
from functools import partial
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from partition_ops.storage.s3_errors import MISSING_OBJECT, error_code
from partition_ops.storage.s3_integrity import etag_of, read_until_certain, repeat

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from partition_ops.storage.s3_client import Connection

SETTLE_SECONDS = 2.0
ABSENT = {"IfNoneMatch": "*"}
UNMET = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *MISSING_OBJECT}


def put_if_absent(client: S3Client, bucket: str, key: str, data: bytes, content_type: str) -> str | None:
    """Write an object on the condition that it does not exist, and return its ETag; None if it exists.

    Servers that ignore conditions overwrite.
    """
    return _put(ABSENT, client, bucket, key, data, content_type)


def _put_if(
    condition: dict[str, str], client: S3Client, bucket: str, key: str, data: bytes, content_type: str
) -> bool:
    """Write an object on a condition, and return whether the server found it met."""
    return _put(condition, client, bucket, key, data, content_type) is not None


def _put(
    condition: dict[str, str], client: S3Client, bucket: str, key: str, data: bytes, content_type: str
) -> str | None:
    options: dict[str, Any] = {"ContentType": content_type, **condition}
    try:
        answer = repeat(lambda: client.put_object(Bucket=bucket, Key=key, Body=data, **options))
        return answer["ETag"].strip('"')
    except ClientError as error:
        if error_code(error) not in UNMET:
            raise
        return None


def put_if_unchanged(
    connection: Connection, key: str, data: bytes, *, expected: bytes | None, content_type: str
) -> bool:
    """Write an object by a conditional request if its current content is the expected one.

    Some servers ignore conditions and overwrite. To detect one, this function repeats the write on the
    condition that the object does not exist. If the server ignores conditions, the last of several concurrent
    callers wins: each reads the object again after `SETTLE_SECONDS`, and none may take longer than that
    between reading and writing.

    Args:
        connection: Connection to the server.
        key: Key of the object in the bucket.
        data: The new content.
        expected: The expected current content; None if the object must not exist.
        content_type: Media type of the object.

    Returns:
        Whether the content is ``data`` now.

    Raises:
        ClientError: The server refused the request for another reason.
    """
    client, bucket = connection.current_client(), connection.bucket
    put = partial(_put_if, client=client, bucket=bucket, key=key, data=data, content_type=content_type)
    found, condition = _content(client, bucket, key)
    if found != expected:
        return found == data
    if not put(condition):
        # true if botocore repeated a write whose answer was lost
        return _content(client, bucket, key)[0] == data
    connection.conditional_puts = not put(ABSENT)
    if connection.conditional_puts:
        return True
    time.sleep(SETTLE_SECONDS)
    return _content(client, bucket, key)[0] == data


def remove_if_unchanged(
    connection: Connection, key: str, *, expected: bytes, instead: bytes, content_type: str
) -> bool:
    """Remove an object if its current content is the expected one, without removing what others write.

    If the server honours conditions of writes but not of removals, the object gets the content ``instead``
    and stays. If it honours neither, what another caller writes between the comparison and the removal is
    lost.

    Args:
        connection: Connection to the server.
        key: Key of the object in the bucket.
        expected: The expected current content.
        instead: What readers take for a removed object.
        content_type: Media type of the object.

    Returns:
        Whether the object is removed, or has the content ``instead``.

    Raises:
        ClientError: The server refused the request for another reason.
    """
    client, bucket = connection.current_client(), connection.bucket
    put = partial(_put_if, client=client, bucket=bucket, key=key, content_type=content_type)
    found, condition = _content(client, bucket, key)
    if found != expected:
        return False
    if connection.conditional_puts is None:
        connection.conditional_puts = not put(ABSENT, data=found)
    if not connection.conditional_puts:
        client.delete_object(Bucket=bucket, Key=key)
        return True
    if connection.conditional_deletes is None:
        connection.conditional_deletes = _honours_deletes(client, bucket, key, condition)
    if not connection.conditional_deletes:
        return put(condition, data=instead) or _content(client, bucket, key)[0] == instead
    try:
        client.delete_object(Bucket=bucket, Key=key, IfMatch=condition["IfMatch"])
    except ClientError as error:
        if error_code(error) not in UNMET:
            raise
        # botocore may have repeated a removal whose answer was lost
        return error_code(error) in MISSING_OBJECT
    return True


def _honours_deletes(client: S3Client, bucket: str, key: str, condition: dict[str, str]) -> bool:
    """Return whether the server honours conditions of removals.

    Of an object that does not exist, such a server rejects the removal on a condition, and only that.
    """
    absent = f"{key}.{secrets.token_hex(8)}"
    remove = partial(client.delete_object, Bucket=bucket, Key=absent)
    try:
        remove()
    except ClientError:
        return False
    try:
        remove(IfMatch=condition["IfMatch"])
    except ClientError as error:  # another error: the server does not know the header, or forbids its use
        return error_code(error) in UNMET
    return False


def _content(client: S3Client, bucket: str, key: str) -> tuple[bytes | None, dict[str, str]]:
    """Return the content of an object, and the condition for it to be unchanged."""
    etag = ""

    def read() -> bytes:
        nonlocal etag
        answer = client.get_object(Bucket=bucket, Key=key)
        etag = answer["ETag"]
        return answer["Body"].read()

    try:
        data = repeat(read)
        if client.meta.endpoint_url.startswith("http://") and etag.strip('"') != etag_of([data]):
            where = f"s3://{bucket}/{key}"
            data = read_until_certain(read, where, good=lambda found: etag.strip('"') == etag_of([found]))
    except ClientError as error:
        if error_code(error) not in MISSING_OBJECT:
            raise
        return None, ABSENT
    return data, {"IfMatch": etag}
