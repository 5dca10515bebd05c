"""Tasks on S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.jobs.whole_job import remove_damaged
from partition_ops.storage import StorageSettings, open_store
from partition_ops.system.progress import NoProgress
from tests.unit.artifacts.test_tasks import do


@pytest.mark.parametrize("place", ["local", "s3"])
def test_what_has_another_content_is_removed(
    place: str, tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    where = {"local": str(tmp_path), "s3": s3_root}[place]
    with open_store(where, s3_settings) as store:
        do(store)
        do(store, name="two", key="a/c.json")
        store.write_bytes(layout.MANIFEST, b"{}")
        assert remove_damaged(store, NoProgress()) == []
        assert store.exists(layout.MANIFEST)
        store.write_bytes("a/b.txt", b"y")
    with open_store(where, s3_settings) as store:
        assert remove_damaged(store, NoProgress()) == ["a/b.txt"]
        assert [entry.key for entry in store.list("a/")] == ["a/c.json"]
        assert not store.exists(layout.MANIFEST)
        assert not do(store).skipped
