"""`verify` notices damage to every file, and numbers in documents that are not those of the files."""

from __future__ import annotations

import hashlib
import json
import logging
import random
import shutil
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import get_formats
from partition_ops.formats.torch_files import check_torch_file
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.verification import verify_output
from partition_ops.verification.artifact_readers import read_id_map
from partition_ops.verification.check_figures import check_figures
from partition_ops.verification.check_output import check_manifest, read_assignment
from partition_ops.verification.expected_graph import ExpectedGraph
from partition_ops.verification.input_graph import read_edges
from tests.graphs import Values, library

FORMATS = ("dgl", "graphbolt", "graphbolt-dataset", "graphstorm", "pyg")
NO_ARTIFACTS = ("records/", layout.MARKER, layout.MANIFEST)
DOCUMENTS = (
    "partitions/part0/stats.json",
    "partitions/part1/stats.json",
    "assignment/assignment.json",
    "quality/report.json",
    "quality/history.json",
)
COUNTED = ("num_nodes", "num_edges", "files")  # of validation/report.json


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph ``in`` and its output ``out`` in all formats, partitioned by METIS."""
    folder = tmp_path_factory.mktemp("made")
    source = open_store(str(library().write(folder / "in")))
    run_job(RunConfig(num_parts=2, engine="metis", formats=FORMATS), source, open_store(str(folder / "out")))
    return folder


def files_of(output: Path) -> list[str]:
    found = [path.relative_to(output).as_posix() for path in output.rglob("*") if path.is_file()]
    return sorted(key for key in found if not key.startswith(NO_ARTIFACTS))


def mend(output: Path, key: str) -> None:
    """Write size and checksum of a file into the manifest and the records."""
    data = (output / key).read_bytes()
    for path in (output / layout.MANIFEST, *(output / layout.RECORDS).glob("*.json")):
        document = json.loads(path.read_text())
        for entry in document["artifacts"]:
            if entry["key"] == key:
                entry.update(size=len(data), sha256=hashlib.sha256(data).hexdigest())
        path.write_text(json.dumps(document))


def places(value: Any, *way: Any) -> Iterator[tuple[Any, ...]]:
    """Yield the ways to all numbers of a document."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        yield way
    for key, inner in (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    ):
        yield from places(inner, *way, key)


def test_the_output_is_good(made: Path) -> None:
    report = verify_output(open_store(str(made / "in")), open_store(str(made / "out")))
    assert report.passed, report.summary()


def test_a_changed_byte_in_any_file_is_noticed(made: Path, tmp_path: Path) -> None:
    source, output = open_store(str(made / "in")), open_store(str(tmp_path / "out"))
    shutil.copytree(made / "out", tmp_path / "out")
    metadata, chance = load_metadata(source), random.Random(1)
    keys = files_of(tmp_path / "out")
    for key in keys:
        path = tmp_path / "out" / key
        data = bytearray(path.read_bytes())
        data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        path.write_bytes(data)
    findings = Findings()
    check_manifest(findings, source, output, metadata)
    said = "\n".join(findings.failures("manifest-artifacts"))
    assert [key for key in keys if key not in said] == []


def test_a_mended_manifest_must_agree_with_the_records(made: Path, tmp_path: Path) -> None:
    source, output = open_store(str(made / "in")), open_store(str(tmp_path / "out"))
    shutil.copytree(made / "out", tmp_path / "out")
    records = {path: path.read_bytes() for path in (tmp_path / "out" / layout.RECORDS).glob("*.json")}
    with (tmp_path / "out" / layout.QUALITY_PAGE).open("ab") as stream:
        stream.write(b"\n")
    mend(tmp_path / "out", layout.QUALITY_PAGE)
    for path, data in records.items():
        path.write_bytes(data)
    findings = Findings()
    check_manifest(findings, source, output, load_metadata(source))
    assert layout.QUALITY_PAGE in findings.failures("manifest-artifacts")[0]


def test_a_changed_number_in_a_document_is_noticed(made: Path, tmp_path: Path) -> None:
    """The manifest and the records have the checksums of the changed documents."""
    source, output = open_store(str(made / "in")), open_store(str(tmp_path / "out"))
    shutil.copytree(made / "out", tmp_path / "out")
    metadata, formats = load_metadata(source), get_formats(FORMATS)
    assignment = read_assignment(Findings(), output, metadata)
    assert assignment is not None
    edges = [read_edges(source, metadata, type_id) for type_id in range(len(metadata.edge_types))]
    graph = ExpectedGraph(metadata, *assignment, edges)

    def failures() -> list[str]:
        findings = Findings()
        check_figures(findings, source, output, graph, formats, is_text=False)
        return findings.failures("figures")

    assert failures() == []
    changed, unnoticed, chance = 0, [], random.Random(2)
    for key in (*DOCUMENTS, layout.VALIDATION_REPORT):
        path = tmp_path / "out" / key
        before = path.read_text()
        ways = [way for way in places(json.loads(before)) if key in DOCUMENTS or way[0] in COUNTED]
        for way in chance.sample(ways, min(len(ways), 12)):
            document = json.loads(before)
            inner = document
            for step in way[:-1]:
                inner = inner[step]
            inner[way[-1]] += 1
            path.write_text(json.dumps(document))
            mend(tmp_path / "out", key)
            if not failures():
                unnoticed.append(f"{way} of {key}")
            changed += 1
        path.write_text(before)
        mend(tmp_path / "out", key)
    assert changed > 40
    assert "; ".join(unnoticed) == ""


@pytest.mark.parametrize(
    ("key", "old", "new"),
    [
        ("assignment/partition_meta.json", "1.0.0", "1.0.1"),
        ("assignment/partition_meta.json", '"metis"', '"random"'),
        ("assignment/partition_meta.json", '"num_parts": 2', '"num_parts": 4294967297'),
        ("assignment/assignment.json", '"seed"', '"sed"'),
        ("assignment/assignment.json", '"balance_ntypes": null', '"balance,_ntypes": null'),
        ("assignment/assignment.json", '"node-types"', '"node-type"'),
        ("convert/book.json", '"dgl"', '"dg,"'),
        ("partitions/part0/stats.json", '"contents"', '"content,s"'),
        ("partitions/part1/stats.json", '"nodes_by_degree"', '"nodes,by_degree"'),
    ],
)
def test_another_text_in_a_document_is_noticed(
    key: str, old: str, new: str, made: Path, tmp_path: Path
) -> None:
    shutil.copytree(made / "out", tmp_path / "out")
    path = tmp_path / "out" / key
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))
    mend(tmp_path / "out", key)
    assert not verify_output(open_store(str(made / "in")), open_store(str(tmp_path / "out"))).passed


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("pyg/part_0/edge_feats.pt", 7),
        ("pyg/node_map/author.pt", 1),
        ("graphbolt/part1/fused_csc_sampling_graph.pt", 11),
    ],
)
def test_a_changed_byte_anywhere_in_a_file_of_torch_is_noticed(
    name: str, step: int, made: Path, tmp_path: Path
) -> None:
    """Also in the headers of the archive, which have no checksum."""
    data, path = (made / "out" / "formats" / name).read_bytes(), tmp_path / "file.pt"
    path.write_bytes(data)
    check_torch_file.__wrapped__(path, 0)
    for place in range(0, len(data), step):
        changed = bytearray(data)
        changed[place] ^= 1 << place % 8
        path.write_bytes(changed)
        with pytest.raises(InvalidInputError, match="is damaged"):
            check_torch_file.__wrapped__(path, 0)
    for other in (data[:-1], data + b"\0", data[:100], b""):
        path.write_bytes(other)
        with pytest.raises(InvalidInputError, match="is damaged"):
            check_torch_file.__wrapped__(path, 0)


@pytest.mark.parametrize("formats", [("dgl",), ("graphbolt", "pyg")])
def test_features_without_rows_are_warned_of_before_the_conversion(
    formats: tuple[str, ...], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Five venues are in at most five of eight partitions."""
    graph = library()
    graph = replace(graph, node_values=[*graph.node_values, Values("venue", "grid", np.ones((5, 2)))])
    source = open_store(str(graph.write(tmp_path / "in")))
    with caplog.at_level(logging.WARNING, "partition_ops"):
        config = RunConfig(num_parts=8, engine="random", formats=formats)
        run_job(config, source, open_store(str(tmp_path / "out")))
    said = [record.getMessage() for record in caplog.records if "servers fail" in record.getMessage()]
    assert "some partitions have no row: venue/grid" in said[0] and "fewer partitions" in said[0]


@pytest.mark.long
def test_an_id_map_that_users_cannot_read_is_refused(made: Path, tmp_path: Path) -> None:
    """`ParquetFile` reads some files that the readers of datasets, and so of users, refuse."""
    whole = (made / "out/idmap/nodes/venue.parquet").read_bytes()
    path, refused = tmp_path / "venue.parquet", 0
    for place in range(len(whole)):
        path.write_bytes(whole[:place] + b"\0" + whole[place + 1 :])
        with suppress(OSError, pa.ArrowException, MemoryError):
            pq.ParquetFile(path).read()
            if not is_read(path):
                refused += 1
                with pytest.raises((OSError, pa.ArrowException)):
                    read_id_map(open_store(str(tmp_path)), path.name)
    assert refused


def is_read(path: Path) -> bool:
    try:
        pq.read_table(path, partitioning=None)
    except (OSError, pa.ArrowException):
        return False
    return True
