"""Power failures: a record or a manifest appears only after all that it lists is on the disk."""

from __future__ import annotations

import errno
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import point_at
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.storage.durability import sync_folder
from partition_ops.storage.local_store import PARTIAL
from tests.graphs import library
from tests.integration.test_lock import pointer
from tests.temporary import on_disk  # noqa: F401

CONFIG = {"num_parts": 2, "engine": "random"}


class Disk:
    """Keeps what changed below a folder and is not on the disk yet.

    Attributes:
        files: Inodes of files whose content is on the disk.
        names: New and removed paths that may be lost, because their folder has not been synced since.
        early: Records and manifests that appeared too early, with what was missing.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.files: set[int] = set()
        self.names: set[Path] = set()
        self.early: list[str] = []
        self.renamed: list[str] = []

    def change(self, path: Path) -> None:
        """Note a new or removed name."""
        if path.is_relative_to(self.folder) and not self.is_scratch(path):
            self.names.add(path)

    def sync(self, handle: int) -> None:
        status = os.fstat(handle)
        self.files.add(status.st_ino)
        folder = Path(f"/proc/self/fd/{handle}").readlink()
        self.names -= {path for path in self.names.copy() if path.parent == folder}

    def rename(self, source: Path, target: Path) -> None:
        """Check what must be on the disk before a name appears."""
        if not target.is_relative_to(self.folder) or self.is_scratch(target):
            return
        key = str(target.relative_to(self.folder))
        self.renamed.append(key)
        if target.is_file() and target.stat().st_ino not in self.files:
            self.early.append(f"{key}: its content")
        if key == layout.MANIFEST or (key.startswith("records/") and key.endswith(".json")):
            for entry in json.loads(target.read_bytes())["artifacts"]:
                path = self.folder / entry["key"]
                self.early += [f"{key}: {one}" for one in (path, *path.parents) if one in self.names]
        self.change(target)

    def is_scratch(self, path: Path) -> bool:
        """Return whether a command that was killed or crashed does not use a file again."""
        return "scratch" in path.parts or path.name == layout.LOCK or PARTIAL in str(path)


@pytest.fixture
def disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Disk:
    disk = Disk(tmp_path / "out")

    def after(name: str, note: Callable[..., None]) -> None:
        real = getattr(os, name)

        def called(*given: Any, **options: Any) -> Any:
            found = real(*given, **options)
            if "dir_fd" not in options:
                note(*given)
            return found

        monkeypatch.setattr(os, name, called)

    def made(path: Any, *rest: object) -> None:
        disk.change(Path(path))

    after("fsync", disk.sync)
    after("replace", lambda source, target: disk.rename(Path(source), Path(target)))
    after("rename", lambda source, target: disk.rename(Path(source), Path(target)))
    after("mkdir", made)
    after("unlink", made)
    return disk


@pytest.fixture
def graph(tmp_path: Path) -> Path:
    return library().write(tmp_path / "in")


def test_a_record_follows_what_it_lists(disk: Disk, graph: Path) -> None:
    source, output = open_store(str(graph)), open_store(str(disk.folder))
    run_job(RunConfig(**CONFIG), source, output)  # type: ignore[arg-type]
    assert disk.early == []
    assert not disk.names, "names that are never synced"
    listed = {entry["key"] for entry in output.read_json(layout.MANIFEST)["artifacts"]}
    assert {layout.MANIFEST, layout.MARKER, "records/partition.json"} <= {*disk.renamed}
    assert listed <= {*disk.renamed}
    point_at(output, pointer(output, "one"), expected=None)
    assert layout.LATEST in disk.renamed and disk.early == [] and not disk.names


def test_partitions_of_an_earlier_run_that_are_reused_are_on_the_disk(
    disk: Disk, graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hard links, and copies if the disk has no links."""
    before = tmp_path / "before"
    source = open_store(str(graph))
    run_job(RunConfig(**CONFIG), source, open_store(str(before)))  # type: ignore[arg-type]

    def no_links(*given: object, **options: object) -> None:
        raise OSError(errno.EXDEV, "no links")

    monkeypatch.setattr(os, "link", no_links)
    output = open_store(str(disk.folder))
    run_job(RunConfig(**CONFIG), source, output, previous=open_store(str(before)))  # type: ignore[arg-type]
    assert disk.early == [] and not disk.names
    assert output.read_json("records/convert-part0.json")["counters"]["files_reused"] > 0


def test_fetched_partitions_are_on_the_disk(disk: Disk, graph: Path, tmp_path: Path) -> None:
    output = open_store(str(tmp_path / "finished"))
    run_job(RunConfig(**CONFIG), open_store(str(graph)), output)  # type: ignore[arg-type]
    fetch_partitions(output, [0], disk.folder)
    assert disk.renamed and disk.early == [] and not disk.names


@pytest.mark.parametrize("number", [errno.EINVAL, errno.ENOTSUP])
def test_a_file_system_that_cannot_sync_folders_is_no_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def fails(handle: int) -> None:
        raise OSError(number, "no")

    monkeypatch.setattr(os, "fsync", fails)
    sync_folder(tmp_path)
