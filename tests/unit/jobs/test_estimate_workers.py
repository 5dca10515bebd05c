"""The estimate of a job on several workers: what fits, and how many workers or how much memory would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from partition_ops.cli import main
from partition_ops.jobs.estimate.workers import MOST_WORKERS, WorkersEstimate, estimate_workers
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.storage.local_store import LocalStore
from tests.unit.jobs.test_estimate import GIB, graph_of

MIB = 1 << 20
LARGE = 10**8, 4 * 10**9


def estimated(folder: Path, *, workers: int = 4, memory: int = 64 * GIB, **options: Any) -> WorkersEstimate:
    config = RunConfig(**{"num_parts": 64, "engine": "two-level", **options})
    source = graph_of(folder / "in", *LARGE)
    return estimate_workers(config, source, workers=workers, memory=memory, cores=2)


def largest(estimate: WorkersEstimate, stage: str, task: str) -> int:
    found = next(one for one in estimate.stages if one.stage == stage)
    return next(one.held for one in found.tasks if one.name == task)


def test_tasks_and_ranks_share_the_edges_and_other_stages_say_that_they_are_one_task(tmp_path: Path) -> None:
    few, many = (estimated(tmp_path, workers=workers) for workers in (2, 16))
    for stage, task in (("validate", "gather"), ("prepare", "gather"), ("partition", "rank")):
        assert largest(many, stage, task) < largest(few, stage, task)
    spread = {stage.stage: stage.spread_by for stage in many.stages if stage.spread}
    assert spread == {
        "validate": "--validation-tasks 16",
        "prepare": "--prepare-tasks 16",
        "partition": "--engine two-level --mpi-ranks 16 --hostfile FILE",
        "convert": "--convert-tasks 16",
    }
    whole = [stage for stage in many.stages if not stage.spread]
    assert {stage.stage for stage in whole} == {"schema", "idmap", "quality", "publish"}
    assert all([task.number for task in stage.tasks] == [1] for stage in whole)


@pytest.mark.parametrize(("memory", "enough"), [(4, None), (12, True), (40, 1)])
def test_the_least_number_of_workers_and_the_least_memory_are_the_least(
    tmp_path: Path, memory: int, enough: int | None
) -> None:
    found = estimated(tmp_path, memory=memory * GIB)
    assert estimated(tmp_path, memory=found.least_memory).fits
    assert not estimated(tmp_path, memory=found.least_memory - MIB).fits
    assert found.fits == (found.least_memory <= memory * GIB)
    fewest = found.fewest_workers
    if fewest is None:
        too_large = estimated(tmp_path, memory=memory * GIB, workers=MOST_WORKERS)
        assert found.too_large and set(found.too_large) == {
            one.stage for one in too_large.stages if not one.fits
        }
    else:
        assert not found.too_large
        assert estimated(tmp_path, memory=memory * GIB, workers=fewest).fits
        assert fewest == 1 or not estimated(tmp_path, memory=memory * GIB, workers=fewest - 1).fits
    assert fewest == enough or (enough is True and fewest is not None and fewest > 4)


def test_an_engine_of_one_process_names_those_for_several_workers(tmp_path: Path) -> None:
    found = estimated(tmp_path, engine="auto", workers=16, memory=24 * GIB)
    partition = next(one for one in found.stages if one.stage == "partition")
    assert not partition.spread and not partition.fits and "partition" in found.too_large
    assert any("the engine auto is one process" in warning for warning in found.warnings)
    assert any("--engine two-level --mpi-ranks 16 --hostfile FILE" in one for one in found.remedies)


def test_engines_that_cannot_number_the_nodes_are_not_named(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", (1 << 31) + 1, 10)
    config = RunConfig(num_parts=4, engine="random")
    found = estimate_workers(config, source, workers=4, memory=GIB, cores=2)
    said = " ".join([*found.remedies, *found.warnings])
    assert "--engine parmetis" in said and "two-level" not in said


def test_options_of_the_user_count(tmp_path: Path) -> None:
    found = estimated(
        tmp_path,
        validation_tasks=32,
        prepare_tasks=8,
        mpi=MpiOptions(ranks=64, hostfile="hosts"),
        convert_tasks=3,
    )
    spread = [one.spread_by for one in found.stages if one.spread_by]
    assert spread == [
        "--validation-tasks 32",
        "--prepare-tasks 8",
        "--engine two-level --mpi-ranks 64 --hostfile hosts",
        "--convert-tasks 3",
    ]
    stage = next(one for one in found.stages if one.stage == "partition")
    assert sum(task.number for task in stage.tasks) == 64


def test_one_worker_does_the_job_in_one_task_a_stage(tmp_path: Path) -> None:
    found = estimated(tmp_path, workers=1, engine="auto")
    assert not any(stage.spread for stage in found.stages if stage.stage != "convert")


def test_the_verb_prints_each_task_and_what_would_fit(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_of(tmp_path / "in", *LARGE)
    words = ["estimate", str(tmp_path / "in"), "--num-parts", "64", "--engine", "two-level", "--workers", "4"]
    assert main([*words, "--memory", "4G"]) == 0
    text = capsys.readouterr().out
    assert main([*words, "--memory", "4G", "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    config, source = RunConfig(num_parts=64, engine="two-level"), LocalStore(tmp_path / "in")
    expected = estimate_workers(config, source, workers=4, memory=4 * GIB, cores=document["cores"])
    assert document == json.loads(json.dumps(expected.to_json()))
    assert not document["fits"] and "It does not fit on 4 workers of 4.0 GiB." in text
    for line in ("validate scatter", "partition with rank 0", "partition rank", "convert gather"):
        assert any(shown.startswith(line) for shown in text.splitlines())
    assert "One task each, on one worker: schema, idmap, quality, publish." in text
    assert "Least number of workers of 4.0 GiB: none is enough for " in text
    for wrong in ("0", "5000", "two"):
        with pytest.raises(SystemExit, match="2"):
            main([*words[:-1], wrong])
        assert "is not a number of workers, 1 to 4096" in capsys.readouterr().err


def test_more_memory_than_this_machine_has_is_no_mistake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_of(tmp_path / "in", *LARGE)
    words = ["estimate", str(tmp_path / "in"), "--num-parts", "64", "--engine", "two-level", "--json"]
    assert main([*words, "--workers", "16", "--memory", "4096G"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["fits"] and document["memory"] == 4096 * GIB
