"""From connections to stores."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from graph_partitioning.hooks.storage import GraphStorageHook

from partition_ops.errors import InvalidInputError, PartitionOpsError
from partition_ops.storage import StorageSettings, open_store

EXTRA = {"endpoint_url": "http://s3.example:9000", "region_name": "eu-west-1", "verify": False}


def connect(monkeypatch: pytest.MonkeyPatch, **fields: Any) -> None:
    monkeypatch.setenv("AIRFLOW_CONN_GRAPHS", json.dumps({"conn_type": "aws", **fields}))


def test_connection_becomes_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    extra = {**EXTRA, "config_kwargs": {"s3": {"addressing_style": "path"}}}
    connect(monkeypatch, login="key-id", password="key-secret", extra=extra)
    assert GraphStorageHook("graphs").settings == StorageSettings(
        endpoint_url="http://s3.example:9000",
        region="eu-west-1",
        access_key="key-id",
        secret_key="key-secret",
        addressing_style="path",
        verify=False,
    )


def test_connection_without_keys_leaves_them_to_boto3(monkeypatch: pytest.MonkeyPatch) -> None:
    connect(monkeypatch, extra=EXTRA)
    settings = GraphStorageHook("graphs").settings
    assert (settings.access_key, settings.secret_key) == (None, None)
    assert settings.endpoint_url == "http://s3.example:9000"


@pytest.mark.parametrize("connection_id", [None, ""])
def test_no_connection_means_the_chain_of_boto3(connection_id: str | None) -> None:
    assert GraphStorageHook(connection_id).settings == StorageSettings()


def test_unknown_connection_means_the_same_with_a_warning(capsys: pytest.CaptureFixture[str]) -> None:
    assert GraphStorageHook("not_there").settings == StorageSettings()
    assert "Unable to find AWS Connection ID 'not_there'" in "".join(capsys.readouterr())


def test_secrets_are_not_shown(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    connect(monkeypatch, login="key-id", password="key-secret", extra=EXTRA)
    hook = GraphStorageHook("graphs")
    assert hook.settings.secret_key == "key-secret"
    logged = "".join(capsys.readouterr())
    for shown in (logged, repr(hook.settings), repr(vars(hook))):
        assert "key-secret" not in shown
        assert "key-id" not in shown


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_local_roots_need_no_connection(tmp_path: Path, scheme: str) -> None:
    with GraphStorageHook("not_there").open(f"{scheme}{tmp_path}") as store:
        store.write_bytes("a/b.txt", b"content")
    assert (tmp_path / "a" / "b.txt").read_bytes() == b"content"


def test_streams_in_chunks_from_s3(
    monkeypatch: pytest.MonkeyPatch, s3_settings: StorageSettings, s3_root: str
) -> None:
    extra = {"endpoint_url": s3_settings.endpoint_url, "region_name": s3_settings.region}
    connect(monkeypatch, login=s3_settings.access_key, password=s3_settings.secret_key, extra=extra)
    content = bytes(range(256)) * 4096 * 3
    with open_store(s3_root, s3_settings) as store:
        store.write_bytes("data/big.bin", content)
    size, chunks = GraphStorageHook("graphs").stream(s3_root, "data/big.bin")
    parts = list(chunks)
    assert size == len(content)
    assert len(parts) > 1
    assert b"".join(parts) == content


def test_stream_of_nothing_says_so(
    monkeypatch: pytest.MonkeyPatch, s3_settings: StorageSettings, s3_root: str, tmp_path: Path
) -> None:
    extra = {"endpoint_url": s3_settings.endpoint_url, "region_name": s3_settings.region}
    connect(monkeypatch, login=s3_settings.access_key, password=s3_settings.secret_key, extra=extra)
    for root in (s3_root, str(tmp_path)):
        with pytest.raises(InvalidInputError):
            GraphStorageHook("graphs").stream(root, "nothing.json")
        with pytest.raises(PartitionOpsError):
            GraphStorageHook("graphs").stream(root, "../nothing.json")
