"""Temporary folders of tests: in memory, where a small job takes half of the time, or on a disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from partition_ops.system.memory import memory_limit

IN_MEMORY = Path("/dev/shm")
FREE_BYTES = 3 << 30  # the folders of all tests have 1.2 GB, if none is removed
MEMORY_BYTES = 6 << 30
ROOT = "PYTEST_DEBUG_TEMPROOT"  # pytest's name for the folder of its temporary folders


def use_memory() -> None:
    """Put pytest's temporary folders into memory if there is room, and the environment names no other place.

    Containers of Docker have 64 MB in ``/dev/shm``.
    """
    if (
        IN_MEMORY.is_dir()
        and shutil.disk_usage(IN_MEMORY).free >= FREE_BYTES
        and memory_limit() >= MEMORY_BYTES
    ):
        os.environ.setdefault(ROOT, str(IN_MEMORY))


def temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """Return a folder beside those of pytest, for a test that makes many; it is removed after its block."""
    return tempfile.TemporaryDirectory(dir=os.environ.get(ROOT))


@pytest.fixture(scope="session", name="tmp_path_factory")
def on_disk(request: pytest.FixtureRequest) -> Iterator[pytest.TempPathFactory]:
    """Return pytest's own factory with folders below ``TMPDIR``.

    For tests of what memory does not have: O_DIRECT, and mapped pages that count as those of files. A module
    or a ``conftest.py`` imports it.
    """
    factory = pytest.TempPathFactory.from_config(request.config, _ispytest=True)
    factory._given_basetemp = None  # the folder in memory that pytest-xdist gives to this process
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(ROOT, tempfile.gettempdir())
        factory.getbasetemp()
    yield factory
    factory._exit_stack.close()
