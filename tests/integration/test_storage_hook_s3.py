"""The storage hook streams objects from S3."""

from __future__ import annotations

from pathlib import Path

import pytest
from graph_partitioning.hooks.storage import GraphStorageHook

from partition_ops.errors import InvalidInputError, PartitionOpsError
from partition_ops.storage import StorageSettings, open_store
from tests.airflow_tasks import connect


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
