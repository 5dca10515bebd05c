"""Find the files of tables: paths, patterns, folders and Delta tables; nothing of their rows is read."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from urllib.parse import parse_qs, urlsplit

from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.ingest.delta_tables import is_delta_table, newest_version
from partition_ops.stages.ingest.graph_file import TableFile
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.local_store import LocalStore

OpenRoot = Callable[[str], Store]
FORMATS = {
    "parquet": (".parquet", ".pq"),
    "csv": (".csv", ".tsv", ".txt", ".csv.gz", ".tsv.gz"),
    "json": (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz"),
    "arrow": (".arrow", ".feather", ".ipc", ".arrows"),
}


@dataclass(frozen=True)
class FoundFile:
    """A file of a table, where it is stored.

    Attributes:
        store: Its root.
        entry: Its key below the root, size and tag.
        name: As messages name it.
        folders: Columns in the names of folders, such as ``year=2024``, or in the log of a Delta table.
        types: Types of these columns, if they are known.
    """

    store: Store
    entry: StoredObject
    name: str
    folders: Mapping[str, str | None]
    types: Mapping[str, str] = field(default_factory=dict)

    @property
    def identity(self) -> StoredObject:
        """The file for the record of a task, with its URI as the key."""
        return StoredObject(self.store.uri_of(self.entry.key), self.entry.size, self.entry.tag)


@dataclass(frozen=True)
class FoundTable:
    """The files of a table, in the order of their names."""

    spec: TableFile
    format: str
    files: tuple[FoundFile, ...]

    @property
    def name(self) -> str:
        return self.spec.name


def find_table(spec: TableFile, source: Store, open_root: OpenRoot, where: str) -> FoundTable:
    """Find the files of a table; nothing is read.

    Args:
        spec: The table.
        source: Folder of ``graph.yaml``, to which paths are relative.
        open_root: Opens other folders.
        where: What the table is for, for messages.

    Raises:
        InvalidInputError: There is no such file, or its name does not say its format.
    """
    if spec.connection:
        _check_connection(spec.connection, where)
        name = spec.name.removeprefix("the query on ")
        entry = StoredObject(spec.name, 0, "")  # nothing tells whether its rows have changed
        return FoundTable(spec, "sql", (FoundFile(source, entry, name, {}),))
    if spec.sql:
        files = _matching(spec.database, source, open_root)
        kind = "sql"
    else:
        files = [file for path in spec.paths for file in _matching(path, source, open_root)]
        kind = spec.format or ""
    if not files:
        wanted = spec.database or ", ".join(spec.paths)
        raise InvalidInputError(
            f"{where}: there is no table {wanted}",
            found=f"no file that matches below {source.uri}",
            remedy="Correct the path in graph.yaml; it is relative to that file.",
        )
    kinds = {kind or _format_of(file.name, where) for file in files}
    if len(kinds) > 1:
        raise InvalidInputError(
            f"{where}: the files of {spec.name} have several formats",
            found=", ".join(sorted(kinds)),
            expected="files of one format",
        )
    return FoundTable(spec, kinds.pop(), tuple(files))


def _check_connection(text: str, where: str) -> None:
    """Check that a connection has no password, which would be in records and messages.

    Raises:
        InvalidInputError: It has one, or it is no connection.
    """
    if re.fullmatch(r"\$[A-Za-z_]\w*", text):
        return
    url = urlsplit(text)
    if url.scheme not in ("postgresql", "postgres"):
        raise InvalidInputError(
            f"{where}: 'connection' is no URL of PostgreSQL",
            expected="postgresql://user@host/database, or $NAME of an environment variable that has a URL",
        )
    user, _, host = url.netloc.rpartition("@")
    if ":" in user or "password" in parse_qs(url.query):
        raise InvalidInputError(
            f"{where}: 'connection' has a password",
            expected=f"{url.scheme}://{user.partition(':')[0]}@{host}{url.path}",
            remedy="Remove it from graph.yaml, and set PGPASSWORD or write it to ~/.pgpass; or name an"
            " environment variable that has the whole URL: connection: $NAME.",
        )


def _matching(path: str, source: Store, open_root: OpenRoot) -> list[FoundFile]:
    store, pattern = _split(path, source, open_root)
    base = "" if store is source else f"{store.uri}/"
    if not re.search(r"[*?\[]", pattern):
        entry = store.stat(pattern) if pattern and not pattern.endswith("/") else None
        if entry is not None:
            return [FoundFile(store, entry, base + pattern, _folders(pattern))]
        folder = f"{pattern.rstrip('/')}/" if pattern else ""
        if is_delta_table(store, folder):
            return _delta_files(store, folder, base)
        _check_not_iceberg(store, folder)
        pattern = f"{pattern.rstrip('/')}/**" if pattern else "**"
    prefix = re.split(r"[*?\[]", pattern)[0]
    prefix = prefix[: prefix.rfind("/") + 1]
    matches = re.compile(_regular_expression(pattern)).fullmatch
    return [
        FoundFile(store, entry, base + entry.key, _folders(entry.key))
        for entry in store.list(prefix)
        if matches(entry.key) and not re.search(r"(^|/)[._]", entry.key.removeprefix(prefix))
    ]


def _delta_files(store: Store, folder: str, base: str) -> list[FoundFile]:
    """Return the files of the newest version of a Delta table."""
    version = newest_version(store, folder)
    entries = store.stat_all([file.key for file in version.files])
    missing = [file.key for file, entry in zip(version.files, entries, strict=True) if entry is None]
    if missing:
        raise InvalidInputError(
            f"{len(missing)} of {len(entries)} files of the Delta table are missing",
            found=f"no {some_of([store.uri_of(key) for key in missing], 3)}",
        )
    return [
        FoundFile(store, entry, base + entry.key, file.partition, version.types)
        for file, entry in zip(version.files, entries, strict=True)
        if entry is not None
    ]


def _check_not_iceberg(store: Store, folder: str) -> None:
    """Reject the folder of an Iceberg table, whose files may have rows that it does not have any more.

    Raises:
        InvalidInputError: It is one.
    """
    if any(entry.key.endswith(".metadata.json") for entry in store.list(f"{folder}metadata/")):
        raise InvalidInputError(
            f"{store.uri_of(folder.rstrip('/'))} is an Iceberg table, which ingest does not read",
            found="metadata/*.metadata.json",
            expected="a folder of files, or a Delta table",
            remedy="Export it to Parquet with the engine that owns it.",
        )


def _split(path: str, source: Store, open_root: OpenRoot) -> tuple[Store, str]:
    """Return the store of a path, and the path or pattern below its root."""
    if "://" not in path and not path.startswith("/"):
        plain = posixpath.normpath(path) + ("/" if path.endswith("/") else "")
        if not plain.startswith(".."):
            return source, "" if plain in (".", "./") else plain
        path = posixpath.normpath(f"{source.uri}/{path}") if isinstance(source, LocalStore) else path
    fixed = re.split(r"[*?\[]", path)[0]
    root = fixed[: fixed.rfind("/")] if "/" in fixed else "."
    if root.endswith(":/"):  # s3://bucket
        return open_root(path), ""
    return open_root(root or "/"), path[len(root) + 1 :]


def _regular_expression(pattern: str) -> str:
    """Return the regular expression of a pattern: ``*`` stays in a folder, ``**`` goes through folders."""
    parts = re.split(r"(\*\*/?|\*|\?|\[[^\]]+\])", pattern)
    known = {"**/": "(?:.*/)?", "**": ".*", "*": "[^/]*", "?": "[^/]"}
    return "".join(known.get(p) or (p if p.startswith("[") else re.escape(p)) for p in parts if p)


def _folders(key: str) -> dict[str, str]:
    parts = [part.partition("=") for part in key.split("/")[:-1]]
    return {name: value for name, equals, value in parts if equals and name}


def _format_of(name: str, where: str) -> str:
    for kind, suffixes in FORMATS.items():
        if name.lower().endswith(suffixes):
            return kind
    raise InvalidInputError(
        f"{where}: the name of {name} does not say its format",
        expected=f"a name that ends with {', '.join(s for suffixes in FORMATS.values() for s in suffixes)}",
        remedy="Add 'format' to the table in graph.yaml.",
    )
