"""Paths of the project that comments, docstrings and pages name exist."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from local_stack.folders import PROJECT

FOLDERS = (
    *("benchmarks", "dags", "deploy", "docs", "examples", "local_stack"),
    *("partition_ops", "plugins", "schemas", "tests", r"\.ci"),
)
PATH = re.compile(rf"(?<![\w./:-])(?:{'|'.join(FOLDERS)})/[\w./-]*[\w/]")
MODULE = re.compile(r"(?:python -m |`)((?:benchmarks|tests|local_stack)(?:\.\w+)+)")
PAGES = [
    *(PROJECT / name for name in ("README.md", "CONTRIBUTING.md", "Makefile", "pyproject.toml", ".ci/run")),
    *(path for path in (PROJECT / "docs").rglob("*.md")),
]
FILES = [
    path
    for name in ("benchmarks", "dags", "docs", "examples", "local_stack", "partition_ops", "plugins", "tests")
    for path in (PROJECT / name).rglob("*.py")
]
# Files that readers make, and names that stand for other ones.
ABSENT = {
    *("deploy/certificates/ca.pem", "docs/en/", "partition_ops/formats/<name>", "tests/..."),
    "partition_ops/_dags",
    "partition_ops/_examples",
    "partition_ops/_schemas",  # in the wheel
}
EXAMPLE = re.compile(r"^```python\n# (\S+)$", re.MULTILINE)  # a file that a page tells readers to write


def texts(path: Path) -> Iterator[str]:
    """Return the text of a page, or the comments and docstrings of a module that has paths anywhere."""
    text = path.read_text()
    if path.suffix != ".py" or not (PATH.search(text) or MODULE.search(text)):
        yield text
        return
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield ast.get_docstring(node) or ""


def is_missing(name: str) -> bool:
    return not (PROJECT / name).exists()


def is_missing_module(name: str) -> bool:
    """Whether neither a module nor an attribute of a module has this name."""
    parts = name.split(".")
    places = [PROJECT.joinpath(*parts[:length]) for length in range(2, len(parts) + 1)]
    return not any(place.with_suffix(".py").exists() for place in places) and not places[-1].is_dir()


def test_named_paths_exist() -> None:
    missing = {}
    for path in (*PAGES, *FILES):
        text = "\n".join(texts(path))
        found = {name for name in PATH.findall(text) if is_missing(name)}
        found -= ABSENT | {*EXAMPLE.findall(text)}
        found |= {name for name in MODULE.findall(text) if is_missing_module(name)}
        if found:
            missing[path.relative_to(PROJECT).as_posix()] = found
    assert missing == {}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("see tests/nowhere.py", ["tests/nowhere.py"]),
        ("`docs/nowhere/`.", ["docs/nowhere/"]),
        ("https://example.org/docs/nowhere, out/tests/nowhere", []),
    ],
)
def test_paths_are_recognized(text: str, found: list[str]) -> None:
    assert PATH.findall(text) == found


def test_names_of_test_files_differ() -> None:
    """In folders that are no packages, pytest imports two files of one name as one, and the run fails."""
    paths = (PROJECT / "tests").rglob("test_*.py")
    names = Counter(path.name for path in paths if not (path.parent / "__init__.py").exists())
    assert not [name for name, count in names.items() if count > 1]
