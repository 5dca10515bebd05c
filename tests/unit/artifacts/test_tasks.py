"""A task is done once, is recorded last, and is done again when anything it depends on has changed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import (
    StageResult,
    Task,
    check_given,
    find_done,
    forget_task,
    run_task,
    still_done,
)
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.rebuild import remove_damaged
from partition_ops.storage import StorageSettings, Store, StoredObject, open_store
from partition_ops.system.progress import NoProgress


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return open_store(str(tmp_path))


def do(store: Store, text: str = "x", *, key: str = "a/b.txt", **more: Any) -> StageResult:
    def work(task: Task) -> dict[str, Any]:
        task.wrote(task.destination.write_bytes(key, text.encode()))
        return {"length": len(text)}

    return run_task("one", store, options=more.pop("options", {}), work=work, **more)


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
        return run_task("two", store, options={}, after=["one"], work=lambda task: {})

    do(store)
    assert not second().skipped
    assert second().skipped
    do(store, "y", options={"seed": 1})
    assert not second().skipped


def test_what_comes_before_must_have_been_done(store: Store) -> None:
    with pytest.raises(InvalidInputError, match="'one' has not been done"):
        run_task("two", store, options={}, after=["one"], work=lambda task: {})


def test_a_failure_leaves_no_record_and_no_manifest(store: Store) -> None:
    store.write_bytes(layout.MANIFEST, b"{}")

    def fail(task: Task) -> dict[str, Any]:
        raise RuntimeError("killed")

    with pytest.raises(RuntimeError):
        run_task("one", store, options={}, work=fail)
    assert not store.exists(layout.record("one"))
    assert not store.exists(layout.MANIFEST)


def test_what_an_earlier_run_wrote_under_another_name_goes(store: Store) -> None:
    store.write_bytes("a/yours.txt", b"not ours")
    do(store, key="a/old.txt")
    do(store, key="a/new.txt", options={"seed": 1})
    assert [entry.key for entry in store.list("a/")] == ["a/new.txt", "a/yours.txt"]


@pytest.mark.parametrize("place", ["local", "s3"])
def test_what_has_another_content_is_removed(
    place: str, tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    where = {"local": str(tmp_path), "s3": s3_root}[place]
    with open_store(where, s3_settings) as store:
        do(store)
        run_task("two", store, options={}, work=lambda task: {"size": task.write_json("a/c.json", [1]).size})
        store.write_bytes(layout.MANIFEST, b"{}")
        assert remove_damaged(store, NoProgress()) == []
        assert store.exists(layout.MANIFEST)
        store.write_bytes("a/b.txt", b"y")
    with open_store(where, s3_settings) as store:
        assert remove_damaged(store, NoProgress()) == ["a/b.txt"]
        assert [entry.key for entry in store.list("a/")] == ["a/c.json"]
        assert not store.exists(layout.MANIFEST)
        assert not do(store).skipped


def test_scratch_takes_no_manifest_away(store: Store) -> None:
    store.write_bytes(layout.MANIFEST, b"{}")
    for text in ("x", "y"):
        do(store, text, key="scratch/a.bin", options={"text": text}, lasting=False)
        assert store.exists(layout.MANIFEST)
    forget_task(store, "one")
    assert store.exists(layout.MANIFEST)


def test_what_is_done_is_found_without_its_scratch(store: Store) -> None:
    do(store, key="scratch/a.bin")
    assert find_done("one", store, options={}) is not None
    store.delete(["scratch/a.bin"])
    assert find_done("one", store, options={}) is None
    found = find_done("one", store, options={}, scratch=False)
    assert found is not None and found.skipped
    assert find_done("one", store, options={"seed": 1}, scratch=False) is None


def test_what_tasks_were_given_must_be_what_there_is_now(store: Store) -> None:
    given: dict[str, Any] = {"options": {}, "inputs": [StoredObject("in", 1, "tag")], "after": ["one"]}
    do(store)
    with pytest.raises(InvalidInputError, match="'two' has not been done"):
        check_given(store, {"two": given})
    run_task("two", store, work=lambda task: {}, **given)
    check_given(store, {"two": given})
    other = {**given, "inputs": [StoredObject("in", 1, "other")]}
    with pytest.raises(InvalidInputError, match=r"'two' .* is not of what is there now"):
        check_given(store, {"two": other})
    do(store, "y", options={"seed": 1})
    with pytest.raises(InvalidInputError, match=r"'two' .* is not of what is there now"):
        check_given(store, {"two": given})


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b"\xff"])
def test_a_broken_record_counts_as_none(store: Store, content: bytes) -> None:
    do(store)
    assert still_done(store, "one", [])
    store.write_bytes(layout.record("one"), content)
    assert not still_done(store, "one", [])
    with pytest.raises(InvalidInputError, match=r"one\.json is broken, .* Do that stage again"):
        run_task("two", store, options={}, after=["one"], work=lambda task: {})
    assert not do(store).skipped
