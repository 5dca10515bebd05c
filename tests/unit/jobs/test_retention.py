"""Retention removes what it may, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops import cli
from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import take_lock
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.retention import RetentionConfig, marks, retain_runs
from partition_ops.storage import open_store
from partition_ops.storage.local_store import LocalStore

NOW = 2_000_000_000.0
DAY = 86_400.0
MARKED = (layout.VALIDATION_REPORT, layout.record("validate"), layout.record("partition"))
HOLDER = {"dag_id": "partition_graph", "run_id": "at work"}


@dataclass(frozen=True)
class Run:
    """A run of a graph: when its files were written, whether it is finished, and what it began from."""

    days: int
    finished: bool
    began_from: int | None = None


RUNS = st.lists(
    st.builds(Run, st.integers(0, 30), st.booleans(), st.none() | st.integers(0, 5)), min_size=1, max_size=6
)


def write(root: Path, runs: list[Run], latest: int | None, holder: int | None) -> None:
    """A graph's root with runs ``r0``, ``r1``, …, and files beside them that are nobody's business."""
    shutil.rmtree(root.parent, ignore_errors=True)
    for number, run in enumerate(runs):
        folder = root / "runs" / f"r{number}"
        put(folder / "partitions" / "part0" / "graph.dgl", "x" * 10, run.days)
        put(folder / MARKED[number % len(MARKED)], "{}", run.days)
        if run.finished:
            put(folder / layout.MANIFEST, "{}", run.days)
        if run.began_from is not None or number == holder:
            began = None if run.began_from is None else f"s3://elsewhere/g/runs/r{run.began_from}"
            who = HOLDER if number == holder else {"run_id": str(number)}
            beginning = {"version": 1, "latest": began, "holder": who}
            put(folder / layout.BEGINNING, json.dumps(beginning), run.days)
    for beside in (
        "notes.txt",
        "runs/notes.txt",
        "runs/tensorboard/validation/events",
        "runs/tensorboard/manifest.json",
        "runs.old/r0/manifest.json",
        "../other/runs/r0/manifest.json",
    ):
        put(root / beside, "{}", 99)
    if latest is not None:
        (root / layout.LATEST).write_text(json.dumps(pointer(f"{root}/runs/r{latest}")))
    if holder is not None:
        take_lock(open_store(str(root)), HOLDER)


def put(path: Path, text: str, days: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, (NOW - days * DAY, NOW - days * DAY))


def pointer(run: str) -> dict[str, object]:
    keys = dict.fromkeys(("graph_name", "run_id", "manifest", "partition_config"), "g")
    return {"version": 1, "run": run, "num_parts": 1, **keys}


def files(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}


@settings(max_examples=40)
@given(
    runs=RUNS,
    latest=st.integers(0, 5),
    holder=st.none() | st.integers(0, 5),
    keep=st.integers(1, 4),
    grace=st.integers(0, 20),
    dry_run=st.booleans(),
)
def test_it_removes_old_runs_and_nothing_else(
    tmp_path_factory: pytest.TempPathFactory,
    runs: list[Run],
    latest: int,
    holder: int | None,
    keep: int,
    grace: int,
    dry_run: bool,
) -> None:
    top = tmp_path_factory.getbasetemp() / "retention" / "in"
    root = top / "g"
    write(root, runs, latest, holder)
    before = files(top)
    config = RetentionConfig(keep=keep, grace=timedelta(days=grace), dry_run=dry_run)
    retained = retain_runs(config, open_store(str(root)), now=NOW)

    by_age = sorted((r.days, -n) for n, r in enumerate(runs) if r.finished)
    newest = {-n for _, n in by_age[:keep]}
    needed = {latest, holder} | (
        {runs[holder].began_from} if holder is not None and holder < len(runs) else set()
    )
    expected = {n for n, run in enumerate(runs) if n not in newest | needed and run.days >= grace}
    assert set(retained.removed) == {f"{root}/runs/r{n}" for n in expected}
    gone = {f"g/runs/r{n}/" for n in expected} if not dry_run else set()
    assert files(top) == {key for key in before if not key.startswith(tuple(gone))}
    assert retained.kept.keys() == {f"{root}/runs/r{n}" for n in set(range(len(runs))) - expected}
    assert all(retained.kept.values())
    assert retained.passed_over == [f"{root}/runs/tensorboard"]


def test_one_that_is_removed_in_part_is_not_finished(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever moment the process dies at."""
    root = tmp_path / "g"
    write(root, [Run(20, True), Run(1, True)], latest=1, holder=None)

    class Killed(BaseException):
        pass

    delete = LocalStore.delete

    def die(self: LocalStore, keys: Iterable[str]) -> None:
        keys = [*keys]
        if not marks().isdisjoint(keys):
            raise Killed
        delete(self, keys)

    with monkeypatch.context() as patch, pytest.raises(Killed):
        patch.setattr(LocalStore, "delete", die)
        retain_runs(RetentionConfig(keep=1, grace=timedelta(days=7)), open_store(str(root)), now=NOW)
    assert not (root / "runs/r0" / layout.MANIFEST).exists()
    assert not (root / "runs/r0/partitions/part0/graph.dgl").exists()
    assert (root / "runs/r0" / MARKED[0]).exists(), "the next call would not take it for a run"
    retain_runs(RetentionConfig(keep=1, grace=timedelta(days=7)), open_store(str(root)), now=NOW)
    assert not (root / "runs/r0").exists()


def test_a_link_out_of_the_root_is_not_followed(tmp_path: Path) -> None:
    root, outside = tmp_path / "g", tmp_path / "precious"
    write(root, [Run(20, True), Run(1, True)], latest=1, holder=None)
    put(outside / "manifest.json", "{}", 99)
    (root / "runs" / "link").symlink_to(outside)
    try:
        retain_runs(RetentionConfig(keep=1), open_store(str(root)), now=NOW)
    except InvalidInputError as error:
        assert "leads out of the root" in str(error)
    assert (outside / "manifest.json").exists()


@pytest.mark.parametrize("broken", ["{", '{"version": 1}'])
def test_nothing_is_removed_while_latest_cannot_be_read(tmp_path: Path, broken: str) -> None:
    root = tmp_path / "g"
    write(root, [Run(20, True), Run(1, True)], latest=None, holder=None)
    (root / layout.LATEST).write_text(broken)
    before = files(tmp_path)
    with pytest.raises(InvalidInputError, match=r"latest\.json"):
        retain_runs(RetentionConfig(keep=1), open_store(str(root)), now=NOW)
    assert files(tmp_path) == before


@pytest.mark.parametrize("options", [{"keep": 0}, {"keep": 1, "grace": timedelta(days=-1)}])
def test_wrong_numbers_are_wrong_use(options: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        RetentionConfig(**options)


@pytest.mark.parametrize("dry_run", [[], ["--dry-run"]])
@pytest.mark.parametrize("what", ["nothing", "a folder", "an output", "runs that nobody published"])
def test_what_is_no_root_of_runs_is_refused_and_left_alone(
    tmp_path: Path, what: str, dry_run: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    root = tmp_path / "g"
    if what == "a folder":
        root.mkdir()
    if what == "an output":
        put(root / layout.MANIFEST, "{}", 99)
    if what == "runs that nobody published":
        write(root, [Run(5000, True), Run(4000, True)], latest=None, holder=None)
    before = sorted(tmp_path.rglob("*"))
    assert cli.main(["retain", str(root), "--keep", "1", *dry_run]) == 3
    said = capsys.readouterr().err
    assert f"no latest.json below {root}" in said
    assert ("no runs/ below" in said) == (what != "runs that nobody published")
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize("grace", ["9" * 400 + "d", "99999999999d", "7", "-7d", "d"])
def test_a_grace_that_is_no_time_is_wrong_use(grace: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["retain", "g", "--keep", "1", "--grace", grace])
    assert ended.value.code == 2
    assert "argument --grace: " in capsys.readouterr().err


@pytest.fixture
def old_run(tmp_path: Path) -> Callable[[], bool]:
    """Two runs years ago; whether the older one is still there."""
    write(tmp_path / "g", [Run(5000, True), Run(4000, True)], latest=1, holder=None)
    return (tmp_path / "g/runs/r0").exists


def test_the_verb(tmp_path: Path, old_run: Callable[[], bool], capsys: pytest.CaptureFixture[str]) -> None:
    words = ["retain", str(tmp_path / "g"), "--keep", "1", "--grace", "12h", "--json"]
    before = (tmp_path / "g").stat().st_mtime_ns
    assert cli.main([*words, "--dry-run"]) == 0
    assert (tmp_path / "g").stat().st_mtime_ns == before, "something was written, be it for a moment"
    planned = json.loads(capsys.readouterr().out)
    assert planned["dry_run"] and old_run()
    assert cli.main(words) == 0
    assert json.loads(capsys.readouterr().out)["removed"] == planned["removed"]
    assert not old_run()
    assert not (tmp_path / "g" / layout.LOCK).exists()


def test_the_verb_waits_for_nobody_who_works_on_the_graph(
    tmp_path: Path, old_run: Callable[[], bool]
) -> None:
    take_lock(open_store(str(tmp_path / "g")), HOLDER)
    assert cli.main(["retain", str(tmp_path / "g"), "--keep", "1"]) == 1
    assert old_run()
