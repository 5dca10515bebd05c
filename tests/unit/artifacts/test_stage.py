"""Stages of other packages."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts import stage as declarations
from partition_ops.artifacts.records import remove_leftovers
from partition_ops.artifacts.stage import Stage, StageTask
from partition_ops.storage import open_store


def install(monkeypatch: pytest.MonkeyPatch, *stages: Stage) -> None:
    """Install another package that has stages."""

    class Entry:
        def __init__(self, stage: Stage) -> None:
            self.load = lambda: stage

    entries = tuple(map(Entry, stages))
    monkeypatch.setattr(declarations, "plugins", lambda group: entries)


def test_scratch_of_another_package_is_removed_and_files_of_others_stay(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    tasks = (StageTask("other-part", each="part", scratch=True), StageTask("other"))
    install(monkeypatch, Stage(name="other", tasks=tasks), Stage(name="without"))
    run = open_store(str(tmp_path))
    stay = ["scratch/notes.txt", "scratch/others/a", "scratch/without/a"]
    for key in ("scratch/other/0/a.bin", "scratch/other/b", *stay):
        run.write_bytes(key, b"x")
    remove_leftovers(run, layout.SCRATCH)
    assert [entry.key for entry in run.list()] == stay
