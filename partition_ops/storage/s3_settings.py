"""How to reach an S3-compatible server."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, kw_only=True)
class StorageSettings:
    """What boto3 cannot find out by itself; every field that is None is left to boto3's own chain.

    boto3 reads ``AWS_ACCESS_KEY_ID``, ``AWS_SECRET_ACCESS_KEY``, ``AWS_ENDPOINT_URL``,
    ``AWS_DEFAULT_REGION``, the shared configuration files and instance roles.

    Attributes:
        endpoint_url: Address of the server; None means AWS or ``AWS_ENDPOINT_URL``.
        region: Region name.
        access_key: Access key ID; never shown.
        secret_key: Secret access key; never shown.
        session_token: Session token; never shown.
        addressing_style: ``path``, ``virtual`` or ``auto``.
        verify: A CA bundle's path, or False to trust any certificate.
        max_concurrency: Threads of one transfer.
        connect_timeout: Seconds to wait for a connection.
        read_timeout: Seconds to wait for the next bytes of an answer.
        max_attempts: How often one request is tried, the first time included.
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
