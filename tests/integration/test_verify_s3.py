"""Verify reads input and output from S3, in every output format."""

from __future__ import annotations

from pathlib import Path

from partition_ops.artifacts import layout
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, open_store
from partition_ops.verification import verify_output
from tests.graphs import library

FORMATS = ("dgl", "graphbolt", "graphbolt-dataset", "pyg", "graphstorm")


def test_an_output_on_s3(s3_root: str, s3_settings: StorageSettings, tmp_path: Path) -> None:
    folder = library().write(tmp_path / "graph")
    with (
        open_store(f"{s3_root}/input", s3_settings) as source,
        open_store(f"{s3_root}/output", s3_settings) as destination,
    ):
        for path in folder.rglob("*.*"):
            source.write_bytes(path.relative_to(folder).as_posix(), path.read_bytes())
        run_job(RunConfig(num_parts=2, formats=FORMATS), source, destination)
    with (  # new stores, without the files that the job fetched
        open_store(f"{s3_root}/input", s3_settings) as source,
        open_store(f"{s3_root}/output", s3_settings) as destination,
    ):
        report = verify_output(source, destination)
        assert report.passed, report.summary()
        destination.delete([layout.edge_id_map("paper:cites:paper")])
        failed = {check.name for check in verify_output(source, destination).failed}
        fetch_partitions(destination, [0], tmp_path / "fetched", formats=["graphbolt-dataset"])
    assert failed == {"edge-id-maps", "manifest-artifacts"}
    assert (tmp_path / "fetched/formats/graphbolt-dataset/preprocessed/metadata.yaml").is_file()
