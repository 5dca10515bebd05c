"""Loops that numba compiles without counting references."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import partition_ops

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
