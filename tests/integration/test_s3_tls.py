"""S3 servers with certificates of a private authority, both addressing styles, and roles."""

from __future__ import annotations

import datetime
import ipaddress
import json
import secrets
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from graph_partitioning.hooks.storage import GraphStorageHook

from local_stack.s3_server import S3Access, start_s3_server
from partition_ops.errors import StorageError
from partition_ops.storage import StorageSettings, Store, open_store, s3_integrity

BUCKET = "private"
URI = f"s3://{BUCKET}/root"
HOST = "s3.test"  # stands for 127.0.0.1, see `resolver`


class Authority:
    """A private certificate authority."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir()
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, f"Authority {folder.name}")])
        constraints = x509.BasicConstraints(ca=True, path_length=0)
        self.bundle = self._write("ca.pem", self._sign(self._name, self._key, constraints))

    def issue(self) -> tuple[Path, Path]:
        """Return the files of a server's certificate and key."""
        key = ec.generate_private_key(ec.SECP256R1())
        names = [x509.DNSName(HOST), x509.DNSName(f"*.{HOST}")]
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        subject = x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, HOST)])
        certificate = self._sign(subject, key, x509.SubjectAlternativeName([*names, address]))
        plain = (serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        pem = key.private_bytes(serialization.Encoding.PEM, *plain)
        return self._write("server.pem", certificate), self._write("server.key", pem)

    def _sign(self, subject: x509.Name, key: ec.EllipticCurvePrivateKey, extension: Any) -> bytes:
        now = datetime.datetime.now(datetime.UTC)
        builder = x509.CertificateBuilder(
            issuer_name=self._name,
            subject_name=subject,
            public_key=key.public_key(),
            serial_number=x509.random_serial_number(),
            not_valid_before=now - datetime.timedelta(hours=1),
            not_valid_after=now + datetime.timedelta(days=1),
        ).add_extension(extension, critical=isinstance(extension, x509.BasicConstraints))
        return builder.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def _write(self, name: str, content: bytes) -> Path:
        path = self.folder / name
        path.write_bytes(content)
        return path


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("tls") / "ours")


@pytest.fixture(scope="module", params=[True, False], ids=["path", "virtual"])
def server(
    request: pytest.FixtureRequest, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[S3Access, str]]:
    """Yield a server with HTTPS, and its addressing style."""
    folder = tmp_path_factory.mktemp("https")
    service, access = start_s3_server(
        folder / "data",
        folder / "s3.log",
        access_key=secrets.token_hex(8),
        secret_key=secrets.token_hex(16),
        buckets=(BUCKET,),
        certificate=authority.issue(),
        path_style=request.param,
    )
    yield access, "path" if request.param else "virtual"
    service.stop()


@pytest.fixture(autouse=True)
def resolver(monkeypatch: pytest.MonkeyPatch) -> None:
    """Resolve names below `HOST` to this machine, and hide the user's own settings."""
    ask = socket.getaddrinfo

    def answer(host: Any, *rest: Any, **options: Any) -> Any:
        return ask("127.0.0.1" if str(host).endswith(HOST) else host, *rest, **options)

    monkeypatch.setattr(socket, "getaddrinfo", answer)
    for name in ("AWS_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "HTTPS_PROXY", "https_proxy"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.fixture
def settings(server: tuple[S3Access, str]) -> StorageSettings:
    """Return the settings of a connection, without the authority."""
    access, style = server
    endpoint = f"https://{HOST}:{access.port}"
    return replace(access.settings(), endpoint_url=endpoint, addressing_style=style, max_attempts=1)


def round_trip(settings: StorageSettings | None) -> None:
    """Write, list and read objects, one of them in several parallel parts."""
    content = secrets.token_bytes(17 << 20)
    with open_store(URI, settings) as store:
        store.write_bytes("small", b"hello")
        store.write_bytes("big", content)
        assert [entry.key for entry in store.list()] == ["big", "small"]
        assert store.read_bytes("small") == b"hello"
        assert store.local_copy("big").read_bytes() == content
        store.delete(["small", "big"])


def test_the_authority_in_the_settings_is_trusted(settings: StorageSettings, authority: Authority) -> None:
    round_trip(replace(settings, verify=str(authority.bundle)))


def test_an_authority_in_the_environment_is_trusted(
    settings: StorageSettings, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority.bundle))
    round_trip(settings)


def test_a_connection_of_airflow_names_the_authority(
    settings: StorageSettings, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = {
        "endpoint_url": settings.endpoint_url,
        "region_name": settings.region,
        "verify": str(authority.bundle),
        "config_kwargs": {"s3": {"addressing_style": settings.addressing_style}},
    }
    fields = {"conn_type": "aws", "login": settings.access_key, "password": settings.secret_key}
    monkeypatch.setenv("AIRFLOW_CONN_PRIVATE", json.dumps({**fields, "extra": extra}))
    round_trip(GraphStorageHook("private").settings)


def test_nobody_else_is_trusted(settings: StorageSettings, tmp_path: Path) -> None:
    other = Authority(tmp_path / "other")
    for verify in (None, str(other.bundle)):
        with pytest.raises(StorageError, match=r"not trusted.*AWS_CA_BUNDLE"):
            round_trip(replace(settings, verify=verify))


def test_the_name_of_the_server_must_be_in_its_certificate(
    settings: StorageSettings, server: tuple[S3Access, str], authority: Authority
) -> None:
    wrong = f"https://other-{HOST}:{server[0].port}"
    with pytest.raises(StorageError, match=r"not trusted: it belongs to another host.*other-s3\.test"):
        round_trip(
            replace(settings, endpoint_url=wrong, verify=str(authority.bundle), addressing_style="path")
        )


def uses(store: Store) -> Iterator[Callable[[], object]]:
    yield lambda: store.stat("x")
    yield lambda: store.read_bytes("x")
    yield lambda: list(store.list())
    yield lambda: store.write_bytes("x", b"1")


@pytest.mark.long
def test_a_server_with_tls_is_told_from_one_that_is_down(
    settings: StorageSettings, server: tuple[S3Access, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(s3_integrity, "EXHAUSTED_ROUNDS", 1)  # for the time that the test takes
    plain = f"http://{HOST}:{server[0].port}"
    with open_store(URI, replace(settings, endpoint_url=plain)) as store:
        for use in uses(store):
            with pytest.raises(StorageError, match=rf"{plain}\. Found: TLS\. Write https://{HOST}"):
                use()


def test_a_server_without_tls_is_told_from_one_that_is_not_trusted(
    s3_settings: StorageSettings, authority: Authority
) -> None:
    secure = str(s3_settings.endpoint_url).replace("http:", "https:")
    wrong = replace(s3_settings, endpoint_url=secure, max_attempts=1, verify=str(authority.bundle))
    with open_store(URI, wrong) as store:
        for use in uses(store):
            with pytest.raises(StorageError, match=rf"{secure}\. Found: plain HTTP\. Write http://127"):
                use()


def test_an_empty_authority_does_not_mean_anybody(
    settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_CA_BUNDLE", "")
    with pytest.raises(StorageError):
        round_trip(settings)


def test_the_wrong_way_of_naming_buckets_finds_nothing(
    settings: StorageSettings, authority: Authority
) -> None:
    other = "path" if settings.addressing_style == "virtual" else "virtual"
    with pytest.raises(StorageError):
        round_trip(replace(settings, verify=str(authority.bundle), addressing_style=other))


def test_credentials_come_from_a_role(
    settings: StorageSettings, authority: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    keys = {
        "AccessKeyId": settings.access_key,
        "SecretAccessKey": settings.secret_key,
        "Token": "",
        "Expiration": "2099-01-01T00:00:00Z",
    }
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    with role(keys) as address:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", address)
        round_trip(replace(settings, access_key=None, secret_key=None, verify=str(authority.bundle)))


class role:
    """Serve the credentials of a role over HTTP, as container platforms do."""

    def __init__(self, keys: dict[str, str | None]) -> None:
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(keys).encode())

            def log_message(self, *arguments: object) -> None:
                """Write no log."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)

    def __enter__(self) -> str:
        threading.Thread(target=self._server.serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{self._server.server_port}/role"

    def __exit__(self, *error: object) -> None:
        self._server.shutdown()
        self._server.server_close()
