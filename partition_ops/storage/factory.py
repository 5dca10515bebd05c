"""From a URI to a store."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import urlsplit

from partition_ops.errors import UsageError
from partition_ops.storage.base import Store
from partition_ops.storage.local import LocalStore
from partition_ops.storage.settings import StorageSettings


def open_store(uri: str, settings: StorageSettings | None = None) -> Store:
    """Open the root that a URI names: a local path, ``file://…`` or ``s3://bucket/prefix``.

    Args:
        uri: The root; nothing is read or written yet.
        settings: How to reach S3; boto3's own chain where left out.

    Raises:
        UsageError: The URI has another scheme or no bucket.
    """
    scheme, found, rest = uri.partition("://")
    if not found:
        if not uri:
            raise UsageError("A path is empty", expected="a local path or s3://bucket/prefix")
        return LocalStore(Path(uri))
    if scheme == "file":
        return LocalStore(Path(urlsplit(uri).path))
    if scheme == "s3":
        from partition_ops.storage.s3 import S3Store  # boto3 takes a while to import

        bucket, _, prefix = rest.partition("/")
        if not bucket:
            raise UsageError("A URI has no bucket", found=repr(uri), expected="s3://bucket/prefix")
        return S3Store(bucket, prefix, settings=settings or StorageSettings())
    raise UsageError(
        f"A URI has a scheme that is not supported: {scheme!r}", expected="a local path or s3://bucket/prefix"
    )
