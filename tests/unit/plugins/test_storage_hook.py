"""From connections to stores."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_partitioning.hooks.storage import GraphStorageHook

from partition_ops.storage import StorageSettings
from tests.airflow_tasks import connect

EXTRA = {"endpoint_url": "http://s3.example:9000", "region_name": "eu-west-1", "verify": False}


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
