"""Delta tables: the Parquet files of the newest version, and the columns that their partitions stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.ingest.sources.parquet import ParquetSource
from partition_ops.stages.ingest.table_source import FoundFile, Place
from partition_ops.storage import Store
from partition_ops.system.extras import check_installed
from partition_ops.system.temporary_folders import temporary_folder

TYPES = {  # of columns with partitions, in the words of graph.yaml
    "string": "text",
    **dict.fromkeys(("byte", "short", "integer", "long"), "int64"),
    **dict.fromkeys(("float", "double"), "float64"),
    "boolean": "bool",
    "date": "date",
    **dict.fromkeys(("timestamp", "timestamp_ntz"), "timestamp"),
}
READABLE = {"timestampNtz", "v2Checkpoint", "vacuumProtocolCheck"}
"""Features of readers that do not change what the rows of a Parquet file mean."""


class DeltaSource(ParquetSource):
    name, title, mark = "delta", "Delta", "_delta_log/"
    suffixes = ()

    @classmethod
    def find(cls, place: Place) -> list[FoundFile]:
        """Return the files of the newest version; the log is copied, so that deltalake needs no credentials.

        Raises:
            UsageError: deltalake is not installed.
            InvalidInputError: The log is damaged, a file is missing, or the table has features that change
                what its files mean.
        """
        store, folder = place.store, place.folder
        if folder is None or place.spec.sql or next(place.keys(cls.mark), None) is None:
            return []
        where = store.uri_of(folder.rstrip("/")) if folder else store.uri
        check_installed(f"{where}, a Delta table,", "deltalake")
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError

        with temporary_folder() as scratch:
            for key in place.keys(cls.mark):
                copy = Path(scratch) / key.removeprefix(folder)
                copy.parent.mkdir(parents=True, exist_ok=True)
                copy.write_bytes(store.read_bytes(key))
            try:
                table = DeltaTable(scratch)
                _check_features(table, where)
                rows = table.get_add_actions(flatten=True)
                partitions = table.metadata().partition_columns
                kinds = {field.name: getattr(field.type, "type", "") for field in table.schema().fields}
            except DeltaError as error:
                raise InvalidInputError(
                    f"{where} cannot be read as a Delta table", found=str(error).replace(scratch, where)
                ) from error
            named = dict(sorted(_partitions(store, folder, rows, partitions)))
        entries = store.stat_all([*named])
        missing = [store.uri_of(key) for key, entry in zip(named, entries, strict=True) if entry is None]
        if missing:
            raise InvalidInputError(
                f"{len(missing)} of {len(entries)} files of the Delta table are missing",
                found=f"no {some_of(missing, 3)}",
            )
        types = {name: TYPES.get(kinds[name], "text") for name in partitions}
        found = (place.found(entry) for entry in entries if entry is not None)
        return [replace(file, folders=named[file.entry.key], types=types) for file in found]


def _check_features(table: Any, where: str) -> None:
    features = {*(table.protocol().reader_features or ())}
    if table.metadata().configuration.get("delta.columnMapping.mode", "none") != "none":
        features.add("columnMapping")
    if features - READABLE:
        raise InvalidInputError(
            f"{where}: the Delta table has features that ingest does not read",
            found=some_of(sorted(features - READABLE)),
            expected=f"none, or {some_of(sorted(READABLE))}",
            remedy="Export it to Parquet with the engine that owns it, or turn the features off there.",
        )


def _partitions(
    store: Store, folder: str, rows: Any, columns: list[str]
) -> Iterator[tuple[str, dict[str, str | None]]]:
    """Yield the key of each file, and the values of columns that it does not have, as text."""
    for row in pa.table(rows).to_pylist():
        key = folder + row["path"]
        if "%" in key and not store.exists(key):  # the log has quoted it
            key = folder + unquote(row["path"])
        values = {name: row[f"partition.{name}"] for name in columns}
        yield (
            key,
            {
                name: str(value).lower() if isinstance(value, bool) else None if value is None else str(value)
                for name, value in values.items()
            },
        )


SOURCE = DeltaSource
