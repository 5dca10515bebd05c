"""Entry points of installed packages."""

from __future__ import annotations

import sys
from functools import cache
from importlib.metadata import EntryPoint, entry_points


def plugins(group: str) -> tuple[EntryPoint, ...]:
    """Return the entry points of a group on the module path; they are searched once for each path."""
    return _on_path(group, tuple(sys.path))


@cache
def _on_path(group: str, path: tuple[str, ...]) -> tuple[EntryPoint, ...]:
    """The search reads the metadata of all installed packages."""
    return tuple(entry_points(group=group))
