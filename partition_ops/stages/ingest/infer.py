"""Propose a ``graph.yaml`` for the tables below a folder, from their columns and values."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.engines import DuckDB, parquet, quoted, share_memory
from partition_ops.stages.ingest.findings import count_of
from partition_ops.stages.ingest.graph_file import TableFile
from partition_ops.stages.ingest.patterns import escaped
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


@dataclass
class Table:
    """A table that was found.

    Attributes:
        name: Name of the node type or relation that it may be.
        path: Path or pattern for graph.yaml.
        source: Its columns.
        distinct: By column, the number of distinct values; without nulls.
        nulls: By column, the number of nulls.
        splits: By column whose values name parts of a split, these values by part.
        key: Column that may be the key of a node type.
        named: Whether the key is named as one.
        ends: Columns with keys of node types, and these types.
    """

    name: str
    path: str
    source: ParquetTable
    distinct: dict[str, int] = field(default_factory=dict)
    nulls: dict[str, int] = field(default_factory=dict)
    splits: dict[str, dict[str, str]] = field(default_factory=dict)
    key: str = ""
    named: bool = False
    ends: list[tuple[str, str]] = field(default_factory=list)

    @property
    def columns(self) -> list[str]:
        return list(self.source.schema.names)


def infer_graph_file(folder: Store) -> str:
    """Return a proposal for the tables below a folder, as the text of a ``graph.yaml`` in that folder.

    A table whose first column with distinct values is named ``id``, ``key`` or after the table is a node
    type. A table with two columns whose values are such keys is an edge type, and so is a table with one such
    column and a second column, whose values become a node type without a table. Other columns of a node type
    with keys of another one are edges from its rows.

    Raises:
        InvalidInputError: There are no tables, or none of them looks like nodes or like edges.

    Peak memory: a quarter of what the machine or its cgroup allows.
    """
    with temporary_folder() as scratch:
        duckdb = DuckDB(Path(scratch), share_memory(None))
        try:
            tables = _tables(folder, Path(scratch), duckdb)
            for table in tables:
                _find_ends(table, tables, duckdb)
        finally:
            duckdb.close()
    if not tables:
        raise InvalidInputError(
            f"There are no tables below {folder.uri}",
            expected=f"files whose names end with {', '.join(file_suffixes())}",
        )
    edges = [table for table in tables if _is_edges(table)]
    nodes = [table for table in tables if table.key and table not in edges]
    if not edges and not any(table.ends for table in nodes):
        raise InvalidInputError(
            f"No table below {folder.uri} looks like edges",
            found=[f"{table.path} ({', '.join(table.columns)})" for table in tables],
            expected="a table with two columns whose values are keys of other tables",
            remedy="Write graph.yaml by hand: 'partition-ops ingest --example' prints an example.",
        )
    return _text(folder, nodes, edges)


def _tables(folder: Store, scratch: Path, duckdb: DuckDB) -> list[Table]:
    """Group files by their names without numbers, and look at every column."""
    groups: dict[str, list[str]] = {}
    keys = [entry.key for entry in folder.list()]
    graphs = tuple(f"{key.removesuffix(METADATA)}" for key in keys if key.endswith(f"/{METADATA}"))
    marks = [f"/{kind.mark}" for kind in table_sources() if kind.mark]
    whole = {key.partition(mark)[0] for mark in marks for key in keys if mark in key}
    suffixes = file_suffixes()
    for key in keys:
        if key.startswith(graphs) or re.search(r"(^|/)[._]", key):  # of a graph that was made here, or hidden
            continue
        root = next((root for root in whole if key.startswith(f"{root}/")), None)
        if root is not None:
            groups.setdefault(root, []).append(root)
        elif key.lower().endswith(suffixes):
            groups.setdefault(_pattern(key), []).append(key)
    found = []
    for index, (pattern, keys) in enumerate(sorted(groups.items())):
        path = pattern if len(keys) > 1 else (keys[0] if keys[0] in whole else escaped(keys[0]))
        place = scratch / f"table{index}"
        place.mkdir()
        files = find_table(TableFile((path,)), folder, open_store, path)
        table = Table(_name(path), path, open_table(files, None, [], place, duckdb, path))
        _measure(table, duckdb)
        _find_splits(table, duckdb)
        found.append(table)
    return found


def _pattern(key: str) -> str:
    """Return the pattern of the files that belong to one table with this one."""
    head, _, name = escaped(key).rpartition("/")
    stem, dot, suffix = name.partition(".")
    if head:  # a folder is a table
        return f"{head.partition('/')[0]}/**/*{dot}{suffix}" if "/" in head else f"{head}/*{dot}{suffix}"
    plain = re.sub(r"([-_.]?(part|chunk)?[-_]?\d+)+([-_][0-9a-f-]{8,})?$", "", stem)
    return f"{plain}*{dot}{suffix}" if plain != stem else name


def _name(path: str) -> str:
    """Return the name of a table, from its path."""
    head, _, name = path.rpartition("/")
    plain = (
        re.sub(r"[^A-Za-z0-9_]+$", "", re.split(r"[*.]", name)[0])
        or head.removesuffix("/**").rpartition("/")[2]
    )
    if plain.endswith("ies"):
        return f"{plain[:-3]}y"
    return plain[:-1] if plain.endswith("s") and not plain.endswith("ss") else plain


def _measure(table: Table, duckdb: DuckDB) -> None:
    """Count distinct values and nulls, and choose the key."""
    plain = [entry.name for entry in table.source.schema if not pa.types.is_nested(entry.type)]
    counts = ", ".join(f"count(DISTINCT {quoted(name)}), count(*) - count({quoted(name)})" for name in plain)
    row = duckdb.query(f"SELECT {counts} FROM {parquet(table.source.paths)}")[0] if plain else ()
    for index, name in enumerate(plain):
        table.distinct[name], table.nulls[name] = row[2 * index], row[2 * index + 1]
    names = {"id", "key", "name", table.name, f"{table.name}_id", f"{table.name}id", f"{table.name}_key"}
    keys = [
        name
        for name in plain
        if table.source.rows and table.distinct[name] == table.source.rows and _may_be_key(table, name)
    ]
    named = [name for name in keys if name.lower() in names]
    if not named:  # a key that is null or twice in some rows: the proposal says so
        named = [
            name
            for name in plain
            if name.lower() in names - {"name", table.name}
            and _may_be_key(table, name)
            and table.distinct[name] >= NEARLY * table.source.rows > 0
        ]
    table.named = bool(named)
    table.key = (named or (keys if keys[:1] == plain[:1] else []) or [""])[0]


def _find_splits(table: Table, duckdb: DuckDB) -> None:
    """Find columns of text whose values say which nodes are for training, validation and testing."""
    for name, count in table.distinct.items():
        if 2 <= count <= len(SPLITS) and pa.types.is_string(table.source.schema.field(name).type):
            value = quoted(name)
            rows = duckdb.query(
                f"SELECT DISTINCT {value} FROM {parquet(table.source.paths)} WHERE {value} IS NOT NULL"
            )
            parts = {
                part: text for part, words in SPLITS.items() for (text,) in rows if text.lower() in words
            }
            if "train" in parts and len(parts) == len(rows):
                table.splits[name] = parts


def _may_be_key(table: Table, name: str) -> bool:
    kind = table.source.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind))


def _find_ends(table: Table, tables: Sequence[Table], duckdb: DuckDB) -> None:
    """Find the columns of a table whose values are keys of others; those named alike win."""
    for column in table.distinct:
        if not _may_be_key(table, column):
            continue
        shares = {}
        for other in tables:
            if other.key and (other is not table or column != table.key):
                share = _share(table, column, other, duckdb)
                alike = other.name.lower() in column.lower() or column.lower() == other.key.lower()
                few = table.distinct[column] <= min(FEW, table.source.rows // 10)  # a category, by chance
                if share >= KNOWN and (alike or not few):
                    shares[other.name] = (alike, share, other.named, other is not table)
        if shares:
            table.ends.append((column, max(shares, key=lambda name: shares[name])))


def _share(table: Table, column: str, other: Table, duckdb: DuckDB) -> float:
    """Return the share of some values of a column that are keys of another table."""
    same = pa.types.is_string(table.source.schema.field(column).type) == pa.types.is_string(
        other.source.schema.field(other.key).type
    )
    if not same:
        return 0.0
    values = f"SELECT DISTINCT {quoted(column)} AS v FROM {parquet(table.source.paths)}"
    keys = f"SELECT {quoted(other.key)} FROM {parquet(other.source.paths)}"
    share = duckdb.query(
        f"SELECT avg((v IN ({keys}))::INT) FROM ({values} WHERE v IS NOT NULL ORDER BY v LIMIT {SAMPLE})"
    )[0][0]
    return float(share or 0)


def _is_edges(table: Table) -> bool:
    """Return whether a table is edges: its key, if it has one, is that of another table."""
    keys = [column for column, _ in table.ends]
    rest = [name for name in table.distinct if name not in keys and _may_be_key(table, name)]
    if table.key and table.key not in keys:
        return False
    if len(keys) == 1 and len(table.distinct) == 2 and rest:  # the other column makes a type of its own
        table.ends.append((rest[0], rest[0]))
    return len(table.ends) >= 2


def _text(folder: Store, nodes: Sequence[Table], edges: Sequence[Table]) -> str:
    name = re.sub(r"[^A-Za-z0-9_]", "_", folder.uri.rstrip("/").rpartition("/")[2]) or "graph"
    name = name if re.match(r"[A-Za-z_]", name) else f"graph_{name}"
    lines = [
        "# Proposed from the columns of the tables and some of their values: check every line.",
        f"# Paths are relative to this file: save it as graph.yaml in {folder.uri}.",
        f"graph_name: {name}",
        "",
        "nodes:",
    ]
    for table in nodes:
        lines += [f"  {table.name}:", f"    table: {_quoted(table.path)}", f"    key: {_quoted(table.key)}"]
        if table.distinct[table.key] < table.source.rows:
            lines.append(f"    # {_defects(table)}: correct the rows, or choose an action with on_defect")
        lines += _columns(table, [table.key, *(column for column, _ in table.ends)])
    lines += ["", "edges:"]
    taken: set[str] = set()
    named = {table.name for table in nodes}
    for kind in dict.fromkeys(kind for table in edges for _, kind in table.ends[:2] if kind not in named):
        lines.insert(lines.index("edges:") - 1, f"  {kind}:  # the keys that edges name")
    for table in nodes:
        for column, kind in table.ends:
            if kind in named:
                lines += [f"  {table.name}:{column}:{kind}:", f"    table: {_quoted(table.path)}"]
                lines += [f"    src: {_quoted(table.key)}", f"    dst: {_quoted(column)}"]
                lines += ["    on_defect: {null_keys: drop}"] if table.nulls[column] else []
    for table in edges:
        (src, src_type), (dst, dst_type) = table.ends[:2]
        relation = f"{src_type}:{table.name}:{dst_type}"
        while relation in taken:
            relation += "_2"
        taken.add(relation)
        lines += [f"  {relation}:", f"    table: {_quoted(table.path)}"]
        lines += [f"    src: {_quoted(src)}", f"    dst: {_quoted(dst)}"]
        lines += _columns(table, [src, dst], edges=True)
        lines += [f"    # {_quoted(end)} has keys of {kind}, too" for end, kind in table.ends[2:]]
    return "\n".join(lines) + "\n"


def _columns(table: Table, keys: Sequence[str], *, edges: bool = False) -> list[str]:
    """Return lines with a split of nodes, a time of edges, a feature for each other column, and texts."""
    features, texts = [], []
    split = "" if edges else next(iter(table.splits), "")
    times = [entry.name for entry in table.source.schema if pa.types.is_temporal(entry.type)]
    time = next((name for name in times if edges and name not in keys and not table.nulls.get(name)), "")
    for entry in table.source.schema:
        if entry.name in (*keys, split, time):
            continue
        name, missing = _quoted(entry.name), table.nulls.get(entry.name, 0) > 0
        if pa.types.is_string(entry.type):
            if table.distinct[entry.name] <= FEW:
                more = ', missing: ""' if missing else ""
                features.append(f"      {name}: {{transform: one-hot{more}}}")
            elif not edges:
                texts.append(name)
        elif pa.types.is_nested(entry.type) or pa.types.is_boolean(entry.type):
            features.append(f"      {name}:")
        else:
            more = ", missing: 0" if missing else ""
            temporal = pa.types.is_temporal(entry.type)
            features.append(
                f"      {name}:" if temporal else f"      {name}: {{transform: standardise{more}}}"
            )
    lines = [f"    time: {_quoted(time)}"] if time else []
    if split:
        parts = ", ".join(f"{part}: [{_quoted(text)}]" for part, text in table.splits[split].items())
        lines.append(f"    split: {{column: {_quoted(split)}, {parts}}}")
    lines += ["    features:", *features] if features else []
    return lines + ([f"    text: [{', '.join(texts)}]"] if texts else [])


def _defects(table: Table) -> str:
    """Return a clause about the rows of a node table that have no key of their own."""
    nulls = table.nulls[table.key]
    again = table.source.rows - nulls - table.distinct[table.key]
    counts = {"without a key": nulls, "with a key that another row has": again}
    return ", ".join(f"{count_of(count, 'row')} {what}" for what, count in counts.items() if count)


def _quoted(text: str) -> str:
    """Return a text as YAML needs it."""
    import yaml

    return (
        str(yaml.safe_dump(text, default_flow_style=True, width=1 << 20))
        .removesuffix("\n")
        .removesuffix("\n...")
    )
