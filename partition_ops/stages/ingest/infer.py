"""Propose a ``graph.yaml`` for the tables below a folder, from their columns and values."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from itertools import combinations
from pathlib import Path

import pyarrow as pa

from partition_ops.errors import InvalidInputError, some_of
from partition_ops.stages.ingest.engines import FILE_INDEX, ROW_INDEX, DuckDB, quoted, share_memory
from partition_ops.stages.ingest.graph_file import parse_graph_file
from partition_ops.stages.ingest.infer_tables import (
    FEW,
    INDEXES,
    Table,
    find_tables,
    named_ends,
    place_of,
    plain_name,
    unique_name,
)
from partition_ops.stages.ingest.infer_text import text_of
from partition_ops.stages.ingest.problems import count_of, shown
from partition_ops.stages.ingest.sources import database_suffixes, file_suffixes
from partition_ops.storage import Store
from partition_ops.system.temporary_folders import temporary_folder

KNOWN = 0.5  # share of the values of a column that must be keys of a type
SAMPLE = 10_000  # values of a column that are looked up
SHOWN = 3
MOST_OF_KEY = 6  # columns that are tried as a part of a key


def infer_graph_file(folder: Store, only: str | None = None) -> str:
    """Return a proposal for the tables below a folder, as the text of a ``graph.yaml`` in that folder.

    Files in a folder with the same columns are a table, also in folders below it such as ``year=2024``; the
    tables of SQLite and DuckDB files are tables. A table whose first column with distinct values is named
    ``id``, ``key`` or after the table is a node type. A table with two columns whose values are such keys is
    an edge type, and so is a table with one such column and a second column, whose values become a node type
    without a table. Other columns of a node type with keys of another one are edges from its rows. Two
    columns are a key together if other tables have both. If the two ends of edges are in no table, both
    become node types without a table. Comments name the tables that were left out, with the reason.

    Args:
        folder: The folder.
        only: Key of a file in it; the others are not looked at.

    Raises:
        InvalidInputError: There are no tables, or none of them looks like edges.

    Peak memory: a quarter of what the machine or its cgroup allows.
    """
    left_out: dict[str, str] = {}
    with temporary_folder() as scratch:
        duckdb = DuckDB(Path(scratch), share_memory(None))
        try:
            tables = find_tables(folder, only, Path(scratch), duckdb, left_out)
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
                    left_out[place_of(table.spec)] = _why(table, duckdb)
            text = text_of(folder, nodes, edges, duckdb)
        finally:
            duckdb.close()
    if not tables and not left_out:
        raise InvalidInputError(
            f"There are no tables below {folder.uri}"
            if only is None
            else f"There is no {folder.uri_of(only)}",
            found=some_of([entry.key for entry in folder.list()], 5) or "no file there",
            expected=f"files whose names end with {', '.join((*file_suffixes(), *database_suffixes()))}",
        )
    if not edges and not any(table.ends for table in nodes):
        found = [f"{place_of(table.spec)} ({', '.join(table.columns)})" for table in nodes]
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
    known = {name for pair in named_ends(table.keys) for name in pair}
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
    """Find two columns that are the ends of edges, of which at most one has nodes in a table.

    Both have nodes of one type if they have values in common, or else of types named after them. Return
    whether there are such columns.
    """
    names = [name for name in table.keys if (name,) != table.key and not INDEXES.fullmatch(name)]
    pairs = named_ends(names)
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
    known = {columns[0]: kind for columns, kind in table.ends if len(columns) == 1}
    src, dst = next((pair for pair in pairs if not known.keys().isdisjoint(pair)), pairs[0])
    of_one = next((known[name] for name in (src, dst) if name in known), "node")
    one = _share(table, (src,), table, (dst,), duckdb) > 0 and of_one
    ends: list[tuple[tuple[str, ...], str]] = []
    for name in (src, dst):
        kind = re.sub(r"_?(id|key)$", "", name, flags=re.IGNORECASE) or name
        ends.append(((name,), known.get(name) or one or unique_name(plain_name(kind), taken)))
    table.ends = ends
    return True


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
