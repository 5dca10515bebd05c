"""Retention of runs on S3."""

from __future__ import annotations

from partition_ops.artifacts import layout
from partition_ops.jobs.retention import RetentionConfig, retain_runs
from partition_ops.storage import StorageSettings, open_store
from tests.unit.jobs.test_retention import DAY, pointer


def test_the_same_on_s3(s3_settings: StorageSettings, s3_root: str) -> None:
    with open_store(f"{s3_root}/g", s3_settings) as root:
        for name in ("a", "b", "c"):
            root.write_bytes(f"runs/{name}/partitions/p", b"x")
            root.write_bytes(f"runs/{name}/{layout.VALIDATION_REPORT}", b"{}")
            root.write_bytes(f"runs/{name}/{layout.MANIFEST}", b"{}")
        root.write_bytes("runs.old/a/manifest.json", b"{}")
        root.write_json(layout.LATEST, pointer(f"{s3_root}/g/runs/a"))
        assert retain_runs(RetentionConfig(keep=1), root).removed == []
        later = max(entry.modified for entry in root.list()) + 8 * DAY
        retained = retain_runs(RetentionConfig(keep=1), root, now=later)
        assert [uri.rpartition("/")[2] for uri in retained.removed] == ["b"]
        left = {entry.key.split("/")[1] for entry in root.list("runs/")}
        assert left == {"a", "c"} and root.exists("runs.old/a/manifest.json")
