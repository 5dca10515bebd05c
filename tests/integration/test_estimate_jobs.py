"""The estimate of a job beside what the job takes, and of a graph on S3."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.jobs.estimate import estimate_job
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import LocalStore
from tests.graphs import Layout, library
from tests.unit.jobs.test_estimate import FACTOR, HEADERS, balanced_by_age, stage, with_ages
from tests.uploads import upload_folder


@pytest.mark.parametrize(
    ("engine", "hops", "formats"),
    [("metis", 1, ("coo",)), ("random", 0, ("csc",)), ("random", 1, ("coo", "csr"))],
)
def test_disk_is_what_a_real_job_then_takes(
    tmp_path: Path, engine: str, hops: int, formats: tuple[str, ...]
) -> None:
    source = LocalStore(library(papers=4000, layout=Layout("csv")).write(tmp_path / "in"))
    output = LocalStore(tmp_path / "out")
    config = RunConfig(
        num_parts=3,
        engine=engine,
        num_hops=hops,
        graph_formats=formats,
        on_defect="warn",
        ignore_estimate=True,
    )
    estimate = estimate_job(config, source, output)
    run_job(config, source, output)

    def left(prefix: str) -> int:
        return sum(entry.size for entry in output.list(prefix))

    for name, prefix in (("prepare", "prepare/"), ("partition", "assignment/"), ("convert", "partitions/")):
        expected = stage(estimate, name).output if name != "prepare" or engine != "random" else 0
        real = left(prefix)
        assert expected <= FACTOR * real + HEADERS, name
        assert real <= FACTOR * expected + HEADERS, name


def test_formats_that_share_their_files_take_their_place_once(
    tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    source = LocalStore(library(papers=4000).write(tmp_path / "in"))

    def output_of(destination: Store, *formats: str) -> int:
        config = RunConfig(num_parts=3, formats=formats, on_defect="warn")
        return stage(estimate_job(config, source, destination), "convert").output

    local = LocalStore(tmp_path / "out")
    with open_store(s3_root, s3_settings) as remote:
        for other in ("graphstorm", "graphbolt"):  # graphs of one, features of the other
            alone, both = output_of(local, "dgl"), output_of(local, "dgl", other)
            apart = output_of(remote, "dgl", other)
            assert alone < both < apart
            assert apart == output_of(remote, "dgl") + output_of(remote, other)


@pytest.mark.parametrize("counts", [[0, 2], [0, 0]])
def test_on_s3_an_empty_file_has_no_range(
    tmp_path: Path, counts: list[int], s3_root: str, s3_settings: StorageSettings
) -> None:
    files = [b"", b"7\n8\n"[: 2 * counts[1]]]
    with_ages(tmp_path, "csv", files, counts)
    with open_store(s3_root, s3_settings) as source:
        upload_folder(tmp_path, source)
        assert len(balanced_by_age(source)) == sum(counts) + 9
