"""Fetched partitions are loaded by DGL, and are fetched from S3."""

# ruff: noqa: F811 (fixtures of a unit test are imported, and are arguments here)

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partition_ops.cli import main
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.storage import StorageSettings, open_store
from partition_ops.storage.store import sha256_of
from partition_ops.system.dgl_import import import_dgl
from tests.unit.jobs.test_fetch import content, expected, whole  # noqa: F401
from tests.uploads import upload_folder


def test_a_partition_is_loaded_by_dgl(whole: Path, tmp_path: Path) -> None:
    result = fetch_partitions(open_store(str(whole)), [1], tmp_path / "to")
    assert content(tmp_path / "to") == expected(whole, (1,))
    loaded = import_dgl().distributed.load_partition(result["partition_config"], 1)
    assert loaded[4] == "small"
    assert "paper/feat" in loaded[1]


def test_a_local_file_is_hashed_once(whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    hashed: list[Path] = []

    def digest(path: Path) -> str:
        hashed.append(path)
        return sha256_of(path)

    for module in ("partition_ops.jobs.fetch", "partition_ops.storage.store"):
        monkeypatch.setattr(f"{module}.sha256_of", digest)
    fetch_partitions(open_store(str(whole)), [1], tmp_path / "to")
    names = [path.name for path in hashed]
    assert len(names) == len({*names}) > len(content(tmp_path / "to"))  # and the book


def test_command_from_s3(
    whole: Path,
    tmp_path: Path,
    s3_root: str,
    s3_settings: StorageSettings,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with open_store(s3_root, s3_settings) as store:
        upload_folder(whole, store)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_settings.access_key or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_settings.secret_key or "")
    words = ["--endpoint-url", s3_settings.endpoint_url or "", "--part", "0", "2", "--json"]
    assert main(["fetch", s3_root, "--to", str(tmp_path / "to"), *words]) == 0
    assert json.loads(capsys.readouterr().out)["parts"] == [0, 2]
    assert content(tmp_path / "to") == expected(whole, (0, 2))
    assert main(["fetch", s3_root, "--to", str(tmp_path / "to"), *words[:2], "--part", "7"]) == 2
