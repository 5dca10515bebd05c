"""A published run of another version is not probed in place: it could not be published again."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from partition_ops import __version__
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.probe_published import probe_published
from partition_ops.stages.probe.options import ProbeConfig
from partition_ops.storage import open_store

OLD_OUTPUT = Path(__file__).parents[1] / "golden/old_output"


def test_an_output_of_an_old_version_is_not_probed_in_place(tmp_path: Path) -> None:
    shutil.copytree(OLD_OUTPUT, tmp_path / "out")
    old = open_store(str(tmp_path / "out"))
    before = {entry.key: entry.tag for entry in old.list()}
    with pytest.raises(InvalidInputError, match=rf"version 0\.1\.0 .* {__version__}"):
        probe_published(ProbeConfig(), old, cache=tmp_path / "cache")
    assert {entry.key: entry.tag for entry in old.list()} == before
