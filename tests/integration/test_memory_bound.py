"""``--memory`` bounds a command and its children: it plans with that, is rejected, or ends with an error."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.cli import main
from partition_ops.errors import NotEnoughRoomError
from partition_ops.stages.convert import STAGE
from partition_ops.stages.partition.metis_library import call_in_child
from partition_ops.storage import open_store
from partition_ops.system.memory import memory_limit, planned_memory
from partition_ops.system.memory_guard import ProcessTree, at_work, bounded_memory
from tests.command_line import call
from tests.graphs import Edges, Layout, SmallGraph, Values
from tests.integration.test_killed import content
from tests.temporary import on_disk  # noqa: F401

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what processes hold")
MIB = 1 << 20
MOST_SECONDS = 60


def held() -> int:
    return ProcessTree().held(0)


def take(size: int) -> None:
    """Take memory in steps, until somebody interrupts it."""
    taken = []
    for _ in range(size // (8 * MIB)):
        taken.append(np.ones(MIB))
        time.sleep(0.02)
    time.sleep(MOST_SECONDS)


def test_work_that_takes_more_ends_with_an_error_and_other_work_does_not() -> None:
    bound = held() + 128 * MIB
    with bounded_memory(bound):
        assert memory_limit() == bound
        assert planned_memory(None, 0.25) == bound // 4
        time.sleep(0.6)
    with (
        pytest.raises(NotEnoughRoomError, match="convert took more memory than --memory allows") as caught,
        bounded_memory(bound),
        at_work("convert-scatter0", STAGE.remedy),
    ):
        take(512 * MIB)
    most = f"{bound / MIB:,.1f} MiB" if bound < 1024 * MIB else f"{bound / MIB / 1024:,.2f} GiB"
    assert "in 1 process" in str(caught.value.found) and most in str(caught.value)
    assert "--num-parts" in str(caught.value.remedy)
    assert memory_limit() > bound


def test_work_in_a_thread_is_ended_too() -> None:
    def work() -> None:
        with bounded_memory(held() + 64 * MIB):
            for _ in range(MOST_SECONDS * 100):  # an interruption waits for the end of a call
                taken.append(np.ones(MIB // 2))
                time.sleep(0.01)

    taken: list[object] = []
    with ThreadPoolExecutor(1) as pool, pytest.raises(NotEnoughRoomError):
        pool.submit(work).result(MOST_SECONDS)


def test_waiting_for_other_threads_is_interrupted() -> None:
    stop = threading.Event()
    with ThreadPoolExecutor(1) as pool:
        began = time.monotonic()
        with pytest.raises(NotEnoughRoomError), bounded_memory(held() // 2):
            try:
                pool.submit(stop.wait, MOST_SECONDS).result()
            finally:
                stop.set()
    assert time.monotonic() - began < MOST_SECONDS / 2


CHILD = "import time; taken = b'x' * (256 << 20); print(flush=True); time.sleep(60)"


def test_children_count_and_are_ended() -> None:
    with (
        pytest.raises(NotEnoughRoomError) as caught,
        bounded_memory(held() + 128 * MIB),
        subprocess.Popen([sys.executable, "-c", CHILD], stdout=subprocess.PIPE) as child,
    ):
        child.wait(MOST_SECONDS)
        time.sleep(MOST_SECONDS)
    assert "in 2 processes" in str(caught.value.found)
    assert child.returncode < 0


def test_memory_that_a_child_shares_counts_once() -> None:
    taken = np.ones(32 * MIB)  # 256 MiB
    with bounded_memory(held() + 128 * MIB):
        call_in_child("It", lambda: time.sleep(1.5) or 0)  # type: ignore[func-returns-value]
    assert taken.all()


@contextmanager
def sleeping() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["sleep", str(MOST_SECONDS)]) as child:
        try:
            yield child
        finally:
            child.kill()


def test_processes_of_others_do_not_count() -> None:
    """The parent of this process, and children that it had before: a program may call the library."""
    with sleeping() as before:
        tree = ProcessTree()
        with sleeping() as child:
            assert tree.held(1 << 50) > 0
            assert tree.processes == {os.getpid(), child.pid}
            tree.terminate_children()
            assert child.wait(MOST_SECONDS) == -signal.SIGTERM
        assert before.poll() is None


STUCK = """
import os, time
from concurrent.futures import ThreadPoolExecutor
from partition_ops.system import memory_guard
memory_guard.PATIENCE = 0.5
def work():
    time.sleep(1)  # until the other thread waits
    taken = b'x' * (256 << 20)
    time.sleep(60)
def give_up(error):
    print(error, flush=True)
    os._exit(7)
held = memory_guard.ProcessTree().held(0)
with memory_guard.bounded_memory(held + (64 << 20), give_up=give_up):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(work).result()
"""


def test_compiled_code_that_does_not_notice_is_given_up() -> None:
    done = subprocess.run([sys.executable, "-c", STUCK], capture_output=True, text=True, timeout=MOST_SECONDS)
    assert done.returncode == 7
    assert "The command took more memory than --memory allows" in done.stdout


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With features that reads hold, and enough edges that METIS takes more than small bounds for a while."""
    rng = np.random.default_rng(0)
    nodes, edges = 200_000, 2_000_000
    begins = np.arange(edges) % nodes
    ends = np.stack([begins, (begins + 1 + np.arange(edges) // nodes * 997) % nodes])
    feature = Values("a", "feat", rng.random((nodes, 20), np.float32), Layout("numpy"))
    return SmallGraph({"a": nodes}, {"a:r:a": Edges(*ends)}, node_values=[feature]).write(
        tmp_path_factory.mktemp("bound") / "in"
    )


def test_a_job_is_rejected_or_ended_whole_and_repeated_with_more(graph: Path, tmp_path: Path) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    out, words = tmp_path / "out", ["run", graph, tmp_path / "out", "--num-parts", 2, "--engine", "metis"]
    rejected = call(*words, "--memory", "100M")
    assert rejected.returncode == 1
    assert "100.0 MiB of memory" in rejected.stderr and "MiB of memory, for" in rejected.stderr
    assert "Allow more with --memory." in rejected.stderr
    assert not (out / layout.RECORDS).exists()

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TMPDIR", str(temporary))
        ended = call(*words, "--memory", "100M", "--ignore-estimate")
    assert ended.returncode == 1, ended.stderr
    assert "took more memory than --memory allows, and was ended" in ended.stderr
    assert "at most 100.0 MiB" in ended.stderr and "Traceback" not in ended.stderr
    assert not (out / layout.MANIFEST).exists() and not (out / layout.LOCK).exists()
    assert not [*temporary.iterdir()]
    assert not [path for path in out.rglob("*") if ".partial-" in path.name]

    for call_words, more in (
        (words, ["--memory", "2G"]),
        (["run", graph, tmp_path / "free", *words[3:]], []),
    ):
        assert main([*map(str, call_words), *more]) == 0
    found, expected = (content(open_store(str(path))) for path in (out, tmp_path / "free"))
    differing = {key for key in {*found, *expected} if found.get(key) != expected.get(key)}
    assert differing <= {"records/convert-scatter0.json"}  # sizes of slices, which depend on memory
