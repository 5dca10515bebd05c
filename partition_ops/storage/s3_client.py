"""The boto3 client for long transfers and for servers other than AWS, and conditional writes with it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from partition_ops.errors import UsageError
from partition_ops.storage.s3_errors import MISSING_OBJECT, error_code, explain_s3_errors
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.s3_transfers import FetchCache, Uploads
from partition_ops.system.progress import Progress

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES = 16 << 20
WHOLE_BYTES = 128 << 20  # smaller uploads use one request: parts cost a server more
SETTLE_SECONDS = 2.0
ABSENT = {"IfNoneMatch": "*"}
UNMET = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *MISSING_OBJECT}
STYLES = ("auto", "path", "virtual")


@dataclass
class Connection:
    """The connection that a store shares with its children.

    Attributes:
        bucket: Name of the bucket.
        client: The client of boto3.
        download: Transfer configuration for downloads.
        upload: Transfer configuration for uploads.
        progress: Shows the progress of large transfers.
        settings: Settings of the client.
        cache: Downloaded copies on the local disk.
        uploads: Uploads in the background.
        bucket_seen: Whether the bucket is known to exist.
    """

    bucket: str
    client: S3Client
    download: TransferConfig
    upload: TransferConfig
    progress: Progress
    settings: StorageSettings
    cache: FetchCache = field(default_factory=FetchCache)
    uploads: Uploads = field(default_factory=Uploads)
    bucket_seen: bool = False


def make_client(settings: StorageSettings) -> S3Client:
    """Return a client that several threads can use; nothing is sent yet.

    Raises:
        UsageError: The address of the server, or the addressing style, is not valid.
        StorageError: The configuration of boto3 is broken, for example because a profile is missing.
    """
    with explain_s3_errors("s3"):
        # the default session of boto3 is not thread-safe
        session = boto3.session.Session(
            aws_access_key_id=settings.access_key,
            aws_secret_access_key=settings.secret_key,
            aws_session_token=settings.session_token,
            region_name=settings.region,
        )
        try:
            return session.client(
                "s3",
                endpoint_url=settings.endpoint_url,
                verify=settings.verify,
                config=_client_config(settings),
            )
        except ValueError as error:
            raise UsageError(
                "The address of the S3 server is not valid",
                expected="https://host or http://host:port, in AWS_ENDPOINT_URL or in the settings",
            ) from error


def transfer_config(settings: StorageSettings, threshold: int = PART_BYTES) -> TransferConfig:
    """Return a configuration by which objects of ``threshold`` bytes or more go in parallel parts."""
    return TransferConfig(
        multipart_threshold=threshold,
        multipart_chunksize=PART_BYTES,
        max_concurrency=settings.max_concurrency,
    )


def _client_config(settings: StorageSettings) -> Config:
    if settings.addressing_style not in STYLES:
        raise UsageError(
            f"The addressing style cannot be {settings.addressing_style!r}", expected=", ".join(STYLES)
        )
    return Config(
        connect_timeout=settings.connect_timeout,
        read_timeout=settings.read_timeout,
        retries={"mode": "standard", "total_max_attempts": settings.max_attempts},
        # several transfers may run at a time
        max_pool_connections=max(32, 4 * settings.max_concurrency),
        tcp_keepalive=True,
        s3={"addressing_style": settings.addressing_style},  # type: ignore[arg-type]
        # some servers other than AWS reject the checksums that botocore adds by default
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="partition-ops",
    )


def put_if_unchanged(
    client: S3Client, bucket: str, key: str, data: bytes, *, expected: bytes | None, content_type: str
) -> bool:
    """Write an object by a conditional request if its current content is the expected one.

    Some servers ignore conditions and overwrite. To detect one, this function repeats the write on the
    condition that the object does not exist. If the server ignores conditions, the last of several concurrent
    callers wins: each reads the object again after `SETTLE_SECONDS`, and none may take longer than that
    between reading and writing.

    Args:
        client: A client of boto3.
        bucket: Name of the bucket.
        key: Key of the object in the bucket.
        data: The new content.
        expected: The expected current content; None if the object must not exist.
        content_type: Media type of the object.

    Returns:
        Whether the content is ``data`` now.

    Raises:
        ClientError: The server refused the request for another reason.
    """

    def put(condition: dict[str, str]) -> bool:
        options: dict[str, Any] = {"ContentType": content_type, **condition}
        try:
            client.put_object(Bucket=bucket, Key=key, Body=data, **options)
        except ClientError as error:
            if error_code(error) not in UNMET:
                raise
            return False
        return True

    found, condition = _content(client, bucket, key)
    if found != expected:
        return found == data
    if not put(condition):
        return (
            _content(client, bucket, key)[0] == data
        )  # true if botocore repeated a write whose answer was lost
    if not put(ABSENT):
        return True
    time.sleep(SETTLE_SECONDS)
    return _content(client, bucket, key)[0] == data


def _content(client: S3Client, bucket: str, key: str) -> tuple[bytes | None, dict[str, str]]:
    """Return the content of an object, and the condition for it to be unchanged."""
    try:
        answer = client.get_object(Bucket=bucket, Key=key)
    except ClientError as error:
        if error_code(error) not in MISSING_OBJECT:
            raise
        return None, ABSENT
    return answer["Body"].read(), {"IfMatch": answer["ETag"]}
