"""The engines: a file or a folder each, which defines ``ENGINE``. Listing them imports none of them."""

from __future__ import annotations

import ast
import pkgutil
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
    return {name: _first_line(name).partition(": ")[2] for name in engine_names()}


def _first_line(name: str) -> str:
    spec = find_spec(module_of(name))  # does not import it
    if spec is None or spec.origin is None:
        return ""
    docstring = ast.get_docstring(ast.parse(Path(spec.origin).read_text("utf-8"))) or ""
    return docstring.partition("\n")[0]
