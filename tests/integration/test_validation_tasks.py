"""Validation in several tasks: the same bytes and messages as in one, for any graph and number of tasks."""

from __future__ import annotations

import json
import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from benchmarks.s3_jobs import RequestCounter
from partition_ops.artifacts import layout
from partition_ops.artifacts.stage import find_stage
from partition_ops.chunked import pair_buckets
from partition_ops.chunked.duplicate_search import PairGroups, find_overlaps
from partition_ops.chunked.feature_reader import ChunkLayout
from partition_ops.chunked.metadata import METADATA, load_metadata
from partition_ops.chunked.pair_buckets import PairReader, PairWriter
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.one_stage import run_task
from partition_ops.stages.validate.cost import work_seconds
from partition_ops.stages.validate.edge_scan import EdgeScan
from partition_ops.stages.validate.file_scan import FileFindings
from partition_ops.stages.validate.graph_facts import FeatureFile
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.spread import INDEX, Spread, load_findings, save_findings
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import LocalStore
from tests.defects import with_defects
from tests.dying_store import DyingStore, Killed
from tests.graphs import SHAPES, Edges, SmallGraph, library
from tests.strategies import graphs
from tests.temporary import temporary_folder
from tests.unit.stages.validate.test_validate_catalogue import CASES
from tests.uploads import upload_folder

BAD_ROWS = (b"x 1\n", b"1\n", b"99 0\n", b"-1,0\n", b"0,\n", b"1 2 3\n", b"\n")
TASKS = (1, 2, 3, 4)
NO_SHRINKING = [Phase.explicit, Phase.generate]  # an example that depends on threads shrinks for minutes
ACTIONS = ("fail", "warn", "drop", "exclude")
Outcome = tuple[dict[str, bytes], list[str] | None, Any]


def outcome(source: Store, folder: Path, **options: Any) -> Outcome:
    """Return all that a call leaves but its record, the lines of its message, and its counters."""
    destination = LocalStore(folder)
    lines, counters = None, None
    try:
        counters = validate_graph(ValidateConfig(**options), source, destination).counters
    except InvalidInputError as error:
        lines = [line.replace(str(folder), "OUT") for line in error.lines()]
    record = layout.record("validate")
    files = {entry.key: destination.read_bytes(entry.key) for entry in destination.list()}
    assert (record in files) == (lines is None)
    return {key: data for key, data in files.items() if key != record}, lines, counters


def assert_same(source: Store, scratch: Path, **options: Any) -> Outcome:
    """Check that every number of tasks has the same outcome, and return it."""
    expected = outcome(source, scratch / "1", **options)
    for tasks in TASKS[1:]:
        found = outcome(source, scratch / str(tasks), **options, validation_tasks=tasks)
        assert found == expected, tasks
    return expected


def damaged(folder: Path, where: st.DataObject) -> None:
    """Put a bad row into one of the CSV files of edges, or a bad ID into a Parquet file, or lose a file."""
    files = sorted(path for path in (folder / "edges").rglob("*") if path.is_file())
    for path in where.draw(st.lists(st.sampled_from(files), max_size=3)) if files else ():
        if not path.exists():
            continue
        kind = where.draw(st.sampled_from(("row", "row", "cut", "gone")))
        if kind == "gone":
            path.unlink()
        elif kind == "cut":
            path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
        elif path.suffix != ".parquet":
            rows = path.read_bytes().splitlines(keepends=True)
            bad = where.draw(st.sampled_from(BAD_ROWS))
            place = where.draw(st.integers(0, len(rows)))
            path.write_bytes(b"".join([*rows[:place], bad, *rows[place:]]))


@settings(max_examples=60, derandomize=True, deadline=None, phases=NO_SHRINKING)
@given(graphs(), st.data(), st.sampled_from(ACTIONS))
def test_any_graph_has_the_same_outcome(graph: SmallGraph, where: st.DataObject, action: str) -> None:
    with temporary_folder() as scratch:
        source = graph.write(Path(scratch) / "in")
        damaged(source, where)
        assert_same(LocalStore(source), Path(scratch), on_defect=action)


@pytest.mark.parametrize("name", SHAPES)
def test_graphs_of_odd_shapes(name: str, tmp_path: Path) -> None:
    assert_same(LocalStore(SHAPES[name].write(tmp_path / "in")), tmp_path, on_defect="drop")


@pytest.mark.parametrize("name", CASES)
def test_every_finding_of_the_catalogue(name: str, tmp_path: Path) -> None:
    case = CASES[name]
    folder = case.graph().write(tmp_path / "in")
    case.change(folder)
    files, _, _ = assert_same(LocalStore(folder), tmp_path, on_defect=case.on_defect)
    assert case.check.encode() in files[layout.VALIDATION_REPORT]


def test_many_segments_and_buckets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.chunked.pair_buckets.SEGMENT_EDGES", 50)
    monkeypatch.setattr("partition_ops.stages.validate.cost.BUCKET_EDGES", 20)
    source = LocalStore(with_defects(library(papers=200)).write(tmp_path / "in"))
    files, _, counters = assert_same(source, tmp_path, on_defect="drop", memory=1)
    assert counters["edges_dropped"] > 0
    assert not [key for key in files if key.startswith(("scratch/", "records/"))]


def pairs_reader(folder: Path, places: list[int], src: list[int]) -> PairReader:
    """Return a reader of the edges from some nodes to the next ones, of one type, in one file."""
    metadata = load_metadata(LocalStore(SHAPES["isolated nodes"].write(folder / "in")))
    path, ends = folder / "pairs", np.array(src)
    with path.open("wb") as stream, (folder / "collected").open("w+b") as collected:
        writer = PairWriter(PairGroups(metadata), [collected], 1)
        writer.add(0, np.array(places), ends, ends + 1)
        index = writer.finish()
        writer.copy(0, stream)
    return PairReader(0, 1, [(index, path)])


def test_rows_far_apart_are_in_segments_of_their_own(tmp_path: Path) -> None:
    places = [0, 1, 1 << 33, 1 << 35]
    reader = pairs_reader(tmp_path, places, [1, 2, 1, 3])
    assert find_overlaps(reader.read(0, [0])).duplicates[0].places.tolist() == [1 << 33]
    (keys,) = reader.read(0, [0])[0]
    assert keys.place(np.arange(4)).tolist() == places
    assert keys.place(np.array([3, 1])).tolist() == [1 << 35, 1]


@pytest.mark.parametrize(("src", "times"), [([1, 2, 3, 4], 0), ([1, 2, 1, 4], 1)])
def test_places_are_read_only_where_keys_are_equal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, src: list[int], times: int
) -> None:
    read: list[object] = []

    def places(pieces: object, rows: object) -> object:
        read.append(pieces)
        return found_places(pieces, rows)  # type: ignore[arg-type]

    found_places = pair_buckets._places
    monkeypatch.setattr(pair_buckets, "_places", places)
    overlaps = find_overlaps(pairs_reader(tmp_path, [5, 6, 7, 8], src).read(0, [0]))
    assert [*overlaps.duplicates] == [0] * times
    assert len(read) == times


def test_a_file_of_pairs_that_is_too_short(tmp_path: Path) -> None:
    reader = pairs_reader(tmp_path, [0, 1], [1, 2])
    os.truncate(tmp_path / "pairs", 10)
    with pytest.raises(EOFError, match="ends at byte 10"):
        reader.read(0, [0])


@pytest.mark.parametrize("dtype", [[("x", "<f4"), ("y", ">i2", (3,))], "<U7", ">f8", "datetime64[ms]", "?"])
def test_layouts_of_features_keep_their_dtype(dtype: Any) -> None:
    made = ChunkLayout(np.dtype(dtype), (2, 3), 5)
    found = FileFindings(features={"a/x": [FeatureFile(1, "x.npy", made)]})
    document, numbers = save_findings(found)
    (file,) = load_findings([(json.loads(json.dumps(document)), numbers)]).features["a/x"]
    assert file.layout == made
    assert str(file.layout) == str(made)


def test_no_file_is_read_by_two_tasks(tmp_path: Path) -> None:
    graph = library(papers=80)
    edges = {name: chunks_of(ends, 3) for name, ends in graph.edges.items()}
    folder = replace(graph, edges=edges).write(tmp_path / "in")
    read: list[list[str]] = []
    for group in range(3):
        source = ReadStore(folder)
        spread = Spread(ValidateConfig(validation_tasks=3), source, LocalStore(tmp_path / "out"))
        spread.scatter(group)
        read.append(source.read)
    everything = sorted(key for keys in read for key in {*keys})
    assert everything == sorted({METADATA, *load_metadata(LocalStore(folder)).files()})
    assert all(any("edges" in key for key in keys) for keys in read)


class ReadStore(LocalStore):
    """Remembers which files were read."""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.read: list[str] = []

    def local_copy(self, key: str) -> Path:
        self.read.append(key)
        return super().local_copy(key)


def chunks_of(edges: Edges, count: int) -> Edges:
    """Return edges in so many chunks."""
    sizes = tuple(len(part) for part in np.array_split(edges.src, count))
    return replace(edges, layout=replace(edges.layout, chunks=sizes))


def run_alone(config: ValidateConfig, source: Store, destination: Store) -> None:
    """Do the tasks as workers do, each with one task."""
    stage = find_stage("validate")
    for name in (layout.VALIDATE_SCATTER, layout.VALIDATE_GATHER):
        for number in reversed(range(config.validation_tasks)):
            (result,) = run_task(stage, name, config, source, destination, numbers=[number])
            assert result.task == f"{name}{number}"


@pytest.mark.parametrize("on_defect", ["fail", "drop"])
def test_workers_share_the_tasks_on_s3(
    on_defect: str, tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    folder = with_defects(library(papers=60)).write(tmp_path / "in")
    expected = outcome(LocalStore(folder), tmp_path / "1", on_defect=on_defect)
    config = ValidateConfig(validation_tasks=3, on_defect=on_defect)
    with open_store(f"{s3_root}/in", s3_settings) as source:
        upload_folder(folder, source, last=METADATA)
        with open_store(f"{s3_root}/out", s3_settings) as destination:
            run_alone(config, source, destination)
        with open_store(f"{s3_root}/out", s3_settings) as destination:
            if on_defect == "fail":
                with pytest.raises(InvalidInputError) as error:
                    validate_graph(config, source, destination)
                lines = [line.replace(f"{s3_root}/out", "OUT") for line in error.value.lines()]
                assert lines == expected[1]
            else:
                assert validate_graph(config, source, destination).counters == expected[2]
            found = {entry.key: destination.read_bytes(entry.key) for entry in destination.list()}
            found.pop(layout.record("validate"), None)
            assert found == expected[0]


def test_what_a_range_needs_is_fetched_side_by_side(
    tmp_path: Path, s3_root: str, s3_settings: StorageSettings, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, source = ValidateConfig(validation_tasks=3), LocalStore(library().write(tmp_path / "in"))
    with open_store(s3_root, s3_settings) as out:
        for group in range(3):
            Spread(config, source, out).scatter(group)
    blocks = {f"group{group}/" for group in range(3)}
    with RequestCounter().counting() as seen, open_store(s3_root, s3_settings) as out:
        # nothing is fetched when it is asked for, only ahead
        monkeypatch.setattr("partition_ops.artifacts.spread_tasks.checked_copies", lambda *args: [])
        Spread(config, source, out).scattered(0, INDEX)
        end = time.monotonic() + 60
        while {name for name in blocks if any(name in key for _, key in [*seen])} != blocks:
            assert time.monotonic() < end, seen
            time.sleep(0.05)


def test_a_worker_that_dies_anywhere_and_comes_again_changes_nothing(tmp_path: Path) -> None:
    source = LocalStore(with_defects(library(papers=40)).write(tmp_path / "in"))
    expected = outcome(source, tmp_path / "1", on_defect="drop")
    config = ValidateConfig(validation_tasks=2, on_defect="drop")
    deaths = 0
    for lives in range(100):
        folder = tmp_path / f"out{lives}"
        try:
            validate_graph(config, source, DyingStore(folder, lives))
        except Killed:
            deaths += 1
            assert not LocalStore(folder).exists(layout.record("validate"))
        else:
            break
        assert outcome(source, folder, on_defect="drop", validation_tasks=2) == expected
    assert deaths > 20  # in both kinds of tasks, and in the last


def test_a_repeated_task_writes_the_same_bytes_whatever_its_threads_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partition_ops.chunked.pair_buckets.SEGMENT_EDGES", 30)
    monkeypatch.setattr("partition_ops.stages.validate.edge_scan.SCANNED_ROWS", 10)
    monkeypatch.setattr("partition_ops.system.parallel.cores", lambda: 4)
    graph = with_defects(library(papers=200))
    edges = {name: chunks_of(ends, 6) for name, ends in graph.edges.items()}
    source = LocalStore(replace(graph, edges=edges).write(tmp_path / "in"))
    scan, attempts, dice = EdgeScan.scan, [], np.random.default_rng(0)

    def slowly(self: EdgeScan, chunk: Any, advance: Any) -> Any:
        time.sleep(dice.random() / 50)  # so that files end in another order each time
        return scan(self, chunk, advance)

    monkeypatch.setattr(EdgeScan, "scan", slowly)
    for attempt in range(6):
        out = LocalStore(tmp_path / f"out{attempt}")
        run_alone(ValidateConfig(validation_tasks=2), source, out)
        keys = [entry.key for entry in out.list(f"{layout.SCRATCH}/")]
        attempts.append({key: out.read_bytes(key) for key in keys})
    assert len(attempts[0]) == 2 * (2 + 4) + 2 * 2
    for other in attempts[1:]:
        assert [key for key in attempts[0] if attempts[0][key] != other[key]] == []


def test_tasks_that_are_done_are_not_done_again(tmp_path: Path) -> None:
    source, out = LocalStore(library(papers=40).write(tmp_path / "in")), LocalStore(tmp_path / "out")
    config = ValidateConfig(validation_tasks=2)
    run_alone(config, source, out)
    spread = Spread(config, source, out)
    assert all(done.skipped for n in range(2) for done in (spread.scatter(n), spread.gather(n)))
    assert not validate_graph(config, source, out).skipped
    assert validate_graph(config, source, out).skipped
    assert validate_graph(ValidateConfig(), source, out).skipped  # the result is that of one task


def test_another_number_of_tasks_starts_again(tmp_path: Path) -> None:
    source, out = LocalStore(library(papers=40).write(tmp_path / "in")), tmp_path / "out"
    run_alone(ValidateConfig(validation_tasks=4), source, LocalStore(out))
    assert outcome(source, out, validation_tasks=3) == outcome(source, tmp_path / "1")


def test_a_range_of_a_changed_input_is_not_gathered(tmp_path: Path) -> None:
    folder, out = library(papers=40).write(tmp_path / "in"), LocalStore(tmp_path / "out")
    config = ValidateConfig(validation_tasks=2)
    for group in range(2):
        Spread(config, LocalStore(folder), out).scatter(group)
    file = next(path for path in (folder / "edges").rglob("*") if path.is_file())
    file.write_bytes(file.read_bytes())
    with pytest.raises(InvalidInputError, match=r"'validate-scatter0' of .* is out of date"):
        Spread(config, LocalStore(folder), out).gather(0)


@pytest.mark.parametrize("name", [layout.VALIDATE_SCATTER, layout.VALIDATE_GATHER])
def test_there_are_only_so_many_tasks(name: str, tmp_path: Path) -> None:
    source = LocalStore(library(papers=40).write(tmp_path / "in"))
    config = ValidateConfig(validation_tasks=2)
    with pytest.raises(UsageError, match="There is no task 2 of validate"):
        run_task(find_stage("validate"), name, config, source, LocalStore(tmp_path / "out"), numbers=[2])


def test_memory_between_the_tasks_falls_with_their_number(tmp_path: Path) -> None:
    source = LocalStore(library(papers=400).write(tmp_path / "in"))
    largest = {}
    for tasks in (2, 8):
        out = LocalStore(tmp_path / f"{tasks}")
        run_alone(ValidateConfig(validation_tasks=tasks), source, out)
        keys = [
            layout.spread_block(layout.VALIDATE_SCRATCH, g, n) for g in range(tasks) for n in range(tasks)
        ]
        sizes = {key: found.size for key, found in zip(keys, out.stat_all(keys), strict=True) if found}
        ranges = [
            sum(sizes[layout.spread_block(layout.VALIDATE_SCRATCH, g, n)] for g in range(tasks))
            for n in range(tasks)
        ]
        largest[tasks] = max(ranges)
    assert largest[8] < 0.5 * largest[2]


@pytest.mark.parametrize(
    ("damaged", "task"),
    [
        (layout.spread_block(layout.VALIDATE_SCRATCH, 1, 0), "validate-gather0"),
        (layout.spread_group(layout.VALIDATE_SCRATCH, 1, "index.npy"), "validate-gather0"),
        (layout.spread_group(layout.VALIDATE_SCRATCH, 1, "forest.npy"), "validate"),
        (layout.spread_group(layout.VALIDATE_SCRATCH, 1, "findings.json"), "validate"),
        (layout.spread_range(layout.VALIDATE_SCRATCH, 1, "positions.npy"), "validate"),
    ],
)
def test_a_damaged_object_is_not_used_and_its_task_is_done_again(
    damaged: str, task: str, tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    folder = with_defects(library(papers=60)).write(tmp_path / "in")
    expected = outcome(LocalStore(folder), tmp_path / "1", on_defect="drop")
    config, source = ValidateConfig(validation_tasks=2, on_defect="drop"), LocalStore(folder)
    writer = layout.VALIDATE_GATHER if "group" not in damaged else layout.VALIDATE_SCATTER
    with open_store(f"{s3_root}/out", s3_settings) as out:  # where a status looks at sizes only
        spread = Spread(config, source, out)
        for group in range(2):
            spread.scatter(group)
        if task == "validate":
            for number in range(2):
                spread.gather(number)
        content = bytearray(out.read_bytes(damaged))
        content[len(content) // 2] ^= 1
        out.write_bytes(damaged, bytes(content))
    with open_store(f"{s3_root}/out", s3_settings) as out:
        spread = Spread(config, source, out)
        with pytest.raises(InvalidInputError, match=rf"{damaged} is damaged.*'{writer}1'"):
            spread.gather(0) if task != "validate" else validate_graph(config, source, out)
        assert not out.exists(layout.record(f"{writer}1"))
    with open_store(f"{s3_root}/out", s3_settings) as out:
        assert validate_graph(config, source, out).counters == expected[2]
        assert out.read_bytes(layout.VALIDATION_REPORT) == expected[0][layout.VALIDATION_REPORT]


def test_tasks_of_a_small_graph_share_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = LocalStore(library(papers=40).write(tmp_path / "in")), LocalStore(tmp_path / "out")
    spread = Spread(ValidateConfig(validation_tasks=5), source, out)
    assert spread.shares == [[0, 1, 2, 3, 4]]
    monkeypatch.setattr("partition_ops.artifacts.cost.LEAST_SECONDS", 1e-9)
    assert spread.shares == [[0], [1], [2], [3], [4]]
    work = work_seconds(sum(spread.metadata.num_edges), sum(entry.size for entry in spread.inputs))
    monkeypatch.setattr("partition_ops.artifacts.cost.LEAST_SECONDS", work / 2.5)
    assert spread.shares == [[0, 1], [2, 3, 4]]
