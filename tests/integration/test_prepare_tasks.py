"""``prepare`` in several tasks: the same bytes as in one, for any graph and number of tasks."""

from __future__ import annotations

import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.stage import find_stage
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.one_stage import run_task
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.stages.prepare.spread import Spread
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import LocalStore
from tests.defects import with_defects
from tests.dying_store import DyingStore, Killed
from tests.graphs import SHAPES, Edges, SmallGraph, library
from tests.integration.test_validation_tasks import ReadStore, chunks_of
from tests.strategies import graphs
from tests.temporary import temporary_folder
from tests.uploads import upload_folder

TASKS = (2, 3, 7)
PIECES = (layout.PREPARE_SCATTER, layout.PREPARE_GATHER)


def outcome(source: Store, destination: Store, **options: Any) -> tuple[dict[str, bytes], Any]:
    """Return the files of the stage, and its counters; nothing else is left."""
    counters = prepare_graph(PrepareConfig(**options), source, destination).counters
    left = [entry.key for entry in destination.list()]
    assert not [key for key in left if key.startswith((f"{layout.SCRATCH}/", "records/prepare-"))]
    return {key: destination.read_bytes(key) for key in left if key.startswith("prepare/")}, counters


def assert_same(folder: Path, scratch: Path, action: str = "drop") -> None:
    """Check that every number of tasks leaves the same bytes, records included but for the time."""
    source, found = LocalStore(folder), []
    validate_graph(ValidateConfig(on_defect=action), source, LocalStore(scratch / "validated"))
    for tasks in (1, *TASKS):
        shutil.copytree(scratch / "validated", scratch / str(tasks))
        destination = LocalStore(scratch / str(tasks))
        found.append(
            (*outcome(source, destination, prepare_tasks=tasks), read_record(destination, "prepare"))
        )
        for name in ("seconds", "peak_memory_bytes"):
            del found[-1][-1][name]
    assert len(found[0][0]) == 3
    for tasks, other in zip(TASKS, found[1:], strict=True):
        assert other == found[0], tasks


@settings(max_examples=15, derandomize=True, deadline=None, phases=[Phase.explicit, Phase.generate])
@given(graphs(), st.sampled_from(("warn", "drop", "exclude")))
def test_any_graph_has_the_same_bytes(graph: SmallGraph, action: str) -> None:
    with temporary_folder() as scratch:
        assert_same(graph.write(Path(scratch) / "in"), Path(scratch), action)


@pytest.mark.parametrize("name", SHAPES)
def test_graphs_of_odd_shapes(name: str, tmp_path: Path) -> None:
    assert_same(SHAPES[name].write(tmp_path / "in"), tmp_path)


@pytest.mark.parametrize("rows", [3, 1 << 20])
def test_many_blocks_and_wide_ranges(rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.chunked.edges.BLOCK_ROWS", rows)
    if rows > 3:  # rows of 32 bits, and neighbours of 32 bits in the file
        monkeypatch.setattr("partition_ops.stages.prepare.preparation.range_shift", lambda nodes: 17)
        monkeypatch.setattr("partition_ops.artifacts.parhip.MOST_WIDE_EDGES", 10)
    assert_same(with_defects(library(papers=300)).write(tmp_path / "in"), tmp_path)


def run_alone(config: PrepareConfig, source: Store, destination: Store) -> None:
    """Do the tasks as workers do, each with one task."""
    for name in PIECES:
        for number in reversed(range(config.prepare_tasks)):
            (result,) = run_task(find_stage("prepare"), name, config, source, destination, numbers=[number])
            assert result.task == f"{name}{number}"


def test_workers_share_the_tasks_on_s3(tmp_path: Path, s3_root: str, s3_settings: StorageSettings) -> None:
    folder = with_defects(library(papers=60)).write(tmp_path / "in")
    local, config = LocalStore(tmp_path / "out"), PrepareConfig(prepare_tasks=3)
    validate_graph(ValidateConfig(on_defect="drop"), LocalStore(folder), local)
    with open_store(s3_root, s3_settings) as root:
        upload_folder(folder, root.child("in"), last=METADATA)
        upload_folder(tmp_path / "out", root.child("out"))
    expected = outcome(LocalStore(folder), local)
    with open_store(s3_root, s3_settings) as root:
        run_alone(config, root.child("in"), root.child("out"))
    with open_store(s3_root, s3_settings) as root:
        assert outcome(root.child("in"), root.child("out"), prepare_tasks=3) == expected


def test_no_edge_file_is_read_by_two_tasks(tmp_path: Path) -> None:
    graph = library(papers=80)
    edges = {name: chunks_of(ends, 3) for name, ends in graph.edges.items()}
    folder, read = replace(graph, edges=edges).write(tmp_path / "in"), []
    for group in range(3):
        source = ReadStore(folder)
        Spread(PrepareConfig(prepare_tasks=3), source, LocalStore(tmp_path / "out")).scatter(group)
        read.append({key for key in source.read if key != METADATA})
    assert all(read) and sum(map(len, read)) == len(set().union(*read)) == sum(3 for _ in edges)


def test_a_worker_that_dies_anywhere_and_comes_again_changes_nothing(tmp_path: Path) -> None:
    source = LocalStore(with_defects(library(papers=40)).write(tmp_path / "in"))
    expected = outcome(source, LocalStore(tmp_path / "1"))
    deaths = 0
    for lives in range(100):
        folder = tmp_path / f"out{lives}"
        try:
            prepare_graph(PrepareConfig(prepare_tasks=2), source, DyingStore(folder, lives))
        except Killed:
            deaths += 1
            assert not LocalStore(folder).exists(layout.record("prepare"))
        else:
            break
        assert outcome(source, LocalStore(folder), prepare_tasks=2) == expected
    assert deaths > 15  # in both kinds of tasks, and in the last


def test_a_repeated_task_writes_the_same_bytes_whatever_its_threads_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("partition_ops.chunked.edges.BLOCK_ROWS", 20)
    monkeypatch.setattr("partition_ops.system.parallel.cores", lambda: 4)
    graph = with_defects(library(papers=200))
    edges = {name: chunks_of(ends, 6) for name, ends in graph.edges.items()}
    source = LocalStore(replace(graph, edges=edges).write(tmp_path / "in"))
    blocks, attempts, dice = EdgeReader.blocks, [], np.random.default_rng(0)

    def slowly(self: EdgeReader, chunk: Any) -> Any:
        for block in blocks(self, chunk):
            time.sleep(dice.random() / 500)  # so that blocks come in another order each time
            yield block

    monkeypatch.setattr(EdgeReader, "blocks", slowly)
    for attempt in range(4):
        out = LocalStore(tmp_path / f"out{attempt}")
        run_alone(PrepareConfig(prepare_tasks=2), source, out)
        keys = [entry.key for entry in out.list(f"{layout.SCRATCH}/")]
        attempts.append({key: out.read_bytes(key) for key in keys})
    assert len(attempts[0]) == 2 * (2 + 1) + 2 * 4
    for other in attempts[1:]:
        assert other == attempts[0]


def test_tasks_that_are_done_are_not_done_again(tmp_path: Path) -> None:
    source, out = LocalStore(library(papers=40).write(tmp_path / "in")), LocalStore(tmp_path / "out")
    config = PrepareConfig(prepare_tasks=2)
    run_alone(config, source, out)
    spread = Spread(config, source, out)
    assert all(done.skipped for n in range(2) for done in (spread.scatter(n), spread.gather(n)))
    assert not prepare_graph(config, source, out).skipped
    assert prepare_graph(config, source, out).skipped
    assert prepare_graph(PrepareConfig(), source, out).skipped  # the result is that of one task
    assert not out.exists(layout.record(f"{layout.PREPARE_GATHER}0"))


@pytest.mark.parametrize(
    ("damaged", "task"),
    [
        (layout.spread_block(layout.PREPARE_SCRATCH, 1, 0), layout.PREPARE_SCATTER),
        (layout.spread_range(layout.PREPARE_SCRATCH, 1, "neighbours.bin"), layout.PREPARE_GATHER),
        (layout.spread_range(layout.PREPARE_SCRATCH, 1, "in_degrees.npy"), layout.PREPARE_GATHER),
    ],
)
def test_a_damaged_object_is_not_used_and_its_task_is_done_again(
    damaged: str, task: str, tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    source = LocalStore(library(papers=60).write(tmp_path / "in"))
    expected, config = outcome(source, LocalStore(tmp_path / "1")), PrepareConfig(prepare_tasks=2)
    with open_store(f"{s3_root}/out", s3_settings) as out:  # where a status looks at sizes only
        spread = Spread(config, source, out)
        for group in range(2):
            spread.scatter(group)
        if task == layout.PREPARE_GATHER:
            for number in range(2):
                spread.gather(number)
        content = bytearray(out.read_bytes(damaged))
        content[-1] ^= 1
        out.write_bytes(damaged, bytes(content))
    with open_store(f"{s3_root}/out", s3_settings) as out:
        with pytest.raises(InvalidInputError, match=rf"{damaged} is damaged.*'{task}1'"):
            prepare_graph(config, source, out)
        assert not out.exists(layout.record(f"{task}1"))
    with open_store(f"{s3_root}/out", s3_settings) as out:
        assert outcome(source, out, prepare_tasks=2) == expected


def test_other_dropped_edges_split_the_graph_again(tmp_path: Path) -> None:
    source, out = (
        LocalStore(with_defects(library(papers=60)).write(tmp_path / "in")),
        LocalStore(tmp_path / "o"),
    )
    config = PrepareConfig(prepare_tasks=2)
    validate_graph(ValidateConfig(on_defect="drop"), source, out)
    run_alone(config, source, out)
    validate_graph(ValidateConfig(on_defect="warn"), source, out)
    with pytest.raises(InvalidInputError, match=r"'prepare-scatter\d' of .* is out of date"):
        Spread(config, source, out).gather(0)
    assert outcome(source, out, prepare_tasks=2) == outcome(source, LocalStore(tmp_path / "1"))


def test_a_whole_job_has_the_same_bytes(tmp_path: Path) -> None:
    source = LocalStore(library(papers=300).write(tmp_path / "in"))
    found = []
    for tasks in (1, 3):
        out = LocalStore(tmp_path / f"{tasks}")
        config = RunConfig(
            num_parts=2, engine="metis", on_defect="warn", data_docs=False, prepare_tasks=tasks
        )
        run_job(config, source, out)
        found.append(
            {e.key: out.read_bytes(e.key) for e in out.list() if e.key.endswith((".dgl", ".parhip"))}
        )
    assert found[0] == found[1] and len(found[0]) == 11


def test_wrong_use_is_rejected(tmp_path: Path) -> None:
    source = LocalStore(library(papers=40).write(tmp_path / "in"))
    with pytest.raises(UsageError, match="There is no task 2 of prepare"):
        names = find_stage("prepare"), layout.PREPARE_GATHER
        run_task(*names, PrepareConfig(prepare_tasks=2), source, LocalStore(tmp_path / "out"), numbers=[2])
    with pytest.raises(UsageError, match="--prepare-tasks does not split the text for ParMETIS"):
        PrepareConfig(prepare_tasks=2, format="parmetis")


def test_tasks_of_a_small_graph_share_a_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, out = LocalStore(library(papers=40).write(tmp_path / "in")), LocalStore(tmp_path / "out")
    spread = Spread(PrepareConfig(prepare_tasks=4), source, out)
    assert spread.shares == [[0, 1, 2, 3]]
    monkeypatch.setattr("partition_ops.artifacts.cost.LEAST_SECONDS", 1e-9)
    assert spread.shares == [[0], [1], [2], [3]]


def test_tasks_have_about_as_many_half_edges_each_if_types_differ(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    ends = Edges(random.integers(0, 600, 30_000).tolist(), random.integers(0, 600, 30_000).tolist())
    few = Edges(list(range(100)), list(range(100)))
    graph = SmallGraph({"few": 3000, "many": 600}, {"few:to:many": few, "many:to:many": ends})
    source, out = LocalStore(graph.write(tmp_path / "in")), LocalStore(tmp_path / "out")
    spread = Spread(PrepareConfig(prepare_tasks=4), source, out)
    for group in range(4):
        spread.scatter(group)
    counts = [spread.gather(number).counters["half_edges"] for number in range(4)]
    assert max(counts) < 1.25 * sum(counts) / 4  # with 900 nodes each, one would have nearly all
