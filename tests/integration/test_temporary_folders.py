"""Temporary folders are removed with their process; the next command removes those of killed processes."""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import duckdb
import pytest

from partition_ops.cli import main
from partition_ops.system.temporary_folders import (
    PREFIX,
    has_ended,
    new_folder,
    remove_abandoned,
    remove_own,
    temporary_folder,
)
from tests.campaign.faults import no_mounts, small_disk
from tests.command_line import Called

MAKE = """
from partition_ops.system.temporary_folders import new_folder
print(new_folder(), flush=True)
input()
"""


@pytest.fixture(autouse=True)
def below(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return the parent of temporary folders."""
    folder = tmp_path / "below"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    monkeypatch.setattr(tempfile, "tempdir", None)
    return folder


@contextmanager
def another_process() -> Iterator[tuple[subprocess.Popen[str], Path]]:
    """Start a process that waits and has a temporary folder with a file."""
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", MAKE], stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        (folder / "deep").mkdir()
        (folder / "deep" / "file").write_text("x")
        try:
            yield process, folder
        finally:
            process.kill()


def test_only_folders_of_ended_processes_are_removed(below: Path) -> None:
    with another_process() as (living, kept), another_process() as (killed, gone):
        assert kept.parent == gone.parent == below
        killed.send_signal(signal.SIGKILL)
        killed.wait()
        remove_abandoned()
        assert (kept / "deep" / "file").exists() and living.poll() is None
        assert not gone.exists()


def test_any_command_removes_it(below: Path) -> None:
    with another_process() as (killed, gone):
        killed.send_signal(signal.SIGKILL)
    assert gone.exists()
    assert main(["schema", str(below / "no-graph"), "--output", str(below / "schema.json")]) == 3
    assert not gone.exists()


def test_room_is_made_in_a_full_place(below: Path) -> None:
    """Python cannot write there, and would use another folder."""
    with another_process() as (killed, gone):
        killed.send_signal(signal.SIGKILL)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        remove_abandoned()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert not gone.exists()


def test_folders_that_another_command_removes_are_ignored(
    below: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with another_process() as (killed, gone):
        killed.send_signal(signal.SIGKILL)
    for number in range(3):
        (below / f"{gone.name}{number}").mkdir()
    others = [*below.glob("*")][1:]  # in the order of their discovery

    def asked(process: int, start: str) -> bool:
        if len(others) == 3:
            shutil.rmtree(others.pop(0))
        return has_ended(process, start)

    monkeypatch.setattr("partition_ops.system.temporary_folders.has_ended", asked)
    remove_abandoned()
    assert not [*below.iterdir()]


def test_a_reused_process_id_is_another_owner(below: Path) -> None:
    ours = new_folder()
    head, process, start, tail = ours.name.rsplit("-", 3)
    assert int(process) == os.getpid()
    before_us = below / f"{head}-{process}-{int(start) - 1}-{tail}"
    before_us.mkdir()
    remove_abandoned()
    assert ours.exists() and not before_us.exists()


def test_folders_of_other_hosts_and_unknown_owners_stay(below: Path) -> None:
    with another_process() as (killed, gone):
        killed.send_signal(signal.SIGKILL)
    system, *owner = gone.name.removeprefix(PREFIX).split("-", 3)
    names = [
        f"{PREFIX}abc",
        f"{PREFIX}{system}-x",
        f"{PREFIX}{system}-{'9' * 30}-1-x",
        PREFIX + "-".join(["0" * len(system), *owner]),
    ]
    for name in names:
        (below / name).mkdir()
    (below / "linked").mkdir()
    (below / f"{gone.name}2").symlink_to(below / "linked")
    (below / f"{gone.name}3").write_text("a file")
    remove_abandoned()
    assert {path.name for path in below.iterdir()} == {*names, "linked", f"{gone.name}2", f"{gone.name}3"}


def test_a_folder_is_removed_with_its_context(below: Path) -> None:
    with temporary_folder() as folder:
        assert Path(folder).stat().st_mode & 0o777 == 0o700
        remove_abandoned()
        assert Path(folder).exists()
    assert not [*below.iterdir()]


def test_own_folders_are_removed_in_every_parent(below: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A verb may have used a parent of its own."""
    monkeypatch.setattr("partition_ops.system.temporary_folders.PARENTS", set())
    for name in ("one", "other"):
        (below / name).mkdir()
        monkeypatch.setattr(tempfile, "tempdir", str(below / name))
        (new_folder() / "file").write_text("x")
    remove_own()
    assert [path.name for path in sorted(below.rglob("*"))] == ["one", "other"]


@pytest.mark.parametrize("table", ["u.csv", "u.parquet", "{sql: SELECT * FROM t, database: u.duckdb}"])
@pytest.mark.parametrize("size", [64, 1024])
def test_ingest_names_a_full_disk_for_temporary_files(
    table: str, size: int, tmp_path: Path, below: Path, called: Called
) -> None:
    """64 KiB are too little to begin, and 1 MiB to keep a table of 500,000 rows."""
    if (reason := no_mounts()) is not None:
        pytest.skip(reason)
    with duckdb.connect(str(tmp_path / "u.duckdb")) as database:
        database.execute("CREATE TABLE t AS SELECT range AS k, hash(range) AS x FROM range(500000)")
        for suffix in ("csv", "parquet"):
            database.execute(f"COPY t TO '{tmp_path}/u.{suffix}'")
    graph = tmp_path / "graph.yaml"
    graph.write_text(
        f"graph_name: g\nnodes: {{u: {{table: {table}, key: k}}}}\n"
        "edges: {'u:r:u': {table: u.csv, src: k, dst: k}}\n"
    )
    below.rmdir()
    with small_disk(below, size):
        done = called("ingest", graph, tmp_path / "out")
    assert done.returncode == 1, done.stderr
    assert (
        "The disk for temporary files is full" in done.stderr and f"Free some space in {below}" in done.stderr
    )
    assert called("ingest", graph, tmp_path / "out").returncode == 0
