"""Loops that numba compiles: without counting references, and where their code is kept."""

from __future__ import annotations

import ast
import ctypes
import mmap
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numba import njit
from numba.core import config

import partition_ops
from partition_ops.system import compilation
from partition_ops.system.compilation import AHEAD, prefetch, prefetch_ahead

NUMBERS = re.compile(r"None|(np\.)?(int|float|bool)(\d+|_)?|[, ]")


def uncounted_loops() -> dict[str, str]:
    """Return the return type of each loop that counts no references."""
    found = {}
    for path in Path(partition_ops.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.FunctionDef) and "compiled" in map(ast.unparse, node.decorator_list):
                assert node.returns is not None
                found[f"{path.name}: {node.name}"] = ast.unparse(node.returns)
    return found


def test_they_return_numbers_only() -> None:
    """An array that they return would be freed while it is used. numba rejects those that make one."""
    found = uncounted_loops()
    assert len(found) > 20
    kinds = {name: re.sub(r"tuple\[(.*)\]", r"\1", kind) for name, kind in found.items()}
    assert not {name: kind for name, kind in kinds.items() if NUMBERS.sub("", kind)}


def test_threads_that_import_at_once_keep_code_in_the_same_folder(monkeypatch: pytest.MonkeyPatch) -> None:
    settings: Any = config
    seen: list[str] = []

    def njit(**options: object) -> Callable[[object], object]:
        for _ in range(3):  # numba looks again while it decides
            seen.append(settings.CACHE_DIR)
            time.sleep(0.01)
        return lambda loop: loop

    before = settings.CACHE_DIR
    monkeypatch.setattr(compilation, "njit", njit)
    monkeypatch.setattr(compilation, "LOOPS", [])
    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(compilation.compiled, [len] * 8)] == [len] * 8
    assert {*seen} == {compilation.cache_folder()}
    assert before == settings.CACHE_DIR


@njit(nogil=True, _nrt=False)
def _read(table: Any, places: Any) -> Any:
    """Return the sum of the first column at some places."""
    total = 0.0
    for i in range(len(places)):
        prefetch_ahead(table, places, i)
        prefetch(table, i)
        total += table[places[i], 0] if table.ndim == 2 else table[places[i]]
    return total


@pytest.mark.parametrize("dtype", [np.int32, np.int64, np.uint16])
@pytest.mark.parametrize("shape", [(5,), (5, 4)])
def test_prefetching_changes_no_result(dtype: type, shape: tuple[int, ...]) -> None:
    """Neither with few places, nor with a place outside of the table, as of the last turns of a loop."""
    table = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    for count in (0, 1, AHEAD, 100):
        places = (np.arange(count) % len(table)).astype(dtype)
        assert _read(table, places) == table.reshape(len(table), -1)[places, :1].sum()


def test_prefetching_reads_no_place_after_the_last() -> None:
    """The page after the places may not be read: that would end the process."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    both = np.frombuffer(memory, np.int64)
    address = both.ctypes.data + page
    libc = ctypes.CDLL(None, use_errno=True)
    assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(page), 0) == 0
    try:
        assert _read(np.ones(1), both[: page // both.itemsize]) == page // both.itemsize
    finally:
        assert libc.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(page), 3) == 0


def test_the_instruction_is_in_the_code() -> None:
    assert _read(np.ones(1), np.zeros(40, np.int64)) == 40
    code = "".join(_read.inspect_llvm().values())
    assert "@llvm.prefetch" in code
