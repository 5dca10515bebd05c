"""Imports between the packages of the library point one way, and no two files import each other."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from pathlib import Path

import partition_ops

ROOT = Path(partition_ops.__file__).parent
# a package imports only from those before it; a package does not import its neighbours in the same row
LAYERS = (
    {"errors"},
    {"options", "system"},
    {"storage"},
    {"chunked"},
    {"artifacts"},
    {"traffic"},
    {"formats"},
    {"train"},
    {"stages"},
    {"jobs", "verification"},
    {"api", "cli", "ingest"},
)
RANKS = {name: rank for rank, layer in enumerate(LAYERS) for name in layer}


def modules() -> dict[str, Path]:
    """Return every module of the library by its name, without the package itself, which imports lazily."""
    found = {}
    for path in ROOT.rglob("*.py"):
        parts = path.relative_to(ROOT.parent).with_suffix("").parts
        found[".".join(parts).removesuffix(".__init__")] = path
    del found["partition_ops"]
    return found


def imports(path: Path, known: dict[str, Path]) -> Iterator[str]:
    """Yield the modules that a file imports, also in functions, but not those for type checkers only."""
    pending: list[ast.AST] = [ast.parse(path.read_text())]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            continue
        pending += ast.iter_child_nodes(node)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("partition_ops"):
            names = (f"{node.module}.{alias.name}" for alias in node.names)
            yield from (name if name in known else str(node.module) for name in names)
        elif isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names if alias.name in known)


def graph() -> dict[str, set[str]]:
    known = modules()
    return {name: {*imports(path, known)} & {*known} for name, path in known.items()}


def test_packages_import_only_from_lower_layers() -> None:
    wrong = []
    for name, imported in graph().items():
        own = name.split(".")[1]
        for other in (module.split(".")[1] for module in imported):
            if other != own and RANKS[other] >= RANKS[own]:
                wrong.append(f"{name} imports from {other}")
    assert not wrong


def test_stages_do_not_import_each_other() -> None:
    wrong = []
    for name, imported in graph().items():
        if name.startswith("partition_ops.stages."):
            own = ".".join(name.split(".")[:3])
            stages = (module for module in imported if module.startswith("partition_ops.stages."))
            wrong += [
                f"{name} imports {module}" for module in stages if not f"{module}.".startswith(f"{own}.")
            ]
    assert not wrong


def test_no_files_import_each_other() -> None:
    TopologicalSorter(graph()).prepare()  # raises an error with the cycle
