"""The estimate counts the model of the traffic of training, also beside the stage that follows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from partition_ops.jobs.estimate import estimate_job
from partition_ops.jobs.options import RunConfig
from partition_ops.storage.local_store import LocalStore
from tests.unit.jobs.test_estimate import GIB, PLENTY, graph_of, stage


def test_what_runs_beside_a_stage_counts_with_it(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 10**6, 10**7)

    def estimated(objective: str, memory: int) -> Any:
        config = RunConfig(num_parts=4, objective=objective, num_hops=2, graph_formats=("csr", "csc"))
        room = replace(PLENTY, memory=memory, cores=16)
        return estimate_job(config, source, LocalStore(tmp_path / "out"), room=room)

    convert = stage(estimated("cut", 64 * GIB), "convert").held
    found = estimated("train", 64 * GIB)
    beside = stage(found, "partition").beside
    assert found.whole.held >= convert + beside
    assert beside > stage(estimated("cut", 64 * GIB), "partition").beside == 0

    def short(objective: str, memory: int) -> bool:
        return "convert" in {one.stage for one in estimated(objective, memory).shortages}

    # convert adapts to the memory, so somewhere it alone fits just
    memories = range(convert // 2, convert + beside, beside // 8)
    assert any(short("train", memory) and not short("cut", memory) for memory in memories)


def test_many_edges_of_the_model_are_on_the_disk(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 10**7, 2 * 10**8)
    found = {}
    for objective in ("cut", "train"):
        config = RunConfig(num_parts=4, objective=objective)
        found[objective] = stage(
            estimate_job(config, source, LocalStore(tmp_path / "out"), room=PLENTY), "partition"
        )
    assert found["train"].temporary - found["cut"].temporary == 4 * 2 * 10**8
    assert found["train"].memory - found["cut"].memory > found["train"].held - found["cut"].held > 0


def test_many_partitions_have_larger_graphs_of_clusters(tmp_path: Path) -> None:
    """At 64 partitions, `partition` took a third more than if they had those of a few."""
    source = graph_of(tmp_path / "in", 3 * 10**5, 4 * 10**6)
    few, many = (
        stage(
            estimate_job(RunConfig(num_parts=parts), source, LocalStore(tmp_path / "out"), room=PLENTY),
            "partition",
        )
        for parts in (16, 17)
    )
    assert many.held - few.held > 20 * 2 * 4 * 10**6
