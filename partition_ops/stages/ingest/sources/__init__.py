"""The kinds of tables: a file for each, which names its class in ``SOURCE``, and entry points of packages."""

from __future__ import annotations

import pkgutil
from importlib import import_module

from partition_ops.stages.ingest.table_source import TableSource
from partition_ops.system.plugins import plugins

ENTRY_POINTS = "partition_ops.sources"
FIRST = ("parquet", "csv", "json_lines", "arrow")  # in lists; the others follow in alphabetical order


def table_sources() -> list[type[TableSource]]:
    """Return all kinds of tables, those of this folder first. This imports none of their libraries."""
    names = [module.name for module in pkgutil.iter_modules(__path__)]
    names = [*FIRST, *(name for name in names if name not in FIRST)]
    built_in = [import_module(f"{__name__}.{name}").SOURCE for name in names]
    return [*built_in, *(entry.load() for entry in plugins(ENTRY_POINTS))]


def file_suffixes() -> tuple[str, ...]:
    """Return how the names of files end that are tables."""
    return tuple(suffix for kind in table_sources() for suffix in kind.suffixes)


def database_suffixes() -> tuple[str, ...]:
    """Return how the names of database files end."""
    return tuple(suffix for kind in table_sources() for suffix in kind.database_suffixes)
