"""boto3's client, set up for long transfers and for servers other than AWS."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import boto3
from boto3.s3.transfer import TransferConfig
from botocore.config import Config
from botocore.exceptions import ClientError

from partition_ops.errors import UsageError
from partition_ops.storage.s3_errors import MISSING_OBJECT, code_of, explained
from partition_ops.storage.s3_settings import StorageSettings
from partition_ops.storage.s3_transfers import FetchCache, Uploads
from partition_ops.system.progress import Progress

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

PART_BYTES = 16 << 20
WHOLE_BYTES = 128 << 20  # less goes up in one request: parts cost a server more, and files go side by side
SETTLE_SECONDS = 2.0
ABSENT = {"IfNoneMatch": "*"}
UNMET = {"PreconditionFailed", "412", "ConditionalRequestConflict", "409", *MISSING_OBJECT}
STYLES = ("auto", "path", "virtual")


@dataclass
class Connection:
    """What a store shares with its children.

    Attributes:
        download: How objects are fetched.
        upload: How they are sent.
        settings: What the client was made from.
        cache: Copies on the local disk.
        uploads: What is on its way to the server.
        bucket_seen: Whether the bucket is known to be there.
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
    """A client, usable from several threads; nothing is sent yet.

    Raises:
        UsageError: The address of the server is not one.
        StorageError: boto3's own configuration is broken, for instance a profile that is not there.
    """
    with explained("s3"):
        # the default session of boto3 is not made for threads
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
    """Objects from ``threshold`` bytes on go in parts, several at a time; memory is parts in flight."""
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
        # servers other than AWS do not all know the checksums that botocore adds by default
        request_checksum_calculation="when_required",
        response_checksum_validation="when_required",
        user_agent_extra="partition-ops",
    )


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
