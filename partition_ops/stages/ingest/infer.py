"""Propose a ``graph.yaml`` for the tables below a folder, from their columns and values."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.graph_writer import ORIG_ID
from partition_ops.chunked.metadata import LONGEST_NAME, METADATA
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.engines import (
    FILE_INDEX,
    ROW_INDEX,
    DuckDB,
    parquet,
    quoted,
    share_memory,
)
from partition_ops.stages.ingest.findings import count_of, shown
from partition_ops.stages.ingest.graph_file import MOST_FEATURES, TableFile, parse_graph_file
from partition_ops.stages.ingest.patterns import escaped, matches
from partition_ops.stages.ingest.sources import file_suffixes, table_sources
from partition_ops.stages.ingest.tables import ParquetTable, find_table, open_table
from partition_ops.storage import Store, open_store
from partition_ops.system.temporary_folders import temporary_folder

NEARLY = 0.5  # share of distinct values of a column that is named as a key
SPLITS = {
    "train": {"train", "training"},
    "val": {"val", "valid", "validation", "dev"},
    "test": {"test", "testing"},
}
KNOWN = 0.5  # share of the values of a column that must be keys of a type
SAMPLE = 10_000  # values of a column that are looked up
FEW = 32  # categories
INDEXES = re.compile(r"__index_level_\d+__|Unnamed: \d+")  # columns in which pandas keeps its index
OF_ROWS = re.compile(r"[^=]+=.*|\d[\d_-]*")  # folders with rows of a table, such as year=2024 or 2024-01
DATABASES = (  # where in a file its kind is written, how, and which tables there are
    (
        0,
        b"SQLite format 3",
        "SELECT 'main' AS place, name FROM sqlite_master WHERE type IN ('table', 'view')"
        " AND name NOT LIKE 'sqlite%'",
    ),
    (8, b"DUCK", "SELECT table_schema AS place, table_name AS name FROM information_schema.tables"),
)
DATABASE_NAMES = (".db", ".sqlite", ".sqlite3", ".duckdb", ".ddb")
ENDS = (
    *(("src", "dst"), ("source", "target"), ("source", "destination"), ("from", "to")),
    *(("head", "tail"), ("subject", "object"), ("h", "t"), ("s", "o")),
)
RELATIONS = {"relation", "relationship", "predicate", "rel", "r", "p"}
SHOWN = 3
MOST_OF_KEY = 6  # columns that are tried as a part of a key
ALL = "SELECT * FROM "


@dataclass
class Table:
    """A table that was found.

    Attributes:
        name: Name of the node type or relation that it may be.
        spec: Where it is.
        source: Its columns.
        distinct: By column that is no list, the number of distinct values; without nulls.
        nulls: By such a column, the number of nulls.
        splits: By column whose values name parts of a split, these values by part.
        key: Columns that may be the key of a node type.
        named: Whether the key is named as one.
        ends: Columns with keys of node types, and these types.
    """

    name: str
    spec: TableFile
    source: ParquetTable
    distinct: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    splits: dict[str, dict[str, str]] = field(default_factory=dict)
    key: tuple[str, ...] = ()
    named: bool = False
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


def infer_graph_file(folder: Store) -> str:
    """Return a proposal for the tables below a folder, as the text of a ``graph.yaml`` in that folder.

    Files in a folder with the same columns are a table, also in folders below it such as ``year=2024``; the
    tables of SQLite and DuckDB files are tables. A table whose first column with distinct values is named
    ``id``, ``key`` or after the table is a node type. A table with two columns whose values are such keys is
    an edge type, and so is a table with one such column and a second column, whose values become a node type
    without a table. Other columns of a node type with keys of another one are edges from its rows. Two
    columns are a key together if other tables have both. If the two ends of edges are in no table, both
    become node types without a table. Comments name the tables that were left out, with the reason.

    Raises:
        InvalidInputError: There are no tables, or none of them looks like edges.

    Peak memory: a quarter of what the machine or its cgroup allows.
    """
    left_out: dict[str, str] = {}
    with temporary_folder() as scratch:
        duckdb = DuckDB(Path(scratch), share_memory(None))
        try:
            tables = _tables(folder, Path(scratch), duckdb, left_out)
            for table in tables:
                _find_ends(table, tables, duckdb)
            _find_joint_keys(tables, duckdb)
            edges = [table for table in tables if _is_edges(table)]
            nodes = [table for table in tables if table.key and table not in edges]
            some = bool(edges) or any(table.ends for table in nodes)
            taken = {"node", *(table.name for table in nodes)}
            for table in tables:
                if table not in edges and not (table.key and some) and _name_ends(table, taken, duckdb):
                    edges.append(table)
            nodes = [table for table in nodes if table not in edges]
            for table in tables:
                if table not in edges and table not in nodes:
                    left_out[_place(table.spec)] = _why(table, duckdb)
            text = _text(folder, nodes, edges, duckdb)
        finally:
            duckdb.close()
    if not tables and not left_out:
        raise InvalidInputError(
            f"There are no tables below {folder.uri}",
            expected=f"files whose names end with {', '.join((*file_suffixes(), *DATABASE_NAMES))}",
        )
    if not edges and not any(table.ends for table in nodes):
        found = [f"{_place(table.spec)} ({', '.join(table.columns)})" for table in nodes]
        raise InvalidInputError(
            f"No table below {folder.uri} looks like edges",
            found=[*found, *(f"{place}: {why}" for place, why in left_out.items())],
            expected="a table with two columns whose values are keys of other tables",
            remedy="Write graph.yaml by hand: 'partition-ops ingest --example' prints an example.",
        )
    text += "\n# Left out:\n" if left_out else ""
    text += "".join(f"# {ascii(f'{place}: {why}')[1:-1]}\n" for place, why in left_out.items())
    parse_graph_file(text.encode(), folder.uri_of("graph.yaml"))
    return text


def _tables(folder: Store, scratch: Path, duckdb: DuckDB, left_out: dict[str, str]) -> list[Table]:
    """Open all tables, and look at every column."""
    found: list[Table] = []
    specs = sorted(_specs(folder, scratch, duckdb, left_out), key=lambda one: _place(one[0]))
    for index, (spec, name) in enumerate(specs):
        try:
            source = _opened(spec, folder, scratch / f"table{index}", duckdb)
            table = Table(_unique(_plain_name(name), [one.name for one in found]), spec, source)
            _measure(table, duckdb)
            _find_splits(table, duckdb)
            found.append(table)
        except InvalidInputError as error:
            left_out[_place(spec)] = error.summary()
    return found


def _opened(spec: TableFile, folder: Store, scratch: Path, duckdb: DuckDB) -> ParquetTable:
    scratch.mkdir()
    where = _place(spec)
    return open_table(find_table(spec, folder, open_store, where), None, [], scratch, duckdb, where)


def _specs(
    folder: Store, scratch: Path, duckdb: DuckDB, left_out: dict[str, str]
) -> Iterator[tuple[TableFile, str]]:
    """Yield all tables, each with what its name is made of."""
    keys = [entry.key for entry in folder.list()]
    graphs = tuple(f"{key.removesuffix(METADATA)}" for key in keys if key.endswith(f"/{METADATA}"))
    marks = [f"/{kind.mark}" for kind in table_sources() if kind.mark]
    whole = sorted({key.partition(mark)[0] for mark in marks for key in keys if mark in key})
    tables = tuple(f"{root}/" for root in whole)
    yield from ((TableFile((root,)), root) for root in whole)
    groups: dict[tuple[str, str], dict[str, list[str]]] = {}
    for key in keys:  # not of a graph that was made here, and not hidden
        if key.startswith((*graphs, *tables)) or re.search(r"(^|/)[._]", key):
            continue
        if key.lower().endswith(".npy"):
            left_out[key] = "its rows have no keys; join it by row in a query, FROM … JOIN …"
        elif key.lower().endswith(file_suffixes()):
            place, name = _folder_of_table(key), key.rpartition("/")[2]
            stem, dot, suffix = name.partition(".")
            stem = re.sub(r"([-_.]?(part|chunk)?[-_]?\d+)+([-_][0-9a-f-]{8,})?$", "", stem) or stem
            groups.setdefault((place, dot + suffix), {}).setdefault(stem, []).append(key)
        elif key.lower().endswith(DATABASE_NAMES):
            try:
                yield from _in_database(key, folder, scratch / f"database{len([*scratch.iterdir()])}", duckdb)
            except InvalidInputError as error:
                left_out[key] = error.summary()
    for index, ((place, suffix), stems) in enumerate(sorted(groups.items())):
        members = [key for one in stems.values() for key in one]
        if place and (len(members) == 1 or _same_columns(stems, folder, scratch / f"seen{index}", duckdb)):
            deep = any("/" in key.removeprefix(f"{place}/") for key in members)
            pattern = f"{escaped(place)}/**/*{suffix}" if deep else f"{escaped(place)}/*{suffix}"
            alone = escaped(members[0]) if len(members) == 1 and not deep else pattern
            name = members[0] if alone != pattern else place
            yield TableFile((alone,)), name
            continue
        for stem, files in sorted(stems.items()):
            yield TableFile(_paths(stem, files, keys)), stem


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
    """Yield the tables and views of a database file; none if it is no database."""
    entry = folder.stat(key)
    begin = folder.read_range(key, 0, min(16, entry.size)) if entry else b""
    for place, magic, sql in DATABASES:
        if begin[place:].startswith(magic):
            spec = TableFile(sql=sql, database=escaped(key))
            (path,) = _opened(spec, folder, scratch, duckdb).paths
            for row in sorted(pq.read_table(path).to_pylist(), key=lambda row: (row["place"], row["name"])):
                where = "" if row["place"] == "main" else f"{quoted(row['place'])}."
                sql = f"{ALL}{where}{quoted(row['name'])}"
                yield TableFile(sql=sql, database=escaped(key)), row["name"]


def _place(spec: TableFile) -> str:
    """Return where a table is, for people."""
    return f"{spec.sql.removeprefix(ALL)} in {spec.database}" if spec.sql else spec.name


def _plain_name(text: str, *, whole: bool = False) -> str:
    """Return the name of a type or relation, from that of a file, a folder, a table or, whole, a column."""
    name = text if whole else text.rstrip("/").rpartition("/")[2].partition(".")[0]
    name = re.sub(r"[^\w-]+", "_", name).strip("_-") or "table"
    name = name.encode()[: LONGEST_NAME // 4].decode(errors="ignore")  # a type has three of them
    if whole:
        return name
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def _unique(name: str, taken: Collection[str]) -> str:
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
    ends = {name for pair in _named_ends(usable) for name in pair}
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


def _find_ends(table: Table, tables: Sequence[Table], duckdb: DuckDB) -> None:
    """Find the columns of a table whose values are keys of others; those named alike win."""
    for column in table.keys:
        shares = {}
        for other in tables:
            own = (column,) == table.key and (other is table or (table.named and not other.named))
            if other.key and not own:
                share = _share(table, (column,), other, other.key, duckdb)
                alike = other.name.lower() in column.lower() or column.lower() == other.key[0].lower()
                few = table.distinct[column] <= min(FEW, table.source.rows // 10)  # a category, by chance
                if share >= KNOWN and (alike or not (few or _is_number(table, column))):
                    shares[other.name] = (alike + other.named, share, other.named, other is not table)
        if shares:
            table.ends.append(((column,), max(shares, key=lambda name: shares[name])))


def _is_number(table: Table, column: str) -> bool:
    """Return whether whole numbers are a quantity by the name of their column, and keys by chance."""
    whole = pa.types.is_integer(table.source.schema.field(column).type)
    known = {name for pair in _named_ends(table.keys) for name in pair}
    named = column in known or re.search(r"(id|key|no|num|number|code)$", column.lower())
    first = not table.named and column in table.columns[:2]
    return bool(whole and not named and not first)


def _share(table: Table, columns: Sequence[str], other: Table, keys: Sequence[str], duckdb: DuckDB) -> float:
    """Return the share of some values of columns that are keys of another table."""
    for column, key in zip(columns, keys, strict=True):
        kinds = [one.source.schema.field(name).type for one, name in ((table, column), (other, key))]
        if pa.types.is_string(kinds[0]) != pa.types.is_string(kinds[1]):
            return 0.0
    value, own = (f"row({', '.join(map(quoted, names))})" for names in (columns, keys))
    known = " AND ".join(f"{quoted(name)} IS NOT NULL" for name in columns)
    values = f"SELECT DISTINCT {value} AS v FROM {table.rows} WHERE {known} ORDER BY v LIMIT {SAMPLE}"
    found = f"SELECT avg((v IN (SELECT {own} FROM {other.rows}))::INT) FROM ({values})"
    return float(duckdb.query(found)[0][0] or 0)


def _find_joint_keys(tables: Sequence[Table], duckdb: DuckDB) -> None:
    """Find tables whose key are two columns, which other tables have as well, also with a prefix."""
    for table in tables:
        if table.key or len(table.ends) > 1:
            continue
        for pair in combinations(table.keys[:MOST_OF_KEY], 2):
            count = duckdb.query(
                f"SELECT count(DISTINCT row({', '.join(map(quoted, pair))})) FROM {table.rows}"
            )
            if not table.source.rows or count[0][0] < table.source.rows:
                continue
            ends = [
                (other, columns)
                for other in tables
                for columns in _prefixed(other.keys, pair)
                if other is not table and _share(other, columns, table, pair, duckdb) >= KNOWN
            ]
            if ends:
                table.key = pair
                for other, columns in ends:
                    other.ends.insert(0, (columns, table.name))
                break


def _prefixed(names: Sequence[str], pair: tuple[str, str]) -> list[tuple[str, str]]:
    """Return the pairs of names that are a pair of names with the same beginning before both."""
    begins = [name.removesuffix(pair[0]) for name in names if name.endswith(pair[0])]
    return [(begin + pair[0], begin + pair[1]) for begin in begins if begin + pair[1] in names]


def _is_edges(table: Table) -> bool:
    """Return whether a table is edges: its key, if it has one, is that of another table."""
    keys = [columns for columns, _ in table.ends]
    rest = [name for name in table.keys if (name,) not in keys]
    if table.key and table.key not in keys:
        return False
    if len(keys) == 1 and len(keys[0]) == 1 and len(table.columns) == 2 and rest:
        table.ends.append(((rest[0],), rest[0]))  # the other column makes a type of its own
    return len(table.ends) >= 2


def _name_ends(table: Table, taken: Collection[str], duckdb: DuckDB) -> bool:
    """Find two columns that are the ends of edges whose nodes are in no table; return whether there are.

    Both have nodes of one type if they have values in common, or else of two types named after them.
    """
    names = [name for name in table.keys if (name,) != table.key and not INDEXES.fullmatch(name)]
    pairs = _named_ends(names)
    ids = [name for name in names if re.search(r"(id|key)$", name.lower())]
    pairs += [(ids[0], ids[1])] if len(ids) > 1 else []
    pairs += [(names[0], names[1])] if len(table.columns) == len(names) == 2 else []
    pairs += [
        pair
        for pair in combinations(names, 2)
        if all(table.distinct[name] > min(FEW, table.source.rows // 10) for name in pair)
        and _share(table, pair[:1], table, pair[1:], duckdb) >= KNOWN
    ]
    if not pairs or not table.source.rows:
        return False
    src, dst = pairs[0]
    one = _share(table, (src,), table, (dst,), duckdb) > 0 and "node"
    kinds = (re.sub(r"_?(id|key)$", "", name, flags=re.IGNORECASE) or name for name in (src, dst))
    kinds = (_unique(_plain_name(kind), taken) for kind in kinds)
    table.ends = [((name,), one or kind) for name, kind in zip((src, dst), kinds, strict=True)]
    return True


def _named_ends(names: Sequence[str]) -> list[tuple[str, str]]:
    """Return the pairs of columns whose names are those of the two ends of an edge."""
    plain = {re.sub(r"_?(id|key)$", "", name.lower()): name for name in names}
    return [(plain[a], plain[b]) for a, b in ENDS if a in plain and b in plain]


def _why(table: Table, duckdb: DuckDB) -> str:
    """Return why a table is neither nodes nor edges: the first rows with a key that another row has."""
    if not table.source.rows:
        return "it has no rows"
    if not table.keys:
        return f"no column can be a key: {', '.join(table.columns)}"
    key = max(table.keys, key=lambda name: table.distinct[name])
    again = table.source.rows - table.nulls[key] - table.distinct[key]
    if not again:
        return "no two columns have keys of other tables"
    value = quoted(key)
    view = duckdb.indexed("left_out", table.source.paths, table.source.schema).get_name()
    twice = (
        f"SELECT {value} FROM {view} WHERE {value} IS NOT NULL GROUP BY 1 HAVING count(*) > 1"
        f" ORDER BY 1 LIMIT {SHOWN}"
    )
    rows = duckdb.query(
        f"SELECT {value}, {quoted(FILE_INDEX)}, {quoted(ROW_INDEX)} FROM {view} WHERE {value} IN ({twice})"
        f" ORDER BY 1, 2, 3 LIMIT {2 * SHOWN}"
    )
    places = [f"{shown(text)} in {table.source.names[file]}, row {row}" for text, file, row in rows]
    return f"no key: {count_of(again, 'row')} with a value in {key} that another row has: {'; '.join(places)}"


def _text(folder: Store, nodes: Sequence[Table], edges: Sequence[Table], duckdb: DuckDB) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", folder.uri.rstrip("/").rpartition("/")[2]) or "graph"
    name = (name if re.match(r"[A-Za-z_]", name) else f"graph_{name}")[:LONGEST_NAME]
    lines = [
        "# Proposed from the columns of the tables and some of their values: check every line.",
        f"# Paths are relative to this file: save it as graph.yaml in {ascii(folder.uri)[1:-1]}.",
        f"graph_name: {name}",
        "",
        "nodes:",
    ]
    for table in nodes:
        lines += [f"  {_key(table.name)}:", f"    table: {_table(table.spec)}"]
        lines += [f"    key: {_joined(table.key)}"]
        if len(table.key) == 1 and table.distinct[table.key[0]] < table.source.rows:
            lines.append(f"    # {_defects(table)}: correct the rows, or choose an action with on_defect")
        ends = [name for columns, _ in table.ends for name in columns]
        lines += _columns(table, [*table.key, *ends], duckdb)
    named = {table.name for table in nodes}
    others = dict.fromkeys(kind for table in edges for _, kind in table.ends[:2] if kind not in named)
    lines += [*(f"  {_key(kind)}:  # the keys that edges name" for kind in others), "", "edges:"]
    taken: set[str] = set()

    def add(src_type: str, relation: str, dst_type: str, *more: str) -> None:
        name = _unique(f"{src_type}:{relation}", {one.rpartition(":")[0] for one in taken}) + f":{dst_type}"
        taken.add(name)
        lines.extend([f"  {_key(name)}:", *more])

    for table in nodes:
        for columns, kind in table.ends if table.key else ():
            if kind in named:
                ends = [f"    src: {_joined(table.key)}", f"    dst: {_joined(columns)}"]
                ends += ["    on_defect: {null_keys: drop}"] if any(map(table.nulls.get, columns)) else []
                place = f"    table: {_table(table.spec)}"
                add(table.name, _plain_name("_".join(columns), whole=True), kind, place, *ends)
    for table in edges:
        (src, src_type), (dst, dst_type) = table.ends[:2]
        ends = [f"    src: {_joined(src)}", f"    dst: {_joined(dst)}"]
        relation = _relation(table, [*src, *dst])
        ends += [f"    relation: {_quoted(relation)}"] if relation else []
        own = table.key if table.key not in (src, dst) else ()
        ends += [f"    key: {_joined(own)}"] if own else []
        ends += _columns(table, [*src, *dst, *own, relation], duckdb, edges=True)
        ends += [f"    # {_joined(end)} has keys of {kind}, too" for end, kind in table.ends[2:]]
        add(src_type, "*" if relation else table.name, dst_type, f"    table: {_table(table.spec)}", *ends)
    return "\n".join(lines) + "\n"


def _relation(table: Table, ends: Collection[str]) -> str:
    """Return the column with the relations of triples, by the names of all three columns; empty if none."""
    if tuple(ends) not in _named_ends(table.keys):
        return ""
    names = (name for name in table.keys if name.lower() in RELATIONS and name not in ends)
    return next((name for name in names if not table.nulls[name] and table.distinct[name] > 1), "")


def _columns(table: Table, keys: Sequence[str], duckdb: DuckDB, *, edges: bool = False) -> list[str]:
    """Return lines with a split of nodes, a time of edges, a feature for each other column, and texts."""
    features: list[str] = []
    texts: list[str] = []
    split = "" if edges else next((name for name in table.splits if name not in keys), "")
    schema = table.source.schema
    times = [entry.name for entry in schema if pa.types.is_temporal(entry.type) and _is_time(entry.type)]
    time = next((name for name in times if edges and name not in keys and not table.nulls.get(name)), "")
    taken = {"train_mask", "val_mask", "test_mask"} if split else {"time"} if time else set()
    for entry in schema:
        if entry.name in (*keys, split, time) or INDEXES.fullmatch(entry.name):
            continue
        declared = _feature(table, entry, duckdb)
        if declared is None and pa.types.is_string(entry.type) and not edges:
            texts += [entry.name] if "/" not in entry.name and entry.name.lower() != ORIG_ID else []
        elif declared is not None and len(features) < MOST_FEATURES:
            name = "".join(one if one.isprintable() and one != "/" else "_" for one in entry.name)
            name = _unique(name.encode()[: LONGEST_NAME // 2].decode(errors="ignore") or "_", taken)
            taken.add(name)
            column = [] if name == entry.name else [f"column: {_quoted(entry.name)}"]
            more = ", ".join([*column, *declared])
            features.append(f"      {_key(name)}:{f' {{{more}}}' if more else ''}")
    lines = [f"    time: {_quoted(time)}"] if time else []
    if split:
        parts = ", ".join(f"{part}: [{_quoted(text)}]" for part, text in table.splits[split].items())
        lines.append(f"    split: {{column: {_quoted(split)}, {parts}}}")
    lines += ["    features:", *features] if features else []
    return lines + ([f"    text: [{', '.join(map(_quoted, texts))}]"] if texts else [])


def _feature(table: Table, entry: pa.Field, duckdb: DuckDB) -> list[str] | None:
    """Return what a feature of a column declares; None if the column cannot be one as it is."""
    kind, nulls = entry.type, table.nulls[entry.name]
    if nulls == table.source.rows or table.distinct.get(entry.name) == 0:
        return None
    if pa.types.is_string(kind):
        few = table.distinct[entry.name] <= FEW
        return ["transform: one-hot", *(['missing: ""'] if nulls else [])] if few else None
    if pa.types.is_boolean(kind):
        return ["missing: false"] if nulls else []
    if _is_time(kind):
        return None if nulls else []
    if pa.types.is_list(kind) and (
        pa.types.is_integer(kind.value_type) or pa.types.is_floating(kind.value_type)
    ):
        one = quoted(entry.name)
        (lengths, gaps), *_ = duckdb.query(
            f"SELECT count(DISTINCT len({one})), sum(len({one}) - list_count({one})) FROM {table.rows}"
        )
        return (["missing: 0"] if nulls else []) if lengths == 1 and not gaps else None
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal128(kind):
        return ["transform: standardise", *(["missing: 0"] if nulls else [])]
    return None


def _is_time(kind: pa.DataType) -> bool:
    return bool(pa.types.is_date32(kind) or pa.types.is_timestamp(kind))


def _defects(table: Table) -> str:
    """Return a clause about the rows of a node table that have no key of their own."""
    nulls = table.nulls[table.key[0]]
    again = table.source.rows - nulls - table.distinct[table.key[0]]
    counts = {"without a key": nulls, "with a key that another row has": again}
    return ", ".join(f"{count_of(count, 'row')} {what}" for what, count in counts.items() if count)


def _table(spec: TableFile) -> str:
    """Return where a table is, as YAML."""
    if spec.sql:
        return f"{{sql: {_quoted(spec.sql)}, database: {_quoted(spec.database)}}}"
    return _joined(spec.paths)


def _joined(texts: Sequence[str]) -> str:
    """Return a text, or a list of several, as YAML."""
    return _quoted(texts[0]) if len(texts) == 1 else f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    """Return a text as YAML needs it, also inside of braces."""
    import yaml

    return str(yaml.safe_dump([text], default_flow_style=True, width=1 << 20, allow_unicode=True)).strip()[
        1:-1
    ]


def _key(text: str) -> str:
    """Return the key of a mapping on lines of its own as YAML needs it."""
    import yaml

    line = str(yaml.safe_dump({text: 0}, width=1 << 20, allow_unicode=True))
    return _quoted(text) if line.startswith("? ") else line.removesuffix(": 0\n")
