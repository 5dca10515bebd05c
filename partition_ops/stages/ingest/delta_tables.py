"""Delta tables: the files of the newest version, and the columns that their partitions stand for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from partition_ops.errors import InvalidInputError, UsageError, some_of
from partition_ops.storage import Store
from partition_ops.system.temporary_folders import temporary_folder

LOG = "_delta_log/"
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


@dataclass(frozen=True)
class DeltaFile:
    """A Parquet file of a table.

    Attributes:
        key: Key below the root of the table's store.
        partition: Values of the columns that the file does not have, as text; None is null.
    """

    key: str
    partition: dict[str, str | None]


@dataclass(frozen=True)
class DeltaVersion:
    """The newest version of a table.

    Attributes:
        files: Its files, in the order of their keys.
        types: Types of the columns with partitions.
    """

    files: list[DeltaFile]
    types: dict[str, str]


def is_delta_table(store: Store, folder: str) -> bool:
    """Return whether a folder, ``""`` or one that ends with ``/``, is a Delta table."""
    return next(iter(store.list(folder + LOG)), None) is not None


def newest_version(store: Store, folder: str) -> DeltaVersion:
    """Read the log of a Delta table; its log is copied to TMPDIR, so that deltalake needs no credentials.

    Raises:
        UsageError: deltalake is not installed.
        InvalidInputError: The log is damaged, or the table has features that change what its files mean.
    """
    where = store.uri_of(folder.rstrip("/")) if folder else store.uri
    try:
        from deltalake import DeltaTable
        from deltalake.exceptions import DeltaError
    except ImportError as error:
        raise UsageError(
            f"{where} is a Delta table, and deltalake is not installed",
            remedy="Install it: pip install 'partition-ops[delta]'.",
        ) from error
    with temporary_folder() as scratch:
        for entry in store.list(folder + LOG):
            copy = Path(scratch) / entry.key.removeprefix(folder)
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(store.read_bytes(entry.key))
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
        files = sorted(_files(store, folder, rows, partitions), key=lambda file: file.key)
    return DeltaVersion(files, {name: TYPES.get(kinds[name], "text") for name in partitions})


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


def _files(store: Store, folder: str, rows: Any, partitions: list[str]) -> Iterator[DeltaFile]:
    import pyarrow as pa

    for row in pa.table(rows).to_pylist():
        key = folder + row["path"]
        if "%" in key and not store.exists(key):  # the log has quoted it
            key = folder + unquote(row["path"])
        values = {name: row[f"partition.{name}"] for name in partitions}
        yield DeltaFile(key, {name: None if v is None else _text(v) for name, v in values.items()})


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
