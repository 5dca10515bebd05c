"""Several partitions at a time: as many as there is room for, while uploads go on, none after an error."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from partition_ops.artifacts.tasks import StageResult
from partition_ops.stages.convert import context, convert, cost
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import Plan
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.storage import Store, open_store
from tests.graphs import library

NUM_PARTS = 5
PATIENCE = 60  # seconds, for what never comes
GATHER = convert.gather_part


def nothing(part: int) -> None:
    """Do nothing when a partition is at work."""


@dataclass
class Watched:
    """`gather_part`, which says when it is at work on a partition: until its files are made.

    Attributes:
        first: Called with the partition before the work.
        then: Called when its files are made, while they would go up.
        begun: The partitions, in the order in which they were begun.
        most: The most that were made at a time.
    """

    first: Callable[[int], None] = nothing
    then: Callable[[int], None] = nothing
    begun: list[int] = field(default_factory=list)
    most: int = 0
    making: set[int] = field(default_factory=set)
    changed: threading.Condition = field(default_factory=threading.Condition)

    def __call__(self, conversion: Any, part: int, *, plan: Plan, made: Callable[[], object]) -> StageResult:
        with self.changed:
            self.begun.append(part)
            self.making.add(part)
            self.most = max(self.most, len(self.making))
            self.changed.notify_all()
        self.first(part)

        def files_made() -> None:
            with self.changed:
                self.making.discard(part)
            made()
            self.then(part)

        return GATHER(conversion, part, plan=plan, made=files_made)

    def wait_for(self, *parts: int) -> None:
        """Until some partitions have been begun."""
        with self.changed:
            assert self.changed.wait_for(lambda: {*parts} <= {*self.begun}, PATIENCE), parts


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Watched:
    found = Watched()
    monkeypatch.setattr(convert, "gather_part", found)
    return found


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Store:
    return open_store(str(library(papers=60).write(tmp_path_factory.mktemp("at_once") / "in")))


def convert_with(workers: int, source: Store, folder: Path) -> list[str]:
    """The tasks that were done."""
    destination, done = open_store(str(folder / "out")), []
    partition_nodes(PartitionConfig(num_parts=NUM_PARTS, engine="random"), source, destination)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(context, "cores", lambda: workers)
        try:
            convert_graph(
                ConvertConfig(), source, destination, report=lambda result: done.append(result.task)
            )
        except KeyError:
            done.append("error")
    return [task for task in done if task.startswith("convert-part") or task == "error"]


@pytest.mark.parametrize("workers", [1, 3])
def test_there_are_never_more_than_workers(
    workers: int, watched: Watched, source: Store, tmp_path: Path
) -> None:
    watched.first = lambda part: watched.wait_for(*range(workers))  # so that as many are there at a time
    done = convert_with(workers, source, tmp_path)
    assert watched.most == workers
    assert watched.begun == [*range(NUM_PARTS)]
    assert done == [f"convert-part{part}" for part in range(NUM_PARTS)]


def test_the_next_is_begun_while_files_of_the_last_go_up(
    watched: Watched, source: Store, tmp_path: Path
) -> None:
    watched.then = lambda part: watched.wait_for(min(part + 1, NUM_PARTS - 1))
    assert len(convert_with(1, source, tmp_path)) == NUM_PARTS
    assert watched.most == 1


def test_large_partitions_are_two_for_each_core(
    watched: Watched, source: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cost, "LARGE_BYTES", 0)
    watched.first = lambda part: watched.wait_for(0, 1)
    assert len(convert_with(1, source, tmp_path)) == NUM_PARTS
    assert watched.most == 2


@pytest.mark.parametrize("workers", [1, 2])
def test_nothing_is_begun_after_an_error(
    workers: int, watched: Watched, source: Store, tmp_path: Path
) -> None:
    def fail(part: int) -> None:
        watched.wait_for(*range(workers))
        raise KeyError(part)

    watched.first = fail
    assert convert_with(workers, source, tmp_path) == ["error"]
    assert watched.begun == [*range(workers)]


def test_an_upload_that_fails_lets_what_is_begun_end(watched: Watched, source: Store, tmp_path: Path) -> None:
    def fail(part: int) -> None:
        if part == 1:
            watched.wait_for(2)
            raise KeyError(part)

    watched.then = fail
    assert convert_with(1, source, tmp_path) == ["convert-part0", "error"]
    assert watched.begun[:3] == [0, 1, 2]
