"""Connection settings for S3 and compatible servers."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class StorageSettings:
    """Connection settings for S3. boto3 itself finds a value for each field that is None.

    boto3 reads ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_ENDPOINT_URL``,
    ``AWS_DEFAULT_REGION``, the shared configuration files and instance roles.

    Attributes:
        endpoint_url: Address of the server; None means ``AWS_ENDPOINT_URL``, or AWS.
        region: Name of the region.
        access_key: Access key ID; ``repr`` omits it.
        secret_key: Secret access key; ``repr`` omits it.
        session_token: Session token; ``repr`` omits it.
        addressing_style: ``path``, ``virtual`` or ``auto``.
        verify: Path of a CA bundle, or False to trust any certificate.
        max_concurrency: Threads per transfer.
        connect_timeout: Seconds to wait for a connection.
        read_timeout: Seconds to wait for the next bytes of an answer.
        max_attempts: Attempts of botocore per request, including the first; then the call is repeated once.
    """

    endpoint_url: str | None = field(default=None, repr=False)  # may hold a user and a password
    region: str | None = None
    access_key: str | None = field(default=None, repr=False)
    secret_key: str | None = field(default=None, repr=False)
    session_token: str | None = field(default=None, repr=False)
    addressing_style: str = "auto"
    verify: bool | str | None = None
    max_concurrency: int = 8
    connect_timeout: float = 10.0
    read_timeout: float = 60.0
    max_attempts: int = 5
