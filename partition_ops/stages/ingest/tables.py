"""Find tables, and make each of them Parquet files of the columns that are used.

Parquet is read where it is; objects on S3 are downloaded once. Other kinds are written as Parquet first, so
that every engine reads the same values, and a row of any table has a file and a number.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.table_files import first_sentence
from partition_ops.errors import InvalidInputError, PartitionOpsError, UsageError, clipped, one_of, some_of
from partition_ops.stages.ingest.engines import (
    RESERVED,
    TYPES,
    DuckDB,
    ibis_types,
    literal,
    odd_type,
    parquet,
    plain_type,
    quoted,
)
from partition_ops.stages.ingest.files_query import FilesQuery
from partition_ops.stages.ingest.graph_types import TableFile
from partition_ops.stages.ingest.problems import LONGEST, SHOWN, shown
from partition_ops.stages.ingest.sources import ENTRY_POINTS, file_suffixes, table_sources
from partition_ops.stages.ingest.table_source import ROWS, FoundFile, OpenRoot, Place, TableSource
from partition_ops.storage import Store
from partition_ops.system.temporary_folders import full_disk


@dataclass(frozen=True)
class FoundTable:
    """The files of a table, in the order of their names."""

    spec: TableFile  # the table in ``graph.yaml``
    kind: type[TableSource]  # how it is read
    files: tuple[FoundFile, ...]
    # by path in a query on files, the table that it names
    parts: Mapping[str, FoundTable] = field(default_factory=dict)


@dataclass(frozen=True)
class ParquetTable:
    """A table as Parquet files of one schema."""

    name: str  # the table, for messages
    paths: tuple[Path, ...]  # the files
    names: tuple[str, ...]  # their names for messages, in the same order
    schema: pa.Schema  # the columns that are used, with their types as engines see them
    rows: int  # number of rows


def find_table(spec: TableFile, source: Store, open_root: OpenRoot, where: str) -> FoundTable:
    """Find the files of a table; no rows are read.

    Args:
        spec: The table.
        source: Folder of ``graph.yaml``, to which paths are relative.
        open_root: Opens other folders.
        where: What the table is for, for messages.

    Raises:
        InvalidInputError: There is no such file, its kind is unknown, or its kind rejects it.
    """
    kinds = table_sources()
    formats = [kind.name for kind in kinds if kind.suffixes]
    if spec.format not in (None, *formats):
        raise InvalidInputError(
            f"{where}: there is no format {spec.format!r} of tables",
            expected=one_of(formats),
            remedy=f"Install the package that has it as an entry point of the group {ENTRY_POINTS!r}.",
        )
    if spec.sql and not spec.database and not spec.connection:
        plain = replace(spec, sql="", types={})
        parts = {
            path: find_table(replace(plain, paths=(path,)), source, open_root, where) for path in spec.paths
        }
        files = tuple(file for part in parts.values() for file in part.files)
        return FoundTable(spec, FilesQuery, files, parts)
    if spec.connection:
        places = [("", Place(spec, source, source, "", where))]
    else:
        paths = [spec.database] if spec.sql else spec.paths
        places = [(path, Place.of(path, spec, source, open_root, where)) for path in paths]
    found: list[tuple[type[TableSource], FoundFile]] = []
    for path, place in places:
        before = len(found)
        marked = [kind for kind in kinds if kind.mark and next(place.keys(kind.mark), None) is not None]
        if not marked:
            _check_not_iceberg(place)
        for kind in marked or kinds:
            found += [(kind, file) for file in kind.find(place)]
        known = {file.name for _, file in found}
        lost = [] if marked or spec.connection else [f.name for f in place.files if f.name not in known]
        if lost:
            if spec.database:
                raise InvalidInputError(
                    f"{where}: {lost[0]} is not a database",
                    expected=f"a file of {' or '.join(kind.title for kind in kinds if kind.list_tables)}",
                )
            raise InvalidInputError(
                f"{where}: the name of {lost[0]} does not say its format",
                expected=f"a name that ends with {', '.join(file_suffixes())}",
                remedy="Add 'format' to the table in graph.yaml.",
            )
        if len(found) == before:
            raise _nothing_found(spec, path, source, where)
    found = found[:1] if spec.connection else found  # an unset variable may be of any server
    several = {kind for kind, _ in found}
    common = [kind for kind in several if all(issubclass(other, kind) for other in several)]
    if not common:
        raise InvalidInputError(
            f"{where}: the files of {spec.name} have several formats",
            found=", ".join(sorted(kind.name for kind in several)),
            expected="files of one format",
        )
    return FoundTable(spec, common[0], tuple(file for _, file in found))


def _check_not_iceberg(place: Place) -> None:
    """Reject the folder of an Iceberg table, whose files may have rows that it does not have any more."""
    if any(key.endswith(".metadata.json") for key in place.keys("metadata/")):
        raise InvalidInputError(
            f"{place.store.uri_of((place.folder or '').rstrip('/'))} is an Iceberg table, which ingest does"
            " not read",
            found="metadata/*.metadata.json",
            expected="a folder of files, or a Delta table",
            remedy="Export it to Parquet with the engine that owns it.",
        )


def _nothing_found(spec: TableFile, path: str, source: Store, where: str) -> PartitionOpsError:
    if spec.connection:
        servers = [kind for kind in table_sources() if kind.connection]
        titles = " or ".join(kind.title for kind in servers)
        urls = ", ".join(kind.connection for kind in servers)
        if spec.connection.startswith("$") and os.environ.get(spec.connection[1:]):
            return UsageError(
                f"{where}: the environment variable {spec.connection[1:]} has no URL of {titles}",
                found="another value",
                expected=urls,
            )
        return InvalidInputError(
            f"{where}: 'connection' is no URL of {titles}",
            expected=f"{urls}, or $NAME of an environment variable that has a URL",
        )
    return InvalidInputError(
        f"{where}: there is no table {path}",
        found=f"no file that matches below {source.uri}",
        remedy="Correct the path in graph.yaml; it is relative to that file.",
    )


def open_table(
    found: FoundTable,
    columns: Sequence[str] | None,
    keys: Collection[str],
    scratch: Path,
    duckdb: DuckDB,
    where: str,
) -> ParquetTable:
    """Make a table Parquet files of one schema.

    Args:
        found: The files.
        columns: Names of the columns that are used; None for all columns of the first file.
        keys: Those of them that are keys; in CSV they are text, because ``007`` is not ``7``.
        scratch: An empty folder for files that are written.
        duckdb: Reads CSV and JSON.
        where: What the table is for, for messages.

    Raises:
        InvalidInputError: A file cannot be read, a column is missing, or a column has other types in other
            files or rows.

    Peak memory: that of ``duckdb``.
    """
    spec, source = found.spec, _source_of(found, keys, scratch, duckdb, where)
    with _explained(source):
        source.prepare()
        if columns is None:
            columns = [*dict.fromkeys([*source.columns(source.files[0]), *source.files[0].folders])]
        typed = {*columns, *(source.typed if isinstance(source, FilesQuery) else ())}
        unused = [name for name in spec.types if name not in typed]
        if unused:
            raise InvalidInputError(
                f"{where}: 'types' names a column of {spec.name} that is not used",
                found=repr(unused[0]),
                expected=one_of(columns),
            )
        of_folders = {name: kind for name, kind in source.files[0].types.items() if name in columns}
        source.used, source.types = columns, {**of_folders, **spec.types}
        source.types = {name: kind for name, kind in source.types.items() if name in columns}
        _check_names(source)
        have = [_columns_of(source, file) for file in source.files]
    paths = []
    for index, file in enumerate(source.files):
        with _explained(source, file), _odd_values_named(source, file, have[index]):
            paths.append(_parquet_file(source, index, have[index]))
    schemas = [pq.read_schema(path) for path in paths]
    rows = sum(pq.read_metadata(path).num_rows for path in paths)
    names = tuple(file.name for file in source.files)
    return ParquetTable(spec.name, tuple(paths), names, _one_schema(source, paths, schemas), rows)


def column_names(found: FoundTable, scratch: Path, duckdb: DuckDB, where: str) -> list[str]:
    """Return the names of all columns of a table, as `open_table` takes them; a query is run for this."""
    source = _source_of(found, [], scratch, duckdb, where)
    with _explained(source):
        source.prepare()
        return [*dict.fromkeys([*source.columns(source.files[0]), *source.files[0].folders])]


def _source_of(
    found: FoundTable, keys: Collection[str], scratch: Path, duckdb: DuckDB, where: str
) -> TableSource:
    source = found.kind(found.spec, found.files, where, duckdb, scratch, keys=keys)
    if isinstance(source, FilesQuery):
        _open_files(source, found)
        source.files = [replace(found.files[0], name=found.spec.name, folders={}, types={})]
    return source


def _open_files(query: FilesQuery, found: FoundTable) -> None:
    """Open each table that a query on files names, with the types of the query."""
    for index, (path, part) in enumerate(found.parts.items()):
        place = query.scratch / f"part{index}"
        place.mkdir()
        source = part.kind(part.spec, part.files, query.where, query.duckdb, place)
        with _explained(source):
            source.prepare()
            have = {*source.columns(part.files[0]), *part.files[0].folders}
        types = {name: kind for name, kind in found.spec.types.items() if name in have}
        query.typed.update(types)
        part = replace(part, spec=replace(part.spec, types=types))
        query.tables[path] = open_table(part, None, [], place, query.duckdb, query.where).paths


@contextmanager
def _explained(source: TableSource, file: FoundFile | None = None) -> Iterator[None]:
    """Replace errors of libraries that cannot read a table, or one of its files."""
    try:
        yield
    except (source.duckdb.errors, pa.ArrowException, OSError, *source.errors) as raised:
        if (full := full_disk(raised)) is not None:
            raise full from raised
        error = source.explain(raised)
        raise InvalidInputError(
            f"{source.about}{source.spec.name if file is None else file.name} cannot be read",
            found=_first_lines(error),
            remedy="Correct the query or the file."
            if source.spec.sql
            else "Correct the file, or set 'format', 'delimiter', 'quote', 'encoding' or 'types' of the table"
            " in graph.yaml.",
        ) from error


def _first_lines(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    kept = [
        line for line in lines if not line.startswith(("Possible", "*", "LINE", "^", "file =", "Try setting"))
    ]
    return first_sentence(error) if len(kept) < 2 else "; ".join(kept[:4])


def _columns_of(source: TableSource, file: FoundFile) -> list[str]:
    """Return the columns that are used and that a file has, and not only the names of its folders.

    Raises:
        InvalidInputError: A column is neither in the file nor in the names of its folders.
    """
    names = source.names(file)
    have = [*names, *file.folders]
    known = {*have}
    missing = [name for name in source.used if name not in known]
    if missing:
        near = get_close_matches(missing[0], have, n=1)
        about = source.spec.name if source.spec.sql else file.name
        raise InvalidInputError(
            f"{source.about}{about} has no column {missing[0]!r}",
            found=f"the columns {some_of([repr(name) for name in have], 20)}",
            remedy=f"Did you mean {near[0]!r}?"
            if near
            else f"Correct the column in graph.yaml{source.without_column(have)}.",
        )
    several = Counter(names)
    twice = next((name for name in source.used if several[name] > 1), None)
    if twice is not None:
        alike = [name for name in dict.fromkeys(names) if name.lower() == twice.lower()]
        raise _indistinct(f"{source.about}{file.name}", alike * 2 if len(alike) < 2 else alike)
    return [name for name in source.used if name in several]


def _check_names(source: TableSource) -> None:
    """Reject columns that engines cannot tell apart, or that they have themselves."""
    several = Counter(name.lower() for name in source.used)
    for name in source.used:
        if several[name.lower()] > 1:
            alike = [other for other in source.used if other.lower() == name.lower()]
            raise _indistinct(f"{source.about}{source.spec.name}", alike)
        if name.lower() in RESERVED:
            raise InvalidInputError(
                f"{source.about}the column {name!r} of {source.spec.name} cannot be used",
                found="a name that engines give to a column of their own",
                remedy="Rename the column, or give it another name in a query.",
            )


def _indistinct(where: str, names: Sequence[str]) -> InvalidInputError:
    return InvalidInputError(
        f"{where}: columns cannot be told apart",
        found=" and ".join(map(repr, names)),
        expected="names that differ in more than upper and lower case",
        remedy="Rename one of the columns, or give it another name in a query.",
    )


def _parquet_file(source: TableSource, index: int, have: Sequence[str]) -> Path:
    """Return a Parquet file of the columns of a file, with their types and the columns of folders."""
    file = source.files[index]
    read = source.read(file, have)
    if isinstance(read, Path):
        read = _without_twins(source, read, have)
        if not source.types and len(have) == len(source.used):
            return read
        read = parquet([read])
    columns = []
    for name in source.used:
        folder = file.folders.get(name)
        value = quoted(name) if name in have else "NULL" if folder is None else literal(folder)
        if name in source.types:
            value = _as_type(value, source.types[name])
        elif name not in have and all((one.folders[name] or "").isdecimal() for one in source.files):
            value = f"CAST({value} AS BIGINT)"
        columns.append(f"{value} AS {quoted(name)}")
    path = source.scratch / f"{index}.parquet"
    options = "FORMAT parquet, PRESERVE_ORDER true"  # messages number the rows
    source.duckdb.query(f"COPY (SELECT {', '.join(columns)} FROM {read}) TO {literal(str(path))} ({options})")
    return path


@contextmanager
def _odd_values_named(source: TableSource, file: FoundFile, have: Sequence[str]) -> Iterator[None]:
    """Name the first values that are not of the type in graph.yaml, if DuckDB says only that there is one."""
    try:
        yield
    except source.duckdb.errors as error:
        if "CSV Error on Line" in str(error):
            raise
        for name in have:
            if name in source.types and (found := _odd_values(source, file, name)):
                kind = source.types[name]
                raise InvalidInputError(
                    f"{source.about}the column {name!r} of {file.name} has values that are not of the type"
                    f" {kind}",
                    found=found,
                    expected="what 'types' in graph.yaml says",
                    remedy="Correct the values, or the type.",
                ) from error
        raise


def _odd_values(source: TableSource, file: FoundFile, name: str) -> list[str]:
    """Return the first values of a column that are not of its type, with their rows; none if it is not known.

    Peak memory: that of ``source.duckdb``; the column is written as text.
    """
    column, kind = quoted(name), source.types[name]
    path = source.scratch / "odd.parquet"
    odd = f"TRY_CAST({column} AS {TYPES[kind]}) IS NULL"
    if kind == "int64":
        odd = f"({odd} OR {_is_rounded(column, 'TRY_CAST')})"
    with suppress(source.duckdb.errors):
        source.duckdb.query(
            f"COPY (SELECT CAST({column} AS VARCHAR) AS {column} FROM {source.read_text(file, name)})"
            f" TO {literal(str(path))} (FORMAT parquet, PRESERVE_ORDER true)"
        )
        rows = source.duckdb.query(
            f"SELECT {column}, file_row_number FROM {parquet([path])} WHERE {column} IS NOT NULL"
            f" AND {odd} ORDER BY file_row_number LIMIT {SHOWN}"
        )
        return [f"{shown(text)} in row {row}" for text, row in rows]
    return []


def _as_type(value: str, kind: str) -> str:
    """Return the SQL of a value as a type of graph.yaml; DuckDB would round fractions to whole numbers."""
    found = f"CAST({value} AS {TYPES[kind]})"
    if kind != "int64":
        return found
    problem = f"error(concat('not a whole number: ', {value}))"
    return f"CASE WHEN {_is_rounded(value, 'CAST')} THEN {problem} ELSE {found} END"


def _is_rounded(value: str, cast: str) -> str:
    """Return the SQL of whether a cast to a whole number would round a value."""
    return f"CAST({cast}({value} AS BIGINT) AS DOUBLE) <> {cast}({value} AS DOUBLE)"


def _without_twins(source: TableSource, path: Path, columns: Sequence[str]) -> Path:
    """Return a Parquet file with some columns of another one, if engines could take others for them.

    Engines compare names without regard to case, and add columns of their own.
    """
    with pq.ParquetFile(path, memory_map=True) as file:
        names = [name.lower() for name in file.schema_arrow.names]
        if len({*names}) == len(names) and RESERVED.isdisjoint(names):
            return path
        return source.write_parquet(file.schema_arrow, file.iter_batches(ROWS, columns=[*columns]), columns)


def _one_schema(source: TableSource, paths: Sequence[Path], schemas: Sequence[pa.Schema]) -> pa.Schema:
    """Return the types of the columns that are used.

    Raises:
        InvalidInputError: The files do not agree on one, or it is neither that of a key nor of a feature.
    """
    for name in source.used:
        kinds: dict[str, str] = {}
        for file, schema in zip(source.files, schemas, strict=True):
            kinds.setdefault(str(plain_type(schema.field(name).type)), file.name)
        if len(kinds) > 1:
            raise source.mixed_types(name, [*kinds.items()])
    found = pa.schema([(name, plain_type(schemas[0].field(name).type)) for name in source.used])
    about = f"{source.about}{source.spec.name}: "
    for name in source.used:
        if str(found.field(name).type) == "extension<arrow.json>":  # values of several kinds
            raise odd_type(f"{about}the column {name!r}", _first_of_each_kind(source, paths, name))
    ibis_types(found, about)
    return found


def _first_of_each_kind(source: TableSource, paths: Sequence[Path], column: str) -> list[str]:
    """Return the first value of each kind of a column of JSON, such as numbers and texts, with its row."""
    value = quoted(column)
    rows = source.duckdb.query(
        "SELECT arg_min(value, place), min(place) AS place FROM"
        f" (SELECT CAST({value} AS VARCHAR) AS value,"
        f" regexp_replace(json_type({value}), 'U?BIGINT', 'DOUBLE')"
        f" AS kind, (file_index, file_row_number) AS place FROM {parquet(paths)})"
        " WHERE kind IS NOT NULL GROUP BY kind ORDER BY place"
    )
    return [f"{clipped(text, LONGEST)} in {source.files[at].name}, row {row}" for text, (at, row) in rows]
