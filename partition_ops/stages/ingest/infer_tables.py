"""The tables below a folder, and what their columns and values may be, for `infer_graph_file`."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.metadata import METADATA
from partition_ops.chunked.names import LONGEST_NAME
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.engines import DuckDB, parquet, quoted
from partition_ops.stages.ingest.graph_types import TableFile
from partition_ops.stages.ingest.patterns import escaped, matches
from partition_ops.stages.ingest.sources import database_suffixes, table_sources
from partition_ops.stages.ingest.tables import ParquetTable, find_table, open_table
from partition_ops.storage import Store, open_store

NEARLY = 0.5  # share of distinct values of a column that is named as a key
SPLITS = {
    "train": {"train", "training"},
    "val": {"val", "valid", "validation", "dev"},
    "test": {"test", "testing"},
}
FEW = 32  # categories
INDEXES = re.compile(r"__index_level_\d+__|Unnamed: \d+")  # columns in which pandas keeps its index
OF_ROWS = re.compile(r"[^=]+=.*|\d[\d_-]*")  # folders with rows of a table, such as year=2024 or 2024-01
NUMBER_OF_PART = re.compile(r"([-_.]?(part|chunk)?[-_]?\d+)+([-_][0-9a-f-]{8,})?$")  # of the name of a file
ENDS = (
    *(("src", "dst"), ("source", "target"), ("source", "destination"), ("from", "to")),
    *(("head", "tail"), ("subject", "object"), ("h", "t"), ("s", "o")),
)
ALL = "SELECT * FROM "


@dataclass
class Table:
    """A table that was found."""

    name: str  # name of the node type or relation that it may be
    spec: TableFile  # where it is
    source: ParquetTable  # its columns
    # by column that is no list, the number of distinct values; without nulls
    distinct: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)  # by such a column, the number of nulls
    # by column whose values name parts of a split, these values by part
    splits: dict[str, dict[str, str]] = field(default_factory=dict)
    key: tuple[str, ...] = ()  # columns that may be the key of a node type
    named: bool = False  # whether the key is named as one
    # columns with keys of node types, and these types
    ends: list[tuple[tuple[str, ...], str]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return list(self.source.schema.names)

    @property
    def rows(self) -> str:
        """The table in DuckDB's SQL."""
        return parquet(self.source.paths)

    @property
    def keys(self) -> list[str]:
        """The columns that can be keys."""
        return [name for name in self.distinct if _may_be_key(self.source.schema.field(name).type)]


def find_tables(
    folder: Store, only: str | None, scratch: Path, duckdb: DuckDB, left_out: dict[str, str]
) -> list[Table]:
    """Open all tables, or those of one file, and look at every column."""
    found: list[Table] = []
    specs = sorted(_specs(folder, only, scratch, duckdb, left_out), key=lambda one: place_of(one[0]))
    for index, (spec, name) in enumerate(specs):
        try:
            source = _opened(spec, folder, scratch / f"table{index}", duckdb)
            table = Table(unique_name(plain_name(name), [one.name for one in found]), spec, source)
            _measure(table, duckdb)
            _find_splits(table, duckdb)
            found.append(table)
        except InvalidInputError as error:
            left_out[place_of(spec)] = error.summary()
    return found


def _opened(spec: TableFile, folder: Store, scratch: Path, duckdb: DuckDB) -> ParquetTable:
    scratch.mkdir()
    where = place_of(spec)
    return open_table(find_table(spec, folder, open_store, where), None, [], scratch, duckdb, where)


def _specs(
    folder: Store, only: str | None, scratch: Path, duckdb: DuckDB, left_out: dict[str, str]
) -> Iterator[tuple[TableFile, str]]:
    """Yield all tables, each with what its name is made of."""
    keys = [entry.key for entry in folder.list(only or "") if only in (None, entry.key)]
    graphs = tuple(key.removesuffix(METADATA) for key in keys if _describes_a_graph(folder, key))
    if "" in graphs:
        raise InvalidInputError(
            f"{folder.uri} is a graph in the chunked format already",
            found=METADATA,
            expected="a folder of tables",
            remedy="Pass the folder to 'partition-ops run', or to any other verb, as it is.",
        )
    kinds = table_sources()
    marks = [f"/{kind.mark}" for kind in kinds if kind.mark]
    whole = sorted({key.partition(mark)[0] for mark in marks for key in keys if mark in key})
    tables = tuple(f"{root}/" for root in whole)
    yield from ((TableFile((root,)), root) for root in whole)
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for key in keys:  # not of a graph that was made here, and not hidden
        if key.startswith((*graphs, *tables)) or re.search(r"(^|/)[._]", key):
            continue
        why = [kind.not_inferred for kind in kinds if key.lower().endswith(kind.suffixes)]
        if any(why):
            left_out[key] = why[0]
        elif why:
            place, name = _folder_of_table(key), key.rpartition("/")[2]
            stem, dot, suffix = name.partition(".")
            stem = NUMBER_OF_PART.sub("", stem) or stem
            groups.setdefault((place, dot + suffix), {}).setdefault(stem, []).append(key)
        elif key.lower().endswith(database_suffixes()):
            try:
                yield from _in_database(key, folder, scratch / f"database{len([*scratch.iterdir()])}", duckdb)
            except InvalidInputError as error:
                left_out[key] = error.summary()
    for index, ((place, suffix), stems) in enumerate(sorted(groups.items())):
        members = [key for one in stems.values() for key in one]
        if place and (len(members) == 1 or _same_columns(stems, folder, scratch / f"seen{index}", duckdb)):
            deep = any("/" in key.removeprefix(f"{place}/") for key in members)
            pattern = f"{escaped(place)}/**/*{suffix}" if deep else f"{escaped(place)}/*{suffix}"
            whole_name = members[0].rpartition("/")[2].partition(".")[0]
            one = len(members) == 1 and not deep and NUMBER_OF_PART.sub("", whole_name)
            alone = escaped(members[0]) if one else pattern
            name = members[0] if alone != pattern else place
            yield TableFile((alone,)), name
            continue
        for stem, files in sorted(stems.items()):
            yield TableFile(_paths(stem, files, keys)), stem


def _describes_a_graph(folder: Store, key: str) -> bool:
    """Return whether a file is the metadata of a graph in the chunked format."""
    if not f"/{key}".endswith(f"/{METADATA}"):
        return False
    try:
        document = folder.read_json(key)
    except InvalidInputError:
        return False
    return isinstance(document, dict) and "edge_type" in document


def _folder_of_table(key: str) -> str:
    """Return the folder of a file without folders of rows, such as ``year=2024``."""
    parts = key.split("/")[:-1]
    while parts and OF_ROWS.fullmatch(parts[-1]):
        parts.pop()
    return "/".join(parts)


def _same_columns(stems: Mapping[str, list[str]], folder: Store, scratch: Path, duckdb: DuckDB) -> bool:
    """Return whether the files of a folder have the same columns, by the first one of each name."""
    if len(stems) == 1:
        return True
    found = set()
    for index, files in enumerate(stems.values()):
        try:
            scratch.mkdir(exist_ok=True)
            spec = TableFile((escaped(files[0]),))
            names = _opened(spec, folder, scratch / str(index), duckdb).schema.names
        except InvalidInputError:
            return False
        found.add(tuple(sorted(names)))
    return len(found) == 1


def _paths(stem: str, files: Sequence[str], keys: Sequence[str]) -> tuple[str, ...]:
    """Return the path, the pattern or the paths of files whose names begin with the same stem."""
    head, _, name = files[0].rpartition("/")
    pattern = f"{escaped(head)}/" * bool(head) + f"{escaped(stem)}*.{name.partition('.')[2]}"
    if len(files) > 1 and matches(pattern, keys, pattern) == sorted(files):
        return (pattern,)
    return tuple(map(escaped, files))


def _in_database(key: str, folder: Store, scratch: Path, duckdb: DuckDB) -> Iterator[tuple[TableFile, str]]:
    """Yield the tables and views of a database file.

    Raises:
        InvalidInputError: It is no database, or one that cannot be read.
    """
    entry = folder.stat(key)
    kinds = [kind for kind in table_sources() if entry is not None and kind.is_database(folder, entry)]
    if not kinds:
        raise InvalidInputError("not a database that can be read")
    for kind in kinds:
        spec = TableFile(sql=kind.list_tables, database=escaped(key))
        (path,) = _opened(spec, folder, scratch, duckdb).paths
        for row in sorted(pq.read_table(path).to_pylist(), key=lambda row: (row["place"], row["name"])):
            where = "" if row["place"] == "main" else f"{quoted(row['place'])}."
            sql = f"{ALL}{where}{quoted(row['name'])}"
            yield TableFile(sql=sql, database=escaped(key)), row["name"]


def place_of(spec: TableFile) -> str:
    """Return where a table is, for people."""
    return f"{spec.sql.removeprefix(ALL)} in {spec.database}" if spec.sql else spec.name


def plain_name(text: str, *, whole: bool = False) -> str:
    """Return the name of a type or relation, from that of a file, a folder, a table or, whole, a column."""
    name = text if whole else text.rstrip("/").rpartition("/")[2].partition(".")[0]
    name = re.sub(r"[^\w-]+", "_", name).strip("_-") or "table"
    name = name.encode()[: LONGEST_NAME // 4].decode(errors="ignore")  # a type has three of them
    if whole:
        return name
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def unique_name(name: str, taken: Collection[str]) -> str:
    """Return a name, with a number after it if it is taken."""
    count, found = 1, name
    while found in taken:
        count += 1
        found = f"{name}_{count}"
    return found


def _measure(table: Table, duckdb: DuckDB) -> None:
    """Count distinct values and nulls, and choose the key."""
    schema = table.source.schema
    plain = [entry.name for entry in schema if not pa.types.is_nested(entry.type)]
    counts = [f"count(DISTINCT {quoted(name)})" for name in plain]
    counts += [f"count(*) - count({quoted(name)})" for name in schema.names]
    row = duckdb.query(f"SELECT {', '.join(counts)} FROM {table.rows}")[0] if counts else ()
    table.distinct = dict(zip(plain, row, strict=False))
    table.nulls = dict(zip(schema.names, row[len(plain) :], strict=True))
    names = {"id", "key", "name", table.name, f"{table.name}_id", f"{table.name}id", f"{table.name}_key"}
    names = {name.lower() for name in names}
    usable = [name for name in table.keys if not INDEXES.fullmatch(name)]
    keys = [name for name in usable if table.source.rows and table.distinct[name] == table.source.rows]
    named = [name for name in keys if name.lower() in names]
    if not named:  # a key that is null or twice in some rows: the proposal says so
        named = [
            name
            for name in usable
            if name.lower() in names - {"name", table.name.lower()}
            and table.distinct[name] >= NEARLY * table.source.rows > 0
        ]
    table.named = bool(named)
    ends = {name for pair in named_ends(usable) for name in pair}
    table.key = tuple((named or (keys if keys[:1] == usable[:1] and ends.isdisjoint(keys) else []))[:1])


def _find_splits(table: Table, duckdb: DuckDB) -> None:
    """Find columns of text whose values say which nodes are for training, validation and testing."""
    for name, count in table.distinct.items():
        if 2 <= count <= len(SPLITS) and pa.types.is_string(table.source.schema.field(name).type):
            value = quoted(name)
            rows = duckdb.query(f"SELECT DISTINCT {value} FROM {table.rows} WHERE {value} IS NOT NULL")
            parts = {
                part: text for part, words in SPLITS.items() for (text,) in rows if text.lower() in words
            }
            if "train" in parts and len(parts) == len(rows):
                table.splits[name] = parts


def _may_be_key(kind: pa.DataType) -> bool:
    whole = pa.types.is_integer(kind) and not pa.types.is_uint64(kind)
    return bool(whole or pa.types.is_string(kind))


def named_ends(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of columns whose names are those of the two ends of an edge."""
    plain = {re.sub(r"_?(id|key)$", "", name.lower()): name for name in names}
    return [(plain[a], plain[b]) for a, b in ENDS if a in plain and b in plain]
