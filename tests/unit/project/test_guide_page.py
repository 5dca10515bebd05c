"""docs/guide.md names tests that exist, and every test of tests/guide."""

from __future__ import annotations

import ast
import re

from local_stack.folders import PROJECT

TEXT = (PROJECT / "docs/guide.md").read_text()
NAMED = {tuple(name.split("::")) for name in re.findall(r"`(tests/[\w/]+\.py(?:::\w+)?)`", TEXT)}


def names_in(path: str) -> set[str]:
    tree = ast.parse((PROJECT / path).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef) and node.name[:5] == "test_"}


def test_every_test_that_the_page_names_exists() -> None:
    assert len(NAMED) > 40
    missing = [name for name in NAMED if not (PROJECT / name[0]).is_file()]
    missing += [name for name in NAMED if len(name) == 2 and name[1] not in names_in(name[0])]
    assert missing == []


def test_the_page_names_every_file_of_the_guides_tests() -> None:
    files = {path.relative_to(PROJECT).as_posix() for path in PROJECT.glob("tests/guide/test_*.py")}
    assert files <= {name[0] for name in NAMED}
