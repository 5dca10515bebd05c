"""Loops that numba compiles: without counting references, and where their code is kept."""

from __future__ import annotations

import ast
import re
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from numba.core import config

import partition_ops
from partition_ops.system import compilation

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
