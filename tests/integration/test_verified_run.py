"""A run whose files are compared with its manifest, on S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.verified_run import VerifiedRun
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, open_store
from tests.graphs import library


def test_copies_are_those_of_the_manifest(tmp_path: Path, s3_root: str, s3_settings: StorageSettings) -> None:
    source = open_store(str(library().write(tmp_path / "in")))
    with open_store(s3_root, s3_settings) as output:
        run_job(RunConfig(num_parts=2, engine="random"), source, output)
        run = VerifiedRun(output)
        right = run.listed[layout.BOOK].sha256
        copy = run.checked_copy(layout.BOOK, right)
        assert copy == run.local_copy(layout.BOOK) == output.local_copy(layout.BOOK)
        assert run.checked_copy(layout.BOOK, "0" * 64) is None
        output.write_bytes(layout.BOOK, output.read_bytes(layout.BOOK).swapcase())
        assert VerifiedRun(output).checked_copy(layout.BOOK, right) is None
        with pytest.raises(InvalidInputError, match="is not the file that the run wrote"):
            VerifiedRun(output).local_copy(layout.BOOK)
        with pytest.raises(InvalidInputError, match="does not list"):
            run.checked_copy("another", right)
