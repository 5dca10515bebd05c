"""Listings of objects on S3."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from botocore.parsers import ResponseParserError

from partition_ops.storage.s3_integrity import READS, repeat
from partition_ops.storage.store import StoredObject
from partition_ops.system.parallel import map_in_threads

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

Listing = tuple[list[StoredObject], bool]


def list_objects(
    client: S3Client, bucket: str, prefix: str, *, certain: bool, pages: int | None = None
) -> Listing:
    """Return the objects below a prefix, and whether these are all.

    Args:
        client: The client.
        bucket: Name of the bucket.
        prefix: Prefix of the full keys.
        certain: Whether to list again until two listings are equal, because the connection may change bytes.
        pages: Number of requests for each listing at most; None for all.

    Returns:
        The objects with their full keys, sorted by key, and whether there are no more. Memory: 300 bytes an
        object.
    """

    def look(_: int) -> Listing:
        return repeat(lambda: _list(client, bucket, prefix, pages))

    if not certain:
        return look(0)
    before, found = map_in_threads(look, range(2), workers=2)
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
