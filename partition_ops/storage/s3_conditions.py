"""Writing an S3 object only if it is still what it was, on servers that look at conditions and on others."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from partition_ops.storage.s3_errors import MISSING_OBJECT, code_of

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

SETTLE_SECONDS = 2.0
ABSENT = {"IfNoneMatch": "*"}
UNMET = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *MISSING_OBJECT}


def put_if_unchanged(
    client: S3Client, bucket: str, key: str, data: bytes, *, expected: bytes | None, content_type: str
) -> bool:
    """Write an object by a conditional put if it holds what is expected.

    A server that ignores conditions overwrites. Whether this one does shows when the same is put once more,
    on the condition that nothing is there. If so, the last of several callers is the one that wrote: each
    looks again after `SETTLE_SECONDS`, and none may take longer than that between looking and writing.

    Args:
        client: A client of boto3.
        bucket: Name of the bucket.
        key: The object.
        data: Its new content.
        expected: What it holds now; None where there is to be no such object.
        content_type: Its media type.

    Returns:
        Whether ``data`` is there now.

    Raises:
        ClientError: The server refused for another reason.
    """

    def put(condition: dict[str, str]) -> bool:
        options: dict[str, Any] = {"ContentType": content_type, **condition}
        try:
            client.put_object(Bucket=bucket, Key=key, Body=data, **options)
        except ClientError as error:
            if code_of(error) not in UNMET:
                raise
            return False
        return True

    found, condition = _content(client, bucket, key)
    if found != expected:
        return found == data
    if not put(condition):
        return _content(client, bucket, key)[0] == data  # ours, where the answer to a first try was lost
    if not put(ABSENT):
        return True
    time.sleep(SETTLE_SECONDS)
    return _content(client, bucket, key)[0] == data


def _content(client: S3Client, bucket: str, key: str) -> tuple[bytes | None, dict[str, str]]:
    """What an object holds, and the condition that it still does."""
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if code_of(error) not in MISSING_OBJECT:
            raise
        return None, ABSENT
    return answer["Body"].read(), {"IfMatch": answer["ETag"]}
