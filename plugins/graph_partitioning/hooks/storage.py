"""The hook that opens the library's stores with an Airflow connection."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from functools import cached_property
from typing import IO, TYPE_CHECKING, Any

from airflow.sdk import BaseHook

if TYPE_CHECKING:
    from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook
    from botocore.response import StreamingBody

    from partition_ops.storage import StorageSettings, Store
    from partition_ops.system.progress import Progress

CHUNK_BYTES = 1 << 20


class GraphStorageHook(BaseHook):
    """Opens the roots of graphs and runs: local paths, ``file://`` and ``s3://``.

    A connection of type ``aws`` says how to reach S3, in the fields that the amazon provider documents
    (login, password; ``endpoint_url``, ``region_name``, ``verify``, ``role_arn``, ``config_kwargs`` in the
    extra). Local roots need no connection, and none is looked up for them. Secrets go to boto3 only: not
    into logs, nor into XCom.

    Args:
        storage_conn_id: ID of the connection. None, ``""`` and, with a warning in the log, a connection that
            does not exist mean boto3's own chain of credentials.
    """

    conn_name_attr = "storage_conn_id"
    default_conn_name = "aws_default"
    hook_name = "Graph storage"

    def __init__(self, storage_conn_id: str | None = default_conn_name) -> None:
        super().__init__()
        self.storage_conn_id = storage_conn_id or None

    @cached_property
    def settings(self) -> StorageSettings:
        """Options of the access to S3.

        The credentials of an assumed role are read once and last for the role's session.
        """
        from partition_ops.storage import StorageSettings

        if self.storage_conn_id is None:
            return StorageSettings()
        aws = self._aws()
        s3_options = getattr(aws.config, "s3", None) or {}
        return StorageSettings(
            endpoint_url=aws.conn_config.get_service_endpoint_url("s3"),
            region=aws.region_name,
            addressing_style=s3_options.get("addressing_style", "auto"),
            verify=aws.verify,
            **_credentials(aws),
        )

    @contextmanager
    def open(self, uri: str, *, progress: Progress | None = None) -> Iterator[Store]:
        """Open a root for a ``with`` block.

        Args:
            uri: The root.
            progress: Shows the transfer of big objects.

        Raises:
            UsageError: The URI has another scheme or no bucket, or lies outside of the allowed roots.
        """
        with self.open_store(uri, progress=progress) as store:
            yield store

    def open_store(self, uri: str, *, progress: Progress | None = None) -> Store:
        """Return a root, which the caller closes; otherwise as `open`."""
        from partition_ops.storage import open_store

        return open_store(uri, self.settings if uri.startswith("s3://") else None, progress=progress)

    def stream(self, uri: str, key: str) -> tuple[int, Iterator[bytes]]:
        """Open one object, and return its size in bytes and its content in chunks.

        Raises:
            InvalidInputError: There is no such object, or the key leaves the root.
            UsageError: As for `open`.
        """
        from partition_ops.storage import open_store
        from partition_ops.storage.store import check_key

        if uri.startswith("s3://"):
            store = open_store(uri, self.settings)
            return _stream_s3(self.settings, store.uri_of(check_key(key)))
        path = open_store(uri).local_copy(key)
        return path.stat().st_size, _chunks(path.open("rb"))

    def _aws(self) -> AwsBaseHook:
        from airflow.providers.amazon.aws.hooks.base_aws import AwsBaseHook

        return AwsBaseHook(aws_conn_id=self.storage_conn_id, client_type="s3")


def _credentials(aws: AwsBaseHook) -> dict[str, Any]:
    """Return the keys of the connection, if it has any; otherwise boto3 finds and renews its own."""
    connection = aws.conn_config
    if not (connection.aws_access_key_id or connection.role_arn or connection.profile_name):
        return {}
    keys = aws.get_credentials()
    return {"access_key": keys.access_key, "secret_key": keys.secret_key, "session_token": keys.token}


def _stream_s3(settings: StorageSettings, uri: str) -> tuple[int, Iterator[bytes]]:
    from partition_ops.storage.s3_client import make_client
    from partition_ops.storage.s3_errors import explain_s3_errors

    bucket, _, key = uri.removeprefix("s3://").partition("/")
    with explain_s3_errors(uri):
        answer = make_client(settings).get_object(Bucket=bucket, Key=key)
    return answer["ContentLength"], _chunks(answer["Body"])


def _chunks(stream: IO[bytes] | StreamingBody) -> Iterator[bytes]:
    with closing(stream):
        while chunk := stream.read(CHUNK_BYTES):
            yield chunk
