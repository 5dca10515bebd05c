"""Memory that the process has freed is used again: its pages are not cleared a second time."""

from __future__ import annotations

import os
import platform
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest
from graph_partitioning.operators.schema import WriteSchemaOperator

from partition_ops import cli
from partition_ops.jobs import whole_job
from partition_ops.stages.partition import partition
from partition_ops.system import memory
from partition_ops.system.memory import LEAST_MEMORY, memory_limit
from tests.airflow_tasks import TaskInstance
from tests.graphs import library

LIBRARY, VERSION = platform.libc_ver()
NEEDS_GLIBC = pytest.mark.skipif(
    LIBRARY != "glibc" or tuple(map(int, VERSION.split("."))) < (2, 35),
    reason="only glibc has the options, since version 2.35",
)
NEEDS_MEMORY = pytest.mark.skipif(
    memory_limit() < LEAST_MEMORY, reason="freed memory is kept only where there is enough"
)
ARRAY = 40 << 20  # bytes; glibc maps each array of this size, if nothing is set
PAGES = ARRAY >> 12
COUNT = f"""
import ctypes, resource, sys
import numpy as np
from partition_ops.system.memory import keep_freed_memory

def faults(times):
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    for _ in range(times):
        np.ones({ARRAY}, np.uint8)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

ctypes.CDLL(None).prctl(41, 1, 0, 0, 0)  # no huge pages
for memory in sys.argv[1:]:
    keep_freed_memory(int(memory))
faults(1)
print(faults(5))
"""


@NEEDS_GLIBC
@NEEDS_MEMORY
@pytest.mark.parametrize(
    ("arguments", "cleared"), [([], True), ([str(8 << 30)], False), ([str(2 << 30)], True)]
)
def test_large_arrays_use_freed_memory_where_there_is_enough(arguments: list[str], cleared: bool) -> None:
    environment = {**os.environ, "NUMPY_MADVISE_HUGEPAGE": "0"}
    command = [sys.executable, "-c", COUNT, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True)
    assert (int(done.stdout) > 4 * PAGES) == cleared


HOLES = """
import numpy as np, psutil
from partition_ops.system.memory import give_back_freed_memory, keep_freed_memory

keep_freed_memory()
arrays = [np.ones(1 << 20, np.uint8) for _ in range(256)]
del arrays[:-1]  # the last one keeps what lies before it in the heap
before = psutil.Process().memory_info().rss
give_back_freed_memory()
print((before - psutil.Process().memory_info().rss) >> 20)
"""


@NEEDS_GLIBC
@NEEDS_MEMORY
def test_freed_memory_between_arrays_in_use_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", HOLES], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 200  # MiB, of 255


BUFFERS = """
import numpy as np, psutil, pyarrow as pa
from partition_ops.system.memory import give_back_freed_memory

buffers = [pa.allocate_buffer(1 << 17) for _ in range(2048)]
for buffer in buffers:
    np.frombuffer(buffer, np.uint8).sum()
del buffers, buffer
before = psutil.Process().memory_info().rss
give_back_freed_memory()
print((before - psutil.Process().memory_info().rss) >> 20)
"""


def test_memory_that_arrow_keeps_for_the_next_file_is_given_back() -> None:
    done = subprocess.run([sys.executable, "-c", BUFFERS], capture_output=True, text=True, check=True)
    assert int(done.stdout) > 200  # MiB, of 256


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Mock]:
    with monkeypatch.context() as patched:
        patched.setattr(memory, "keep_freed_memory", found := Mock())
        yield found


def test_commands_keep_it_within_their_bound(
    kept: Mock, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["estimate", str(library().write(tmp_path / "in")), "--num-parts", "2", "--memory", "4G"]
    assert cli.main(words) == 0
    assert not kept.called  # in the process of somebody else
    monkeypatch.setattr(sys, "argv", ["partition-ops", *words])
    monkeypatch.setattr(sys, "setswitchinterval", Mock())
    monkeypatch.setattr(cli.atexit, "register", Mock())
    with pytest.raises(SystemExit, match="0"):
        cli.command()
    kept.assert_called_once_with(4 << 30)


def test_tasks_of_airflow_keep_it(kept: Mock, tmp_path: Path) -> None:
    where = {"input_uri": str(library().write(tmp_path / "in")), "output_uri": str(tmp_path / "out")}
    TaskInstance().run(WriteSchemaOperator(task_id="schema", **where))
    kept.assert_called_once_with()


def test_a_job_gives_back_what_was_freed_between_stages_and_before_the_search(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(whole_job, "give_back_freed_memory", between := Mock())
    monkeypatch.setattr(partition, "give_back_freed_memory", before := Mock())
    assert (
        cli.main(["run", str(library().write(tmp_path / "in")), str(tmp_path / "out"), "--num-parts", "2"])
        == 0
    )
    before.assert_called_once_with()
    assert between.call_count >= len(["validate", "schema", "prepare", "partition", "convert", "publish"])
