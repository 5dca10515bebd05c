"""The whole job: repeatable to the byte, resumable, and described by the schemas."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import StageResult
from partition_ops.chunked.metadata import METADATA
from partition_ops.cli import main
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document
from partition_ops.system.shipped_files import shipped_folder
from partition_ops.verification import verify_output
from tests.dying_store import DyingStore, Killed
from tests.graphs import library

CONFIG = RunConfig(num_parts=3, engine="metis")  # `auto` takes three times as long


def content(store: Store, *, but: tuple[str, ...] = ("records/",)) -> dict[str, bytes]:
    return {entry.key: store.read_bytes(entry.key) for entry in store.list() if not entry.key.startswith(but)}


@pytest.fixture
def source(tmp_path: Path) -> Store:
    return open_store(str(library(papers=300).write(tmp_path / "graph")))


def test_the_same_input_and_options_give_the_same_bytes(source: Store, tmp_path: Path) -> None:
    first, second = open_store(str(tmp_path / "1")), open_store(str(tmp_path / "2"))
    run_job(replace(CONFIG, engine="auto"), source, first)
    run_job(replace(CONFIG, engine="auto"), source, second)
    one, two = content(first), content(second)
    assert list(one) == list(two)
    differ = [key for key in one if one[key] != two[key]]
    # the manifest names where the artifacts are only by relative keys, so that it is the same too
    assert not differ


def test_a_second_call_does_nothing_again(source: Store, tmp_path: Path) -> None:
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    times = {entry.key: entry.tag for entry in out.list()}
    results = run_job(CONFIG, source, out)
    assert all(result.skipped for result in results)
    assert {entry.key: entry.tag for entry in out.list()} == times


def test_other_options_leave_nothing_of_the_run_before(source: Store, tmp_path: Path) -> None:
    used, fresh = open_store(str(tmp_path / "used")), open_store(str(tmp_path / "fresh"))
    run_job(RunConfig(num_parts=4, graph_name="before", num_trainers_per_machine=2), source, used)
    other = RunConfig(num_parts=2, engine="random", seed=1)
    run_job(other, source, used)
    run_job(other, source, fresh)
    assert content(used, but=("nothing",)).keys() == content(fresh, but=("nothing",)).keys()
    assert content(used) == content(fresh)
    roots = tmp_path / "used", tmp_path / "fresh"
    folders = [{path.relative_to(root) for path in root.rglob("*") if path.is_dir()} for root in roots]
    assert folders[0] == folders[1]


def writes(source: Store, folder: Path) -> int:
    counted = DyingStore(folder, lives=10**6)
    run_job(CONFIG, source, counted)
    return 10**6 - counted.lives


@pytest.mark.long
def test_a_job_killed_at_any_write_and_run_again_gives_the_same_bytes(source: Store, tmp_path: Path) -> None:
    total = writes(source, tmp_path / "whole")
    expected = content(open_store(str(tmp_path / "whole")))
    for lives in range(0, total, 3):
        folder = tmp_path / f"killed-{lives}"
        with pytest.raises(Killed):
            run_job(CONFIG, source, DyingStore(folder, lives))
        assert not (folder / layout.MANIFEST).exists()
        run_job(CONFIG, source, open_store(str(folder)))
        assert content(open_store(str(folder))) == expected, lives


def test_a_lost_file_is_made_again(source: Store, tmp_path: Path) -> None:
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    expected = content(out)
    (tmp_path / "out/partitions/part1/graph.dgl").unlink()
    run_job(CONFIG, source, out)
    assert content(out) == expected


def test_a_manifest_that_is_broken_is_written_again(source: Store, tmp_path: Path) -> None:
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    expected = content(out)
    out.write_bytes(layout.MANIFEST, expected[layout.MANIFEST][:99])
    results = run_job(CONFIG, source, out)
    assert [result.task for result in results if not result.skipped] == ["publish"]
    assert content(out) == expected


def test_another_input_replaces_a_finished_output_only_if_it_may(source: Store, tmp_path: Path) -> None:
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    before = content(out, but=())
    other = open_store(str(library(papers=200).write(tmp_path / "other")))
    with pytest.raises(
        UsageError, match="made from another input; 'run' replaces it only with --replace-input"
    ) as caught:
        run_job(CONFIG, other, out)
    assert (caught.value.found, caught.value.expected) == (other.uri, source.uri)
    assert content(out, but=()) == before
    (tmp_path / "link").symlink_to(tmp_path / "graph")
    again = run_job(CONFIG, open_store(str(tmp_path / "link")), out)
    assert [result.task for result in again if not result.skipped] == ["publish"]  # names the input
    run_job(replace(CONFIG, replace_input=True), other, out)
    assert out.read_json(layout.MANIFEST)["input"]["uri"] == other.uri


def test_an_unfinished_output_takes_any_input(source: Store, tmp_path: Path) -> None:
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    out.delete([layout.MANIFEST])
    other = open_store(str(library(papers=200).write(tmp_path / "other")))
    run_job(CONFIG, other, out)
    assert out.read_json(layout.MANIFEST)["input"]["uri"] == other.uri


def test_a_finished_output_that_is_none_any_more_is_named(
    source: Store, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """After a rejected input, and not if the output never was one."""
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    document = source.read_json(METADATA)
    document["num_nodes_per_chunk"][0][0] -= 1
    source.write_bytes(METADATA, json.dumps(document).encode())
    for place in (out, open_store(str(tmp_path / "new"))):
        with pytest.raises(InvalidInputError):
            run_job(CONFIG, source, place)
        assert not place.exists(layout.MANIFEST)
    (said,) = {one.getMessage() for one in caplog.records if "was a finished output" in one.getMessage()}
    assert said.startswith(f"{out.uri} was a finished output, and is none any more")


DAMAGED = {
    "assignment/paper.npy": "partition",
    "partitions/part1/graph.dgl": "convert-part1",
    "partitions/small.json": "convert-config",
    "idmap/nodes/paper.parquet": "idmap",
    "quality/report.json": "quality",
}


def test_a_graph_with_another_name_leaves_no_file_of_the_old_name(tmp_path: Path) -> None:
    """Also in the schema, of which nothing else changes."""
    out = open_store(str(tmp_path / "out"))
    for name in ("before", "after"):
        source = open_store(str(replace(library(papers=30), name=name).write(tmp_path / name)))
        run_job(replace(CONFIG, engine="random", replace_input=True), source, out)
    fresh = open_store(str(tmp_path / "fresh"))
    run_job(replace(CONFIG, engine="random"), source, fresh)
    assert content(out, but=("records/", "quality/")) == content(fresh, but=("records/", "quality/"))
    assert verify_output(source, out).passed


def test_what_is_damaged_is_made_again_if_asked_for(source: Store, tmp_path: Path) -> None:
    """Even if its size is the same; and what came of it before it was damaged stays."""
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    expected, before = content(out), {entry.key: entry.tag for entry in out.list()}
    for key in DAMAGED:
        path = tmp_path / "out" / key
        path.write_bytes(path.read_bytes()[:-1] + b" ")  # which in JSON is no mistake
    assert all(result.skipped for result in run_job(CONFIG, source, out))
    results = run_job(replace(CONFIG, check_artifacts=True), source, out)
    again = {result.task for result in results if not result.skipped}
    assert again == {*DAMAGED.values(), "convert-plan", "convert-scatter", "publish"}
    assert content(out) == expected
    stay = {"prepare/graph.parhip", "partitions/part0/graph.dgl", "validation/report.json"}
    assert {key: before[key] for key in stay} == {key: out.stat(key).tag for key in stay}  # type: ignore[union-attr]


def test_asking_for_a_check_where_all_is_well_changes_nothing(source: Store, tmp_path: Path) -> None:
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    before = {entry.key: entry.tag for entry in out.list()}
    assert (
        main(["run", source.uri, out.uri, "--num-parts", "3", "--engine", "metis", "--check-artifacts"]) == 0
    )
    assert {entry.key: entry.tag for entry in out.list()} == before


SCHEMAS = {
    layout.MARKER: "marker",
    layout.MANIFEST: "manifest",
    layout.VALIDATION_REPORT: "validation_report",
    layout.QUALITY_REPORT: "quality_report",
    layout.QUALITY_HISTORY: "history",
    "schema/small.json": "schema",
    layout.BOOK: "book",
    "partitions/small.json": "partition_config",
    "partitions/part0/stats.json": "partition_stats",
    "assignment/partition_meta.json": "partition_meta",
    "assignment/assignment.json": "assignment",
    "records/prepare.json": "record",
    "prepare/stats.json": "prepare_stats",
}


ELSEWHERE = {
    *("metadata", "latest", "expectation_suite", "probe", "migration"),
    *("lock", "beginning", "graphs", "graph_settings", "converted_text"),
    *("index", "ingest", "graph_tables", "alerts", "kept_training"),
}
"""Schemas of files that a run like this does not write, or removes; `alerts` is of a Variable of Airflow."""


def test_every_document_is_what_its_schema_says(source: Store, tmp_path: Path) -> None:
    out = open_store(str(tmp_path / "out"))
    run_job(CONFIG, source, out)
    for key, schema in SCHEMAS.items():
        check_document(out.read_json(key), schema, where=key)
    described = set(SCHEMAS.values())
    written = {entry.key for entry in out.list() if entry.key.endswith(".json")}
    alike = {key for key in written if key.startswith(("records/", "partitions/part"))}
    assert written - alike == set(SCHEMAS) - alike
    assert described | ELSEWHERE == {
        path.name.removesuffix(".schema.json") for path in shipped_folder("schemas").glob("*.schema.json")
    }
    for path in shipped_folder("schemas").glob("*.schema.json"):
        assert json.loads(path.read_text())["title"]


@pytest.mark.parametrize("after", ["validate", "partition", "convert-part0", "convert-config"])
def test_an_input_that_changes_meanwhile_is_not_published(after: str, source: Store, tmp_path: Path) -> None:
    """And nothing of it stays, whether the old file comes back, with its old time, or not."""
    file = next((tmp_path / "graph" / "node_data").rglob("*.npy"))
    old, times = file.read_bytes(), (file.stat().st_atime_ns, file.stat().st_mtime_ns)
    new = old[:-8] + bytes(8)
    out = open_store(str(tmp_path / "out"))

    def change(result: StageResult) -> None:
        if result.task == after:
            file.write_bytes(new)

    with pytest.raises(InvalidInputError, match="has changed while"):
        run_job(CONFIG, source, out, report=change)
    assert not out.exists(layout.MANIFEST)
    for data, name in ((old, "old"), (new, "new")):
        file.write_bytes(data)
        if data == old:
            os.utime(file, ns=times)
        fresh = open_store(str(tmp_path / name))
        run_job(CONFIG, source, out)
        run_job(CONFIG, source, fresh)
        assert content(out) == content(fresh)


def test_another_engine_leaves_no_file_of_a_killed_prepare(source: Store, tmp_path: Path) -> None:
    """The engine ``random`` does not need the prepared graph, which no record and no manifest lists then."""
    out, other = open_store(str(tmp_path / "out")), RunConfig(num_parts=2, engine="random")
    run_job(other, source, out)
    expected = content(out)
    for key in layout.PREPARED:
        out.write_bytes(key, b"a part of it")
    out.delete([layout.MANIFEST, layout.record("partition")])
    run_job(other, source, out)
    assert content(out) == expected


def test_what_dgl_would_load_goes_before_another_partitioning(source: Store, tmp_path: Path) -> None:
    run_job(CONFIG, source, open_store(str(tmp_path / "out")))
    config = f"partitions/{source.read_json(METADATA)['graph_name']}.json"
    assert (tmp_path / "out" / config).exists()

    def stop(result: StageResult) -> None:
        if result.task == "convert-plan":
            raise Killed

    with pytest.raises(Killed):
        run_job(replace(CONFIG, num_parts=2), source, open_store(str(tmp_path / "out")), report=stop)
    assert not (tmp_path / "out" / config).exists()
