"""Writes and removals on the condition that an object is unchanged, or does not exist.

docs/decisions/locks.md says which servers honour which conditions.
"""

from __future__ import annotations

import secrets
import time
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import ClientError

from partition_ops.storage.s3_errors import MISSING_OBJECT, UNMET, error_code
from partition_ops.storage.s3_integrity import etag_of, md5_of, read_until_certain, repeat
from partition_ops.storage.s3_transfers import Place, upload_body

if TYPE_CHECKING:
    from partition_ops.storage.s3_client import Connection

SETTLE_SECONDS = 2.0
IF_ABSENT = {"IfNoneMatch": "*"}
CONFLICTS = {*UNMET, "ConditionalRequestConflict", "409", *MISSING_OBJECT}


def put(place: Place, data: bytes, condition: dict[str, str] = IF_ABSENT) -> str | None:
    """Write an object on a condition, and return its ETag; None if the condition is not met.

    Servers that ignore conditions overwrite.
    """
    try:
        return repeat(lambda: upload_body(place, data, md5_of([data]), **condition))
    except ClientError as error:
        if error_code(error) not in CONFLICTS:
            raise
        return None


def settle_seconds(connection: Connection) -> float:
    """Return the seconds after which the last of several concurrent callers is known to have won."""
    return SETTLE_SECONDS if connection.conditional_puts is False else 0.0


def put_if_unchanged(
    connection: Connection, place: Place, data: bytes, *, expected: bytes | None, settle: bool = True
) -> bool:
    """Write an object by a conditional request if its current content is the expected one.

    Some servers ignore conditions and overwrite. To detect one, this function repeats the write on the
    condition that the object does not exist. If the server ignores conditions, the last of several concurrent
    callers wins: each reads the object again after `SETTLE_SECONDS`, and none may take longer than that
    between reading and writing.

    Args:
        connection: Connection to the server.
        place: Place of the object.
        data: The new content.
        expected: The expected current content; None if the object must not exist.
        settle: Whether to wait for `settle_seconds`. Otherwise the caller does, and reads the object then.

    Returns:
        Whether the content is ``data`` now.

    Raises:
        ClientError: The server refused the request for another reason.
    """
    found, condition = _content(place)
    if found != expected:
        return found == data
    if put(place, data, condition) is None:
        # true if botocore repeated a write whose answer was lost
        return _content(place)[0] == data
    connection.conditional_puts = put(place, data) is None
    if connection.conditional_puts or not settle:
        return True
    time.sleep(settle_seconds(connection))
    return _content(place)[0] == data


def remove_if_unchanged(connection: Connection, place: Place, *, expected: bytes, instead: bytes) -> bool:
    """Remove an object if its current content is the expected one, without removing what others write.

    If the server honours conditions of writes but not of removals, the object gets the content ``instead``
    and stays. If it honours neither, what another caller writes between the comparison and the removal is
    lost.

    Args:
        connection: Connection to the server.
        place: Place of the object.
        expected: The expected current content.
        instead: What readers take for a removed object.

    Returns:
        Whether the object is removed, or has the content ``instead``.

    Raises:
        ClientError: The server refused the request for another reason.
    """
    found, condition = _content(place)
    if found != expected:
        return False
    remove = partial(place.client.delete_object, Bucket=place.bucket, Key=place.key)
    if connection.conditional_puts is None:
        connection.conditional_puts = put(place, expected) is None
    if not connection.conditional_puts:
        remove()
        return True
    if connection.conditional_deletes is None:
        connection.conditional_deletes = _honours_deletes(place, condition)
    if not connection.conditional_deletes:
        return put(place, instead, condition) is not None or _content(place)[0] == instead
    try:
        remove(IfMatch=condition["IfMatch"])
    except ClientError as error:
        if error_code(error) not in CONFLICTS:
            raise
        # botocore may have repeated a removal whose answer was lost
        return error_code(error) in MISSING_OBJECT
    return True


def _honours_deletes(place: Place, condition: dict[str, str]) -> bool:
    """Return whether the server honours conditions of removals.

    Of an object that does not exist, such a server rejects the removal on a condition, and only that.
    """
    absent = f"{place.key}.{secrets.token_hex(8)}"
    remove = partial(place.client.delete_object, Bucket=place.bucket, Key=absent)
    try:
        remove()
    except ClientError:
        return False
    try:
        remove(IfMatch=condition["IfMatch"])
    except ClientError as error:  # another error: the server does not know the header, or forbids its use
        return error_code(error) in CONFLICTS
    return False


def _content(place: Place) -> tuple[bytes | None, dict[str, str]]:
    """Return the content of an object, and the condition for it to be unchanged."""
    etag = ""

    def read() -> bytes:
        nonlocal etag
        answer = place.client.get_object(Bucket=place.bucket, Key=place.key)
        etag = answer["ETag"]
        return answer["Body"].read()

    try:
        data = repeat(read)
        if place.client.meta.endpoint_url.startswith("http://") and etag.strip('"') != etag_of([data]):
            data = read_until_certain(read, place.uri, good=lambda found: etag.strip('"') == etag_of([found]))
    except ClientError as error:
        if error_code(error) not in MISSING_OBJECT:
            raise
        return None, IF_ABSENT
    return data, {"IfMatch": etag}
