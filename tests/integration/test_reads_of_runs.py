"""What reads the files of a run over plain HTTP reads them once, and again if a bit was flipped."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from benchmarks.s3_jobs import RequestCounter
from partition_ops.artifacts.records import damaged_artifacts, read_record
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.train.cache import Cache
from partition_ops.train.output_files import OutputFiles
from tests.faulty_s3 import Faults, faulty
from tests.graphs import library

KEY = "partitions/part0/graph.dgl"


def keep(output: Store, folder: Path) -> object:
    files = OutputFiles(output, [0], Cache(folder))
    return files.keep_local(KEY).read_bytes()


def check(output: Store, folder: Path) -> object:
    listed = [one for one in read_record(output, "convert-part0")["artifacts"] if one["key"] == KEY]
    return damaged_artifacts(output, listed, "content")


@pytest.mark.parametrize("read", [keep, check])
def test_once_unless_a_bit_was_flipped(
    read: Callable[[Store, Path], object], tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    source = open_store(str(library().write(tmp_path / "in")))
    with open_store(s3_root, s3_settings) as output:
        run_job(RunConfig(num_parts=2, engine="random"), source, output)
        right = output.read_bytes(KEY) if read is keep else []
    with RequestCounter().counting() as seen, open_store(s3_root, s3_settings) as output:
        assert read(output, tmp_path / "quiet") == right
    assert sum(n for (verb, key), n in seen.items() if verb == "GET" and key.endswith(KEY)) == 1
    faults = Faults(2, share=0, flipped=0.25)
    with faulty(s3_settings, faults) as settings:
        for number in range(16):
            with open_store(s3_root, settings) as output:
                assert read(output, tmp_path / f"{number}") == right
    assert faults.seen["flipped"] > 2
