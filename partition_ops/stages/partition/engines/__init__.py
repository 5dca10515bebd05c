"""The engines: a file or a folder each, which defines ``ENGINE``. Listing names imports none of them."""

from __future__ import annotations

import pkgutil

FIRST = ("auto", "two-level")  # in lists; the others follow in alphabetical order


def engine_names() -> tuple[str, ...]:
    """Return the names of all engines: those of the modules in this folder, with ``-`` for ``_``."""
    names = {module.name.replace("_", "-") for module in pkgutil.iter_modules(__path__)}
    return tuple(sorted(names, key=lambda name: (name not in FIRST, name)))
