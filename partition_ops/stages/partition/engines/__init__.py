"""The engines: a file or a folder each, which defines ``ENGINE``. Listing them imports none."""

from __future__ import annotations

import ast
import pkgutil
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

FIRST = ("auto", "two-level")  # in lists; the others follow in alphabetical order


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines: those of the modules in this folder, with ``-`` for ``_``."""
    names = {module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)}
    return tuple(sorted(names, key=lambda name: (name not in FIRST, name)))


def module_of(name: str) -> str:
    """Return the name of the module of an engine."""
    return f"{__name__}.{name.replace('-', '_')}"


def engine_summaries() -> dict[str, str]:
    """Return one line about each engine, by name: the first line of its module, after the colon."""
    lines = {name: (ast.get_docstring(_tree(name)) or "").partition("\n")[0] for name in engine_names()}
    return {name: line.partition(": ")[2] for name, line in lines.items()}


def engine_options() -> dict[str, tuple[str, type]]:
    """Return by engine a field of `PartitionConfig` and its dataclass, for engines with options of their own.

    Only these engines are imported: those whose module assigns ``OPTIONS``.
    """
    having = [name for name in engine_names() if any(map(_sets_options, _tree(name).body))]
    return {name: import_module(module_of(name)).OPTIONS for name in having}


def recorded_options(name: str) -> frozenset[str]:
    """Return which of the options ``effort`` and ``sampling`` the assignment of an engine depends on.

    The options ask for it, which an engine imports, so they cannot import `find_engine`.
    """
    found: frozenset[str] = import_module(module_of(name)).ENGINE.recorded
    return found


def _sets_options(node: ast.stmt) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]  # with a type
    return isinstance(targets[0], ast.Name) and targets[0].id == "OPTIONS"


@cache
def _tree(name: str) -> ast.Module:
    spec = find_spec(module_of(name))  # does not import it
    return ast.parse(Path(spec.origin).read_text("utf-8") if spec and spec.origin else "")
