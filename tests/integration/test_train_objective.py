"""The objective ``train``, the limit of in-edges, and masks that are balanced without being asked for."""

from __future__ import annotations

import gc
import threading
import weakref
from contextlib import closing
from dataclasses import replace
from errno import ENOSPC
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.artifacts.records import read_record
from partition_ops.artifacts.stage import Stage, find_stage
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import _Job, run_job
from partition_ops.stages.partition import partition, training
from partition_ops.stages.partition.engine import find_engine, objective_of
from partition_ops.stages.partition.engines import auto
from partition_ops.stages.partition.incremental import repartition
from partition_ops.stages.partition.multilevel import tries
from partition_ops.stages.partition.multilevel.descend import cost_of, descend
from partition_ops.stages.partition.multilevel.graph import Graph, constraints_of, cut_weight
from partition_ops.stages.partition.multilevel.tries import Tries
from partition_ops.stages.partition.multilevel.tuning import DEFAULT, Tuning
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.partition.problem import Problem, most_in_edges
from partition_ops.stages.partition.training import with_traffic
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.stages.quality import training as quality_training
from partition_ops.stages.quality.training import training_report
from partition_ops.storage import open_store
from partition_ops.system.progress import NoProgress
from partition_ops.traffic import sampled_edges
from partition_ops.traffic.kept_half_edges import KeptHalfEdges
from partition_ops.traffic.model import Sampling, TrafficModel
from partition_ops.traffic.options import SamplingOptions
from partition_ops.traffic.preferences import NOWHERE, preferences
from partition_ops.traffic.report import read_kept_figures
from partition_ops.traffic.sampled_edges import collect_edges, on_disk
from tests.graphs import Edges, SmallGraph, Values

NODES, PARTS = 2000, 4
SMALL_BATCHES = SamplingOptions(batch_size=64)


def few_seeds(*masks: str, share: float = 0.05) -> SmallGraph:
    """A graph of one type in which each node has neighbours near it and far away; few nodes are trained."""
    random = np.random.default_rng(0)
    src = np.repeat(np.arange(NODES), 8)
    near = (src + random.integers(1, 40, len(src))) % NODES
    dst = np.where(random.random(len(src)) < 0.9, near, random.integers(0, NODES, len(src)))
    values = [Values("n", name, random.random(NODES) < share) for name in masks]
    return SmallGraph({"n": NODES}, {"n:to:n": Edges(src[src != dst], dst[src != dst])}, values)


def hubs() -> SmallGraph:
    """Two communities of equal size; one has nearly all edges."""
    random = np.random.default_rng(0)
    half = NODES // 2
    dense = random.integers(0, half, (2, 20 * half))
    sparse = random.integers(half, NODES, (2, 2 * half))
    src, dst = np.concatenate([dense, sparse], axis=1)
    return SmallGraph({"n": NODES}, {"n:to:n": Edges(src[src != dst], dst[src != dst])})


def problem(graph: SmallGraph, folder: Path, **options: object) -> Problem:
    source, run = open_store(str(graph.write(folder / "graph"))), open_store(str(folder / "run"))
    prepare_graph(PrepareConfig(), source, run)
    config = PartitionConfig(num_parts=PARTS, **options)  # type: ignore[arg-type]
    return Problem(config, load_metadata(source), run, source)


def test_training_reads_fewer_rows_than_after_the_smallest_cut(tmp_path: Path) -> None:
    task = with_traffic(problem(few_seeds("train_mask"), tmp_path, objective="train", sampling=SMALL_BATCHES))
    assert task.traffic is not None
    cut = problem(few_seeds("train_mask"), tmp_path / "cut", objective="cut")
    found, other = (find_engine("auto").partition(one) for one in (task, cut))
    assert constraints_of(task).kept_by(found)
    rows, others = (task.traffic.about_remote_rows(parts, PARTS) for parts in (found, other))
    assert rows.max() < 0.9 * others.max()
    np.testing.assert_array_equal(found, find_engine("auto").partition(task))  # the same on each call


def test_edges_that_are_set_aside_give_the_same_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = []
    for name, most in (("memory", training.MANY_BYTES), ("disk", 0)):
        monkeypatch.setattr(training, "MANY_BYTES", most)
        one = problem(few_seeds("train_mask"), tmp_path / name, objective="train", sampling=SMALL_BATCHES)
        assert one.source is not None
        partition_nodes(one.config, one.source, one.artifacts)
        folder = tmp_path / name / "run" / layout.ASSIGNMENT
        found.append({path.name: path.read_bytes() for path in folder.iterdir()})
    assert found[0] == found[1]


def test_edges_that_are_set_aside_are_mapped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(training, "MANY_BYTES", 0)
    task = with_traffic(problem(few_seeds("train_mask"), tmp_path, objective="train", sampling=SMALL_BATCHES))
    assert task.traffic is not None
    before = task.traffic.edges
    with training.set_aside(task.traffic):
        after = task.traffic.edges
        assert isinstance(after.groups, np.memmap)
        for name in ("first", "groups", "group_nodes", "group_sizes", "joined"):
            np.testing.assert_array_equal(getattr(after, name), getattr(before, name))


def test_edges_without_room_on_the_disk_stay_in_memory(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    edges = collect_edges(3, [(0, 3)], 2, [(0, np.array([0, 1]), np.array([1, 2]))])
    found = on_disk(edges, tmp_path / "missing")
    assert found.groups is edges.groups
    assert "stays in memory" in caplog.text


def test_only_the_first_start_of_a_large_graph_ends_early(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen, improve = [], tries.improve

    def watched(*args: Any, tuning: Tuning, **more: Any) -> None:
        seen.append(tuning.pass_settled)
        improve(*args, tuning=tuning, **more)

    monkeypatch.setattr(tries, "improve", watched)
    monkeypatch.setattr(auto, "_is_large", lambda problem: True)
    task = problem(few_seeds("train_mask"), tmp_path, objective="cut")
    find_engine("auto").partition(task)
    assert {*seen} == {DEFAULT.pass_settled, DEFAULT.pass_settled_of_large}


def test_a_problem_with_other_values_keeps_what_it_has_read(tmp_path: Path) -> None:
    task = problem(few_seeds("train_mask"), tmp_path)
    classes, price = task.classes, task.price
    other = task.but(row_weight=2.0)
    assert other.classes is classes
    assert other.price == 2 * price
    other.forget()
    np.testing.assert_array_equal(other.classes, classes)


def test_a_descent_keeps_the_limits_and_costs_no_more(tmp_path: Path) -> None:
    task = with_traffic(problem(few_seeds("train_mask"), tmp_path, objective="train", sampling=SMALL_BATCHES))
    limits, graph = constraints_of(task), Graph.of_input(task.graph)
    parts = find_engine("metis").partition(problem(few_seeds(), tmp_path / "metis", engine="metis"))
    assert task.traffic is not None
    before = cost_of(task.traffic.about_remote_rows(parts, PARTS))
    found = descend(task.traffic, graph, limits, parts, DEFAULT.descent, 20)
    assert cost_of(task.traffic.about_remote_rows(found, PARTS)) < before
    assert (limits.loads(found) <= np.maximum(limits.most, limits.loads(parts))).all()
    np.testing.assert_array_equal(descend(task.traffic, graph, limits, parts, DEFAULT.descent, 0), parts)


@pytest.mark.parametrize("fanout", [-1, 3])
def test_preferences_are_what_one_move_saves(fanout: int) -> None:
    """Exactly for a node that is not trained; roughly for a train node, whose batches are then others."""
    random = np.random.default_rng(1)
    src, dst = random.integers(0, 300, (2, 1200))
    edges = collect_edges(300, [(0, 300)], 1200, [(0, src, dst)])
    train = np.arange(300) % 3 == 0  # 100 train nodes
    parts = np.repeat(np.arange(3, dtype=np.int32), 100)
    model = TrafficModel(edges, train, Sampling((fanout, fanout), 1))
    wanted = preferences(model, parts, np.ones(3))
    before = model.traffic(parts, 3).remote_rows.sum()
    nodes = np.flatnonzero(wanted.targets != NOWHERE)
    saved = np.zeros(len(nodes))
    for number, node in enumerate(nodes.tolist()):
        moved = parts.copy()
        moved[node] = wanted.targets[node]
        saved[number] = before - model.traffic(moved, 3).remote_rows.sum()
    gains, trained = wanted.gains[nodes], train[nodes]
    assert np.count_nonzero(trained) > 20
    assert np.count_nonzero(~trained) > 20
    np.testing.assert_allclose(saved[~trained], gains[~trained], rtol=0.01, atol=0.05)
    assert np.corrcoef(saved[trained], gains[trained])[0, 1] > 0.9


@pytest.mark.parametrize("engine", ["auto", "two-level", "metis"])
def test_a_partition_has_no_more_in_edges_than_allowed(engine: str, tmp_path: Path) -> None:
    def fullest(tolerance: str) -> float:
        folder = tmp_path / tolerance
        task = problem(hubs(), folder, engine=engine, edge_tolerance=tolerance)
        partition_nodes(task.config, open_store(str(folder / "graph")), task.artifacts)
        parts = read_assignment(task.artifacts.child(layout.ASSIGNMENT), task.metadata).parts
        found = np.bincount(parts, weights=task.in_degrees, minlength=PARTS)
        return float(found.max() / found.mean())

    assert fullest("none") > 1.6
    assert fullest("1.2") <= 1.2


def test_heavy_nodes_raise_the_limit_of_in_edges() -> None:
    config = PartitionConfig(num_parts=2)
    degrees = np.array([100, 1, 1, 1, 1], np.int64)
    assert most_in_edges(config, degrees).tolist() == [100, 100]
    assert most_in_edges(config, np.ones(1000, np.int64)).tolist() == [600, 600]
    uneven = PartitionConfig(num_parts=2, target_shares=(3.0, 1.0))
    assert most_in_edges(uneven, np.ones(1000, np.int64)).tolist() == [900, 300]


@pytest.mark.parametrize("text", ["1", "0.5", "many", "nan", "inf", "", "101"])
def test_a_tolerance_of_in_edges_that_is_none(text: str) -> None:
    with pytest.raises(UsageError, match="--edge-tolerance"):
        PartitionConfig(num_parts=2, edge_tolerance=text)


@pytest.mark.parametrize(("value", "limit"), [(1.5, 1.5), (2, 2.0), ("1.5", 1.5), ("none", None)])
def test_a_tolerance_of_in_edges_is_a_number_or_text(value: Any, limit: float | None) -> None:
    assert PartitionConfig(num_parts=2, edge_tolerance=value).most_of_in_edges == limit


def test_the_objective_follows_the_masks(tmp_path: Path) -> None:
    with_mask = load_metadata(open_store(str(few_seeds("train_mask").write(tmp_path / "with"))))
    without = load_metadata(open_store(str(few_seeds("val_mask").write(tmp_path / "without"))))
    assert objective_of(PartitionConfig(num_parts=2), with_mask) == "train"
    assert objective_of(PartitionConfig(num_parts=2), without) == "cut"
    assert objective_of(PartitionConfig(num_parts=2, engine="metis"), with_mask) == "cut"
    assert objective_of(PartitionConfig(num_parts=2, objective="cut"), with_mask) == "cut"
    assert objective_of(PartitionConfig(num_parts=2, objective="train"), without) == "train"


def test_another_engine_does_not_have_the_objective() -> None:
    config = PartitionConfig(num_parts=2, engine="metis", objective="train")
    with pytest.raises(UsageError, match=r"'metis' does not support --objective.*--engine auto"):
        find_engine("metis").check(config)


def test_the_record_names_the_objective_and_the_train_nodes(tmp_path: Path) -> None:
    task = problem(few_seeds("train_mask", "other"), tmp_path)
    partition_nodes(task.config, open_store(str(tmp_path / "graph")), task.artifacts)
    counters = read_record(task.artifacts, "partition")["counters"]
    mask = few_seeds("train_mask").node_values[0].array
    assert counters["objective"] == "train"
    assert counters["train_nodes"] == {"n:train_mask": np.count_nonzero(mask)}


def test_partition_keeps_the_figures_that_quality_would_compute(tmp_path: Path) -> None:
    """They are taken over for the same options and the same assignment only."""
    found = problem(few_seeds("train_mask"), tmp_path, sampling=SMALL_BATCHES)
    source, run = found.source, found.artifacts
    assert source is not None
    partition_nodes(found.config, source, run)
    folder, metadata = run.child(layout.ASSIGNMENT), found.metadata
    assignment = read_assignment(folder, metadata)
    report = partial(training_report, SMALL_BATCHES, source, metadata, run)
    kept = report(1)

    def read(options: dict[str, Any]) -> dict[str, Any] | None:
        return read_kept_figures(options, source, metadata, run, assignment)

    assert kept == report(1, anew=True) == report(2) == read(kept["options"])
    assert report(0) != kept  # without a halo, trainers sample inside of their partitions
    assert read(kept["options"] | {"batch_size": 65}) is None
    source.write_bytes("metadata.json", source.read_bytes("metadata.json") + b"\n")
    assert read(kept["options"]) is None  # of another input, perhaps
    moved = folder.read_bytes("n.txt").splitlines(keepends=True)
    folder.write_bytes("n.txt", b"".join(moved[::-1]))
    assert report(1) != kept
    assert report(1) == report(1, anew=True)


LEFT_FOR_LATER = {  # what a job does not call because of what it has left, and how to leave nothing
    "figures": (quality_training, "model_of_run", partition, "keep_traffic"),
    "edges": (sampled_edges, "read_sampled_edges", KeptHalfEdges, "take"),
}


@pytest.mark.parametrize("name", LEFT_FOR_LATER)
def test_a_job_does_not_do_again_what_it_has_left(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is done again if nothing was left, with the same result."""
    unused_in, unused, left_in, left = LEFT_FOR_LATER[name]
    source = open_store(str(few_seeds("train_mask").write(tmp_path / "graph")))
    once, again = (open_store(str(tmp_path / name)) for name in ("once", "again"))
    config = RunConfig(num_parts=PARTS, sampling=SMALL_BATCHES, on_defect="drop")
    with monkeypatch.context() as patched:
        patched.setattr(unused_in, unused, None)
        run_job(config, source, once)
    assert not once.exists(layout.KEPT_TRAINING)
    monkeypatch.setattr(left_in, left, lambda *arguments: None)
    run_job(config, source, again)
    for key in (layout.QUALITY_REPORT, *(one.key for one in once.list(f"{layout.ASSIGNMENT}/"))):
        assert again.read_bytes(key) == once.read_bytes(key)


@pytest.mark.parametrize("objective", ["cut", "train"])
def test_edges_are_kept_for_the_objective_that_needs_them(
    tmp_path: Path, objective: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept: list[bool] = []
    keep = KeptHalfEdges.keep
    monkeypatch.setattr(
        KeptHalfEdges, "keep", lambda self, *more: kept.append(self._begin) or keep(self, *more)
    )
    source = open_store(str(few_seeds("train_mask").write(tmp_path / "graph")))
    config = RunConfig(num_parts=PARTS, objective=objective, on_defect="drop")
    run_job(config, source, open_store(str(tmp_path / "run")))
    assert kept == ([True] if objective == "train" else [])


def test_a_job_fails_if_what_runs_beside_its_stages_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(problem: Problem, parts: object) -> None:
        raise OSError(ENOSPC, "No space left on device")

    monkeypatch.setattr(partition, "keep_traffic", fail)
    graph = few_seeds("train_mask").write(tmp_path / "graph")
    source, run = open_store(str(graph)), open_store(str(tmp_path / "run"))
    with pytest.raises(OSError, match="No space left"):
        run_job(RunConfig(num_parts=PARTS, on_defect="drop"), source, run)
    assert not run.exists(layout.MANIFEST)


def test_work_that_was_left_ends_before_a_job_publishes(tmp_path: Path) -> None:
    source, run = (open_store(str(tmp_path / name)) for name in ("graph", "run"))
    job = _Job(RunConfig(num_parts=2), source, run, None, None, NoProgress(), lambda result: None)
    begun, order = threading.Event(), []

    def work() -> None:
        begun.wait(0.2)
        order.append("work")

    def publish(stage: Stage) -> Any:
        begun.set()
        order.append(stage.name)

    with job._threads, pytest.MonkeyPatch.context() as patched:
        patched.setattr(job, "_result", publish)
        patched.setattr(job, "_show", lambda result: None)
        job._beside = [job._threads.submit(work)]
        job._run([find_stage("publish")])
    assert order == ["work", "publish"]


@pytest.mark.parametrize("objective", ["cut", "train"])
def test_the_file_of_half_edges_is_gone_before_an_engine_works(tmp_path: Path, objective: str) -> None:
    """Also without a train node, and if the model is not needed."""
    graph = few_seeds("train_mask", share=0.0)
    source, run = open_store(str(graph.write(tmp_path / "graph"))), open_store(str(tmp_path / "run"))
    there: list[int] = []

    def look(*arguments: Any) -> Any:
        there.append(len([*(tmp_path / "temporary").iterdir()]))
        return repartition.repartition(*arguments)

    (tmp_path / "temporary").mkdir()
    with pytest.MonkeyPatch.context() as patched, closing(KeptHalfEdges()) as kept:
        patched.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
        prepare_graph(PrepareConfig(), source, run, half_edges=kept)
        assert len([*(tmp_path / "temporary").iterdir()]) == 1
        patched.setattr(partition, "repartition", look)
        partition_nodes(PartitionConfig(num_parts=2, objective=objective), source, run, half_edges=kept)
    assert there == [0]


def test_a_job_that_fails_leaves_no_temporary_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> None:
        assert [*(tmp_path / "temporary").iterdir()]  # the half-edges
        raise UsageError("no")

    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "temporary"))
    monkeypatch.setattr(partition, "check_options", fail)
    source = open_store(str(few_seeds("train_mask").write(tmp_path / "graph")))
    with pytest.raises(UsageError, match="no") as caught:
        run_job(RunConfig(num_parts=2, on_defect="drop"), source, open_store(str(tmp_path / "run")))
    assert not [*(tmp_path / "temporary").iterdir()], caught.tb  # which still refers to the job


@pytest.mark.parametrize("content", [b"{", b"{}"])
def test_broken_figures_are_not_taken(tmp_path: Path, content: bytes) -> None:
    found = problem(few_seeds("train_mask"), tmp_path)
    assert found.source is not None
    partition_nodes(found.config, found.source, found.artifacts)
    report = partial(training_report, SamplingOptions(), found.source, found.metadata, found.artifacts, 1)
    before = report()
    found.artifacts.write_bytes(layout.KEPT_TRAINING, content)
    assert report() == before


def test_weights_of_edges_are_freed_once_a_graph_is_partitioned(tmp_path: Path) -> None:
    """What runs beside the next stage needs the model only."""
    found, left = problem(few_seeds("train_mask"), tmp_path), []
    assert found.source is not None
    weights: list[weakref.ref[Any]] = []

    def remembered(task: Problem, half_edges: object) -> Problem:
        task = with_traffic(task)
        weights.append(weakref.ref(task.edge_weights))
        return task

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(partition, "with_traffic", remembered)
        partition_nodes(found.config, found.source, found.artifacts, beside=left.append)
    gc.collect()
    assert weights and weights[0]() is None
    left[0]()
    assert found.artifacts.exists(layout.KEPT_TRAINING)


def test_figures_go_with_their_assignment(tmp_path: Path) -> None:
    found = problem(few_seeds("train_mask"), tmp_path)
    assert found.source is not None
    partition_nodes(found.config, found.source, found.artifacts)
    assert found.artifacts.exists(layout.KEPT_TRAINING)
    partition_nodes(replace(found.config, engine="random"), found.source, found.artifacts)
    assert not found.artifacts.exists(layout.KEPT_TRAINING)


def test_a_better_effort_includes_what_a_lower_one_makes(tmp_path: Path) -> None:
    """Also where training reads all edges alike, and one partition is made without weights."""
    fast, default = (
        problem(few_seeds("train_mask", share=0.9), tmp_path / effort, effort=effort)
        for effort in ("fast", "default")
    )
    rows = {}
    for one in map(with_traffic, (fast, default)):
        assert one.traffic is not None and not one.uneven
        parts = find_engine("auto").partition(one)
        rows[one.config.effort] = cost_of(one.traffic.about_remote_rows(parts, PARTS))
    assert rows["default"] <= rows["fast"]


@pytest.mark.parametrize("effort", ["fast", "default"])
@pytest.mark.parametrize("share", [0.05, 0.5])
def test_each_partition_has_as_many_train_nodes(share: float, effort: str, tmp_path: Path) -> None:
    """One more at most: DGL's ``node_split`` gives trainers equal numbers of seeds, in the order of IDs."""
    task = with_traffic(
        problem(few_seeds("train_mask", "val_mask", share=share), tmp_path, effort=effort, objective="train")
    )
    assert task.traffic is not None
    parts = find_engine("auto").partition(task)
    both = task.classes * PARTS + parts
    counts = np.bincount(both[task.traffic.train], minlength=PARTS * (task.classes.max() + 1)).reshape(
        -1, PARTS
    )
    seeds = counts.sum(axis=1)
    assert (seeds > 0).sum() == 2  # trained and validated or not
    assert (counts <= -(-seeds // PARTS)[:, None]).all()
    assert constraints_of(task).kept_by(parts)


def test_a_start_can_keep_to_nearly_even_train_nodes(tmp_path: Path) -> None:
    """So that few nodes have to move in the end; all other limits stay."""
    task = with_traffic(problem(few_seeds("train_mask", share=0.5), tmp_path, objective="train"))
    assert task.traffic is not None
    starts = {}
    for nearly_even in (False, True):
        with Tries(task, nearly_even=nearly_even) as tries:
            limits = tries.level.constraints
            parts = tries.start(0, 16)
        assert limits.kept_by(parts)
        starts[nearly_even] = limits.most
    trained = task.classes[task.traffic.train][0]
    share = np.count_nonzero(task.traffic.train) / PARTS
    assert (starts[False][:, trained] >= 1.02 * share).all()
    assert (starts[True][:, trained] >= share).all()
    assert (starts[True][:, trained] <= 1.006 * share + 1).all()
    others = np.arange(starts[True].shape[1]) != trained
    np.testing.assert_array_equal(starts[True][:, others], starts[False][:, others])


def test_masks_are_balanced_unless_they_must_not_be(tmp_path: Path) -> None:
    graph = few_seeds("train_mask", "val_mask", share=0.2)
    assert problem(graph, tmp_path / "default").features == ("train_mask", "val_mask")
    assert problem(graph, tmp_path / "none", balance_ntypes="none").features == ()
    assert problem(graph, tmp_path / "one", balance_ntypes="val_mask").features == ("val_mask",)
    floats = SmallGraph(
        graph.nodes, graph.edges, [Values("n", "train_mask", np.ones((NODES, 2), np.float32))]
    )
    assert problem(floats, tmp_path / "floats").features == ()


def test_train_nodes_that_do_not_exist_are_rejected_before_work(tmp_path: Path) -> None:
    sampling = SamplingOptions(train_nodes=("n:absent",))
    task = problem(few_seeds("train_mask"), tmp_path, sampling=sampling)
    with pytest.raises(UsageError, match="has no feature 'absent'"):
        partition_nodes(task.config, open_store(str(tmp_path / "graph")), task.artifacts)


def test_a_move_is_weighed_against_the_rows_of_an_epoch(tmp_path: Path) -> None:
    """If few edges lead to the same rows, the cut counts the rows that trainers read from others."""
    sampling = SamplingOptions(batch_size=1, fanouts=(2,))
    options = {"objective": "train", "sampling": sampling, "migration_price": 3}
    task = with_traffic(problem(few_seeds("train_mask", share=0.5), tmp_path, **options))
    assert task.traffic is not None
    parts = (np.arange(NODES) * PARTS // NODES).astype(np.int32)
    cut = cut_weight(Graph.of_input(task.graph, task.edge_weights), parts)
    rows = task.traffic.about_remote_rows(parts, PARTS).sum()
    assert cut / task.row_weight == pytest.approx(rows, rel=0.15)
    assert task.price == 3 * task.row_weight
