"""The text of a ``graph.yaml`` for the tables that `infer_graph_file` has found."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

import pyarrow as pa

from partition_ops.chunked.graph_writer import ORIG_ID
from partition_ops.chunked.names import LONGEST_NAME
from partition_ops.stages.ingest.engines import DuckDB, quoted
from partition_ops.stages.ingest.graph_file import MOST_FEATURES
from partition_ops.stages.ingest.graph_types import TableFile
from partition_ops.stages.ingest.infer_tables import FEW, INDEXES, Table, named_ends, plain_name, unique_name
from partition_ops.stages.ingest.problems import count_of
from partition_ops.storage import Store

RELATIONS = {"relation", "relationship", "predicate", "rel", "r", "p"}


def text_of(folder: Store, nodes: Sequence[Table], edges: Sequence[Table], duckdb: DuckDB) -> str:
    """Return the text.

    Args:
        folder: Folder of the tables, where the file is to be saved.
        nodes: Tables of node types.
        edges: Tables of edge types.
        duckdb: Looks up values of columns.
    """
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
        begins = {one.rpartition(":")[0] for one in taken}
        name = f"{unique_name(f'{src_type}:{relation}', begins)}:{dst_type}"
        taken.add(name)
        lines.extend([f"  {_key(name)}:", *more])

    for table in nodes:
        for columns, kind in table.ends if table.key else ():
            if kind in named:
                ends = [f"    src: {_joined(table.key)}", f"    dst: {_joined(columns)}"]
                ends += ["    on_defect: {null_keys: drop}"] if any(map(table.nulls.get, columns)) else []
                place = f"    table: {_table(table.spec)}"
                add(table.name, plain_name("_".join(columns), whole=True), kind, place, *ends)
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
    if tuple(ends) not in named_ends(table.keys):
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
            name = unique_name(name.encode()[: LONGEST_NAME // 2].decode(errors="ignore") or "_", taken)
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

    shown = text.isprintable()  # PyYAML does not escape U+0085, and reads it as a line break
    line = str(yaml.safe_dump([text], default_flow_style=True, width=1 << 20, allow_unicode=shown))
    return line.strip()[1:-1]


def _key(text: str) -> str:
    """Return the key of a mapping on lines of its own as YAML needs it."""
    import yaml

    line = str(yaml.safe_dump({text: 0}, width=1 << 20, allow_unicode=text.isprintable()))
    return _quoted(text) if line.startswith("? ") else line.removesuffix(": 0\n")
