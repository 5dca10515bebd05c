"""A task is done once, is recorded last, and is done again when anything it depends on has changed."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.records import forget_task
from partition_ops.artifacts.tasks import ArtifactWriter, StageResult, State, Task
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, StoredObject, open_store


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


def task(store: Store, text: str = "x", *, name: str = "one", key: str = "a/b.txt", **more: Any) -> Task:
    def work(writer: ArtifactWriter) -> dict[str, Any]:
        writer.wrote(writer.destination.write_bytes(key, text.encode()))
        return {"length": len(text)}

    return Task(name, store, work, **more)


def do(store: Store, text: str = "x", **more: Any) -> StageResult:
    return task(store, text, **more).run()


def test_a_second_call_finds_it_done(store: Store) -> None:
    first, second = do(store), do(store, "not written")
    assert not first.skipped
    assert second.skipped
    assert second.counters == {"length": 1}
    assert store.read_bytes("a/b.txt") == b"x"


@pytest.mark.parametrize(
    "change",
    [
        {"options": {"seed": 1}},
        {"inputs": [StoredObject("in", 1, "tag")]},
    ],
)
def test_other_options_or_inputs_are_other_work(store: Store, change: dict[str, Any]) -> None:
    do(store)
    assert not do(store, "y", **change).skipped
    assert store.read_bytes("a/b.txt") == b"y"


def test_a_lost_artifact_is_made_again(store: Store) -> None:
    do(store)
    store.delete(["a/b.txt"])
    assert not do(store).skipped


def test_an_artifact_of_another_size_is_made_again(store: Store) -> None:
    do(store)
    store.write_bytes("a/b.txt", b"longer")
    assert not do(store).skipped


def test_scratch_of_another_content_is_made_again(store: Store) -> None:
    do(store, key="scratch/a.bin")
    assert do(store, key="scratch/a.bin").skipped
    store.write_bytes("scratch/a.bin", b"\0")  # as a crash of the machine may leave it
    assert not do(store, key="scratch/a.bin").skipped
    assert store.read_bytes("scratch/a.bin") == b"x"


def test_what_comes_before_is_part_of_it(store: Store) -> None:
    def second() -> StageResult:
        return do(store, name="two", key="c.txt", after=["one"])

    do(store)
    assert not second().skipped
    assert second().skipped
    do(store, "y", options={"seed": 1})
    assert not second().skipped


def test_what_comes_before_must_have_been_done(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="'one' has not been done"):
        do(store, name="two", key="c.txt", after=["one"])


def test_a_failure_leaves_no_record_and_no_manifest(store: Store) -> None:
    store.write_bytes(layout.MANIFEST, b"{}")

    def fail(writer: ArtifactWriter) -> dict[str, Any]:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        Task("one", store, fail).run()
    assert not store.exists(layout.record("one"))
    assert not store.exists(layout.MANIFEST)


def test_what_an_earlier_run_wrote_under_another_name_goes(store: Store) -> None:
    store.write_bytes("a/yours.txt", b"not ours")
    do(store, key="a/old.txt")
    do(store, key="a/new.txt", options={"seed": 1})
    assert [entry.key for entry in store.list("a/")] == ["a/new.txt", "a/yours.txt"]


def test_scratch_takes_no_manifest_away(store: Store) -> None:
    store.write_bytes(layout.MANIFEST, b"{}")
    for text in ("x", "y"):
        do(store, text, key="scratch/a.bin", options={"text": text}, outputs=["scratch/"])
        assert store.exists(layout.MANIFEST)
    forget_task(store, "one")
    assert store.exists(layout.MANIFEST)


def test_what_is_done_is_found_without_its_scratch(store: Store) -> None:
    do(store, key="scratch/a.bin")
    assert task(store).status().done
    store.delete(["scratch/a.bin"])
    assert task(store).status().state is State.DAMAGED
    assert task(store).status(check="record").done
    assert not task(store, options={"seed": 1}).status(check="record").done


@pytest.mark.parametrize(
    ("before", "now", "reason"),
    [
        ({"options": {"seed": 0}}, {"options": {"seed": 1}}, "its option 'seed' was 0 and is 1 now"),
        ({}, {"options": {"seed": 1}}, "its option 'seed' was not set and is 1 now"),
        ({"options": {"name": "x"}}, {}, "its option 'name' was 'x' and is not set now"),
        ({"options": {"l": [0] * 99}}, {"options": {"l": [0] * 99 + [1]}}, "its option 'l' has changed"),
        (
            {"inputs": [StoredObject("a", 1, "tag"), StoredObject("b", 1, "tag")]},
            {"inputs": [StoredObject("b", 2, "tag"), StoredObject("c", 1, "tag")]},
            "the input is another one: b changed; c added; a removed",
        ),
        ({}, {"after": ["before"]}, "it did not read the result of the task 'before'"),
        ({"after": ["before"]}, {}, "it read the result of the task 'before'"),
    ],
)
def test_a_stale_task_says_what_has_changed(
    before: dict[str, Any], now: dict[str, Any], reason: str, store: Store, caplog: pytest.LogCaptureFixture
) -> None:
    do(store, name="before", key="before.txt")
    do(store, **before)
    status = task(store, **now).status()
    assert (status.state, status.reason) == (State.STALE, reason)
    with caplog.at_level(logging.INFO, "partition_ops"):
        result = do(store, **now)
    assert result.reason == reason
    assert f"one: done again, because {reason}" in caplog.text
    assert do(store, **now).reason == ""


def test_a_result_of_a_task_before_it_makes_it_stale(store: Store) -> None:
    do(store, name="before", key="before.txt")
    do(store, after=["before"])
    do(store, "another", name="before", key="before.txt", options={"seed": 1})
    for asked in (task(store, after=["before"]), Task.recorded(store, "one")):
        assert asked.status().reason == "the task 'before' before it has another result"


def test_options_are_compared_as_json_has_them(store: Store) -> None:
    do(store, options={"shares": (1, 2)})
    assert task(store, options={"shares": [1, 2]}).status().done


def test_a_task_of_another_version_is_stale(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("partition_ops.artifacts.tasks.__version__", "0.1.5")
    do(store)
    monkeypatch.undo()
    status = task(store).status()
    assert status.reason == f"it was done by version 0.1.5 of partition-ops, and this is {__version__}"


def test_a_record_of_version_1_is_of_version_010(store: Store) -> None:
    do(store)
    record = store.read_json(layout.record("one"))
    for name in ("partition_ops", "inputs", "after"):
        del record[name]
    store.write_json(layout.record("one"), {**record, "version": 1, "fingerprint": "0" * 64, "after": []})
    assert "version 0.1.0" in task(store).status().reason
    assert "version 0.1.0" in Task.recorded(store, "one").status().reason


def test_missing_and_damaged_artifacts_are_named(store: Store) -> None:
    do(store)
    store.write_bytes("a/b.txt", b"y")
    assert task(store).status().done
    status = task(store).status(check="content")
    assert (status.state, status.damaged) == (State.DAMAGED, ["a/b.txt"])
    store.delete(["a/b.txt"])
    assert task(store).status().reason == "a/b.txt is missing, or not as it was written"


def test_a_task_that_was_never_done_is_missing(store: Store) -> None:
    assert task(store).status().state is State.MISSING
    assert task(store, after=["two"]).status().state is State.MISSING
    assert do(store).reason == ""


def test_only_declared_outputs_are_written(store: Store) -> None:
    with pytest.raises(ValueError, match=r"a/b\.txt is not an output of the task: c/"):
        do(store, outputs=["c/"])


def test_required_tasks_must_be_done_before_the_work(store: Store) -> None:
    required = task(store, name="two", key="scratch/two", outputs=["scratch/"])
    with pytest.raises(InvalidInputError, match="'two' has not been done"):
        do(store, requires=lambda: [required])
    required.run()
    assert not do(store, requires=lambda: [required]).skipped
    forget_task(store, "two")
    assert do(store, requires=lambda: [required]).skipped  # what it left is not needed any more


def test_a_task_that_something_has_changed_for_is_refused(store: Store) -> None:
    do(store, inputs=[StoredObject("in", 1, "tag")])
    task(store, inputs=[StoredObject("in", 1, "tag")]).check_done()
    with pytest.raises(InvalidInputError, match=r"'one' .* is out of date.*in changed"):
        task(store, inputs=[StoredObject("in", 1, "other")]).check_done()


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff"])
def test_a_broken_record_counts_as_none(store: Store, content: bytes) -> None:
    do(store)
    store.write_bytes(layout.record("one"), content)
    assert task(store).status().state is State.MISSING
    with pytest.raises(InvalidInputError, match=r"one\.json is broken, .* Run that stage again"):
        do(store, name="two", key="c.txt", after=["one"])
    assert not do(store).skipped
