"""The lock of a graph and what a run begins from, on a local folder and on a real S3 server."""

from __future__ import annotations

import json
import logging
import os
import signal
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from partition_ops import cli
from partition_ops.artifacts import layout, lock_fence
from partition_ops.artifacts import lock as lock_module
from partition_ops.artifacts.latest import (
    begin_run,
    check_still_latest,
    latest_run,
    point_at,
    previous_of,
    run_at,
)
from partition_ops.artifacts.lock import holds_lock, locked, release_lock, take_lock
from partition_ops.artifacts.lock_document import read_lock
from partition_ops.artifacts.lock_fence import Fence
from partition_ops.artifacts.write_access import VERBS
from partition_ops.errors import ConflictError, InvalidInputError
from partition_ops.storage import StorageSettings, Store, open_store, s3_conditions
from partition_ops.system.temporary_folders import start_time
from tests.graphs import library

ONE, TWO = ({"dag_id": "partition_graph", "run_id": name} for name in ("one", "two"))
OLD = "2020-01-01T00:00:00+00:00"


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    """Root of a graph. The server is near, so that nobody needs long between looking and writing."""
    monkeypatch.setattr(s3_conditions, "SETTLE_SECONDS", 0.3)
    if request.param == "local":
        opened = open_store(str(tmp_path / "graph"))
    else:
        settings: StorageSettings = request.getfixturevalue("s3_settings")
        opened = open_store(request.getfixturevalue("s3_root"), settings)
    with opened:
        yield opened


def run(root: Store, name: str) -> Store:
    return root.child(f"runs/{name}")


def pointer(root: Store, name: str) -> dict[str, Any]:
    uri = run(root, name).uri
    return {
        "version": 1,
        "graph_name": "g",
        "run_id": name,
        "run": uri,
        "manifest": f"{uri}/manifest.json",
        "partition_config": f"{uri}/partitions/g.json",
        "num_parts": 2,
    }


def test_a_lock_is_for_one_and_comes_back(root: Store) -> None:
    assert take_lock(root, ONE) is None
    held = take_lock(root, TWO)
    assert held is not None and held["holder"] == ONE
    assert take_lock(root, ONE) is None  # a retry of the same run
    assert not release_lock(root, TWO)
    assert holds_lock(root, ONE) and not holds_lock(root, TWO)
    assert release_lock(root, ONE)
    assert read_lock(root) is None
    assert take_lock(root, TWO) is None


def test_one_of_many_gets_the_lock(root: Store) -> None:
    holders = [{"dag_id": "d", "run_id": str(number)} for number in range(6)]
    barrier = threading.Barrier(len(holders))

    def take(holder: dict[str, str]) -> bool:
        barrier.wait()
        return take_lock(root, holder) is None

    with ThreadPoolExecutor(len(holders)) as pool:
        got = list(pool.map(take, holders))
    assert got.count(True) == 1
    assert holds_lock(root, holders[got.index(True)])


@pytest.mark.parametrize("reason", ["its run has failed", None])
def test_an_abandoned_lock_is_taken_over_and_the_log_says_why(
    root: Store, reason: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    take_lock(root, ONE)
    with caplog.at_level(logging.WARNING, "partition_ops"):
        held = take_lock(root, TWO, abandoned=lambda lock: reason)
    assert (held is None) == (reason is not None) == holds_lock(root, TWO)
    assert ("its run has failed" in caplog.text) == (reason is not None)


def test_an_old_lock_does_not_count(root: Store) -> None:
    take_lock(root, ONE)
    root.write_json(layout.LOCK, {**root.read_json(layout.LOCK), "since": OLD})
    assert take_lock(root, TWO) is None
    assert holds_lock(root, TWO)


def in_a_process(root: Store, **lock: Any) -> None:
    """Write a lock as a process on another host would."""
    holder = {"host": "elsewhere", "process": 1, "call": "x"}
    root.write_json(layout.LOCK, {"version": 1, "holder": holder, "token": "t", "since": OLD, **lock})


def test_two_calls_cannot_both_hold_a_root(root: Store) -> None:
    with locked(root):
        with pytest.raises(ConflictError, match="in use"), locked(root):
            pass
        assert read_lock(root) is not None
    assert read_lock(root) is None


def test_who_takes_a_lock_at_the_same_time_as_another_one_changes_nothing(
    s3_root: str, s3_settings: StorageSettings
) -> None:
    """The last of both has it on a server that ignores conditions; the first is told at its first change."""
    with open_store(s3_root, s3_settings) as root, open_store(s3_root, s3_settings) as other:
        with pytest.raises(ConflictError, match=r"is in use.*run id two"), locked(root):
            lock = {**root.read_json(layout.LOCK), "holder": TWO, "token": 1}
            other.write_json(layout.LOCK, lock)
            root.write_bytes("artifact", b"")
        assert {*other.names()} == {layout.LOCK} and other.read_json(layout.LOCK) == lock


def test_a_lock_inside_of_another_one_waits_for_that(s3_root: str, s3_settings: StorageSettings) -> None:
    """Otherwise, who loses the outer one could change what is locked inside."""
    with open_store(s3_root, s3_settings) as root, open_store(s3_root, s3_settings) as other:
        with pytest.raises(ConflictError, match="is in use"), locked(root):
            other.write_json(layout.LOCK, {**root.read_json(layout.LOCK), "holder": TWO, "token": 1})
            with locked(root.child("ingest"), "ingest", within=root):
                root.child("ingest").write_bytes("artifact", b"")
        assert {*other.names()} == {layout.LOCK}


def test_the_marker_is_there_before_anything_else(root: Store) -> None:
    with open_store(root.uri, root.settings) as other, locked(root):
        root.write_bytes("artifact", b"")
        assert other.exists(layout.MARKER)


def test_who_changes_nothing_leaves_nothing(root: Store) -> None:
    with locked(root):
        pass
    assert not {*root.names()}


def test_an_error_of_the_first_change_is_that_of_the_next_one(tmp_path: Path) -> None:
    root, done = open_store(str(tmp_path)), []
    assert take_lock(root, ONE) is None

    def fail() -> None:
        raise InvalidInputError("broken")

    for first, expected in ((lambda: done.append("first"), []), (fail, [InvalidInputError])):
        fence = Fence(root, root.read_json(layout.LOCK), settle=0.2)
        fence.do_first(first)
        errors = []
        try:
            fence.check()
            fence.wait_for_first()
        except InvalidInputError as error:
            errors.append(type(error))
        assert errors == expected and done == ["first"]


def test_a_call_that_fails_while_it_waits_for_its_lock_leaves_nothing(root: Store) -> None:
    """Neither a marker, nor a thread that writes one later."""
    before = {*threading.enumerate()}
    with pytest.raises(InvalidInputError), locked(root):
        raise InvalidInputError("wrong")
    assert not {*root.names()}
    assert not [one for one in {*threading.enumerate()} - before if "do)" in one.name]


def test_a_change_waits_until_it_is_certain_who_has_the_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root, waited = open_store(str(tmp_path)), []
    assert take_lock(root, ONE) is None
    monkeypatch.setattr(lock_fence.time, "sleep", waited.append)
    fence = Fence(root, root.read_json(layout.LOCK), settle=3600)
    fence.check()
    assert waited and 3000 < waited[0] <= 3600


def test_first_work_that_is_stopped_is_left_out(tmp_path: Path) -> None:
    root, done = open_store(str(tmp_path)), []
    assert take_lock(root, ONE) is None
    fence = Fence(root, root.read_json(layout.LOCK), settle=3600)
    fence.do_first(lambda: done.append("first"))
    fence.stop_first()
    assert not done


def test_a_second_call_into_an_output_that_is_in_use_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    words = ["run", str(library().write(tmp_path / "in")), str(out), "--num-parts", "2", "--engine", "random"]
    with locked(open_store(str(out))):
        assert cli.main([*words, "--json"]) == 1
        assert {path.name for path in out.iterdir()} == {layout.LOCK, layout.MARKER}
    error = json.loads(capsys.readouterr().out)["error"]
    assert error["kind"] == "ConflictError" and "process" in error["found"]
    assert cli.main(words) == 0
    assert not (out / layout.LOCK).exists()


WRITING = {  # the verbs that write into an output
    "run": ["IN", "OUT", "--num-parts", "2"],
    "validate": ["IN", "--output", "OUT"],
    "schema": ["IN", "--output", "OUT/schema/small.json"],
    "prepare": ["IN", "--output", "OUT"],
    "partition": ["IN", "--output", "OUT", "--num-parts", "2"],
    "convert": ["IN", "--output", "OUT"],
    "idmap": ["IN", "--output", "OUT"],
    "idmap carry-over": ["OLD", "OLD", "--output", "OUT"],
    "quality": ["IN", "--output", "OUT"],
    "publish": ["IN", "--output", "OUT"],
    "probe": ["OUT"],
    "convert-partition": [
        *("--input-dir", "IN", "--graph-name", "small", "--schema", "SCHEMA", "--num-parts", "2"),
        *("--num-node-weights", "1", "--output", "OUT"),
    ],
}


@pytest.fixture(scope="module")
def words(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Write the arguments of the verbs: a graph, its schema, and an output."""
    folder = tmp_path_factory.mktemp("verbs")
    graph, schema = str(library().write(folder / "in")), str(folder / "schema.json")
    assert cli.main(["schema", graph, "--output", schema]) == 0
    return {"IN": graph, "SCHEMA": schema, "OLD": str(folder / "old")}


@pytest.mark.parametrize("verb", WRITING)
def test_every_verb_that_writes_waits_for_who_works_on_its_output(
    verb: str, words: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    arguments = [words.get(word, word.replace("OUT", str(out))) for word in WRITING[verb]]
    with locked(open_store(str(out)), verb if verb in VERBS and VERBS[verb].new else "run"):
        assert cli.main([*verb.split(), *arguments, "--json"]) == 1
        assert {path.name for path in out.iterdir()} == {layout.LOCK, layout.MARKER}
    error = json.loads(capsys.readouterr().out)["error"]
    assert (error["kind"], error["problem"]) == ("ConflictError", f"{out} is in use")
    assert f"process {os.getpid()}" in error["found"]


@pytest.mark.parametrize("content", [b"", b"{}", b"[]", b'{"version": 1, "hol'])
def test_who_finds_a_broken_lock_is_told_when_to_remove_it(root: Store, content: bytes) -> None:
    root.write_bytes(layout.LOCK, content)
    with pytest.raises(InvalidInputError, match=r"lock\.json is broken") as refused, locked(root):
        pass
    assert "no process and no DAG run works there, remove the file" in str(refused.value)
    assert root.read_bytes(layout.LOCK) == content


def test_a_verb_that_fails_leaves_no_folder_for_its_lock(tmp_path: Path) -> None:
    assert cli.main(["prepare", str(tmp_path / "nowhere"), "--output", str(tmp_path / "a" / "b")]) == 3
    assert not [*tmp_path.iterdir()]


def test_a_schema_of_ones_own_needs_no_lock(words: dict[str, str], tmp_path: Path) -> None:
    with locked(open_store(str(tmp_path))):
        assert cli.main(["schema", words["IN"], "--output", str(tmp_path / "mine.json")]) == 0


def test_a_process_that_was_killed_here_holds_nothing(root: Store) -> None:
    with locked(root):
        ours = root.read_json(layout.LOCK)
    for holder in ({"process": 2**22 + 1}, {"call": "of one that had our number"}):
        root.write_json(layout.LOCK, {**ours, "holder": {**ours["holder"], **holder}})
        with locked(root):
            pass


def test_of_a_process_elsewhere_it_counts_that_it_is_silent(root: Store) -> None:
    in_a_process(root, renewed=datetime.now(UTC).isoformat(timespec="seconds"))
    with pytest.raises(ConflictError, match="elsewhere"), locked(root):
        pass
    in_a_process(root, renewed=OLD)
    with locked(root):
        pass


def test_a_process_here_that_is_stopped_keeps_its_lock(root: Store) -> None:
    """However long it is stopped: the system knows that it has not ended."""
    with locked(root):
        ours = read_lock(root)
    assert ours is not None
    sleeper = subprocess.Popen(["sleep", "1000"])
    try:
        identity = {"process": sleeper.pid, "started": start_time(sleeper.pid), "call": "of the sleeper"}
        stopped = {**ours, "since": OLD, "renewed": OLD, "holder": {**ours["holder"], **identity}}
        root.write_json(layout.LOCK, stopped)
        sleeper.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, sleeper.pid, os.WSTOPPED | os.WNOWAIT)
        with pytest.raises(ConflictError, match="is in use") as refused, locked(root):
            pass
        assert f"process {sleeper.pid}" in str(refused.value)
        assert root.read_json(layout.LOCK) == stopped
    finally:
        sleeper.kill()
        sleeper.wait()
    with locked(root):
        pass


@pytest.mark.parametrize(
    ("holder", "minutes"),
    [({"host": "elsewhere", "process": 1, "call": "x"}, 10), ({"dag_id": "d", "run_id": "r"}, 24 * 60)],
    ids=["process", "DAG run"],
)
def test_a_lock_of_the_version_before_is_respected_until_it_expires(
    root: Store, holder: dict[str, Any], minutes: int
) -> None:
    def leave(age: int) -> None:
        since = (datetime.now(UTC) - timedelta(minutes=age)).isoformat(timespec="seconds")
        root.write_json(layout.LOCK, {"version": 1, "holder": holder, "since": since, "token": "text"})

    leave(minutes - 1)
    with pytest.raises(ConflictError, match="is in use") as refused, locked(root):
        pass
    assert str(holder.get("run_id", "elsewhere")) in str(refused.value)
    leave(minutes + 1)
    with locked(root):
        lock = root.read_json(layout.LOCK)
        assert (lock["version"], type(lock["token"])) == (2, int)


def test_a_lock_of_a_newer_version_is_respected(root: Store) -> None:
    take_lock(root, ONE)
    newer = {**root.read_json(layout.LOCK), "version": 3, "since": OLD, "holder": ["of another kind"]}
    root.write_json(layout.LOCK, newer)
    with pytest.raises(ConflictError, match="newer version") as refused, locked(root):
        pass
    assert refused.value.found == f"version 3 of {root.uri_of(layout.LOCK)}"
    assert root.read_json(layout.LOCK) == newer


def test_a_lock_is_renewed_while_it_is_held(root: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lock_module, "RENEWAL_INTERVAL", timedelta(milliseconds=10))
    with locked(root):
        end = time.monotonic() + 20
        while "renewed" not in (root.read_json(layout.LOCK)):
            assert time.monotonic() < end
            time.sleep(0.05)
    assert read_lock(root) is None


def test_a_run_keeps_what_it_began_from(root: Store) -> None:
    first = run(root, "one")
    assert begin_run(first, root, ONE)["latest"] is None
    point_at(root, pointer(root, "other"), expected=None)
    assert begin_run(first, root, ONE)["latest"] is None
    assert previous_of(first) == ""
    assert begin_run(run(root, "two"), root, TWO)["latest"] == run(root, "other").uri
    assert previous_of(run(root, "two")) == run(root, "other").uri


def test_a_relative_run_is_taken_from_the_folder_of_latest_json(root: Store) -> None:
    assert latest_run(root) is None and run_at(root) == root.uri
    run(root, "one").write_json(layout.MANIFEST, {})
    with pytest.raises(InvalidInputError, match=r"no .*latest\.json"):
        run_at(root)
    for text in ("runs/one", "./runs/../runs/one/"):
        root.write_json(layout.LATEST, {**pointer(root, "one"), "run": text})
        assert latest_run(root) == run_at(root) == run(root, "one").uri
        assert run_at(run(root, "one")) == run(root, "one").uri
    for text in ("../other/runs/one", "runs/../..", ""):
        root.write_json(layout.LATEST, {**pointer(root, "one"), "run": text})
        with pytest.raises(InvalidInputError, match="names a run outside of its folder"):
            latest_run(root)


def test_only_what_began_from_the_latest_run_is_published(root: Store) -> None:
    take_lock(root, ONE)
    first = run(root, "one")
    begin_run(first, root, ONE)
    point_at(root, pointer(root, "one"), expected=check_still_latest(first, root))
    assert latest_run(root) == first.uri
    check_still_latest(first, root)  # publishing once more is no conflict
    point_at(root, pointer(root, "other"), expected=check_still_latest(first, root))
    with pytest.raises(ConflictError, match="Another run was published") as refused:
        check_still_latest(first, root)
    assert refused.value.found == run(root, "other").uri


def test_a_run_that_lost_its_lock_is_not_published(root: Store) -> None:
    take_lock(root, ONE)
    begin_run(run(root, "one"), root, ONE)
    take_lock(root, TWO, abandoned=lambda lock: "it hangs")
    with pytest.raises(ConflictError, match="does not hold the lock") as refused:
        check_still_latest(run(root, "one"), root)
    assert "run id two" in str(refused.value)


def test_of_two_who_publish_at_once_one_is_refused(root: Store) -> None:
    expected = check_still_latest(run(root, "one"), root)
    point_at(root, pointer(root, "two"), expected=expected)
    with pytest.raises(ConflictError, match="being published"):
        point_at(root, pointer(root, "one"), expected=expected)
    assert latest_run(root) == run(root, "two").uri
