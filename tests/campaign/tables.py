"""Hostile tables: each is rejected with an error of ours, or the graph has what separate code reads."""

from __future__ import annotations

import gzip
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq

from partition_ops.errors import PartitionOpsError
from partition_ops.formats.findings import Findings
from partition_ops.jobs.open_graph import ingest_graph_file
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.storage import open_store
from partition_ops.verification.check_tables import TABLE_CHECKS, TableChecks, open_tables
from tests.campaign.frame import Attempt, Case, Defect, Verdict
from tests.damage import cut_end, cut_piece, flip, insert, repeat_piece

Row = dict[str, Any]
FOLDERS = ("in", "a[bc]d", "a*d", "?", "[", "**", "year=2024", "x%20y", "it's", "ü ñ", "-a", "a\\b", "{a,b}")
COLUMNS = (
    *(
        "id",
        "ID",
        "Id",
        "x",
        "X",
        "x_1",
        "key",
        "orig_id",
        "row_key",
        "src",
        "dst",
        "value_0",
        "file_row_number",
    ),
    *(
        "file_index",
        "filename",
        "2024",
        "null",
        "true",
        "1e3",
        "select",
        "a b",
        "a.b",
        'q"q',
        "it's",
        "ü",
        "ß",
        "İ",
    ),
    *(
        "a,b",
        "a;b",
        "tab\tb",
        "*",
        "[x]",
        "..",
        "rowid",
        "train",
        "label",
        "weight",
        "id of row",
        "file index",
    ),
)
TEXTS = (
    *(
        "a",
        "A",
        "007",
        "7",
        "07",
        " 7",
        "7 ",
        "1e3",
        "0x10",
        "1_0",
        "nan",
        "NULL",
        "null",
        "true",
        "True",
        "ä",
        "ä",
    ),
    *(
        "2024-1-1",
        "2024-01-01",
        "12:30",
        "A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11",
        "-0",
        "+1",
        "%7C",
        "|",
        "%",
        "a|b",
    ),
    *('"', "'", "a,b", "a\nb", "\t", "\ufeff", "日本", "🙂", "inf", "1.0", "1.50", "x" * 300),
)
NUMBERS = (0, 1, -1, 7, 2**31, -(2**31), 2**53 + 1, 2**63 - 1, -(2**63))
FLOATS = (0.0, -0.0, 1.5, -1e300, 1e-300, 0.1, float("nan"), float("inf"))
ACTIONS = ("fail", "drop", "add")


def hostile_tables(attempt: Attempt) -> Verdict:
    """Ingest random tables, and compare the graph with them by the code of ``verify --tables``."""
    chance, folder = attempt.random, attempt.folder / attempt.random.choice(FOLDERS)
    folder.mkdir()
    what = _write(folder, chance)
    _write_neighbour(attempt.folder / "abd", folder)
    damaged = chance.random() < 0.1
    if damaged:
        what += f"; damaged {_damage(folder, chance)}"
    before = _content(attempt.folder)
    target, uri = open_store(str(attempt.folder / "graph")), str(folder / "graph.yaml")
    try:
        ingest_graph_file(IngestConfig(memory=512 << 20), uri, target, open_store)
    except PartitionOpsError as error:
        _check(error.exit_code in (2, 3) and not error.transient, f"{what}: {error!r}")
        _check(not target.exists("metadata.json"), f"{what}: rejected, and there is a graph")
        verdict = Verdict.REFUSED
    except Exception as error:
        raise Defect(f"{what}: {error!r}") from error
    else:
        findings = Findings()
        TableChecks(findings, open_tables(uri, open_store), target).check()
        failed = [text for name in TABLE_CHECKS for text in findings.failures(name)]
        tolerated = [text for text in failed if damaged and text.startswith("could not be checked")]
        _check(failed == tolerated, f"{what}: {failed}")
        verdict = Verdict.REFUSED if tolerated else Verdict.SAME  # by verify: DuckDB reads some damaged pages
    after = _content(attempt.folder)
    _check(all(after.get(key) == data for key, data in before.items()), f"{what}: the tables have changed")
    return verdict


def _check(condition: bool, what: str) -> None:
    if not condition:
        raise Defect(what[:3000])


def _content(folder: Path) -> dict[str, bytes]:
    paths = (path for path in folder.rglob("*") if path.is_file())
    return {str(path.relative_to(folder)): path.read_bytes() for path in paths}


def _write_neighbour(neighbour: Path, folder: Path) -> None:
    """Write tables with other rows beside the folder, which its name would match if it were a pattern."""
    neighbour.mkdir(exist_ok=True)
    for path in folder.iterdir():
        if path.suffix == ".csv":
            (neighbour / path.name).write_text("id,x,s,d\nnobody,99,nobody,nobody\n")


def _write(folder: Path, chance: random.Random) -> str:
    """Write two tables and their ``graph.yaml``, and return a description."""
    names = chance.sample(COLUMNS, chance.randrange(2, 6))
    key, features = names[0], names[1:]
    keys = chance.choice([_texts, _integers])(chance)
    values = {
        name: chance.choice([_some_texts, _some_numbers, _some_floats, _some_lists]) for name in features
    }
    nodes = [{key: one, **{name: make(chance) for name, make in values.items()}} for one in keys]
    ends = [None if chance.random() < 0.02 else chance.choice(keys) for _ in range(20)]
    edges = [{"s": a, "d": b, "w": chance.choice(FLOATS)} for a, b in zip(ends[:10], ends[10:], strict=True)]
    if chance.random() < 0.2:
        edges.append({"s": "nobody" if isinstance(keys[0], str) else 99, "d": keys[0], "w": 0.5})
    if chance.random() < 0.1:
        nodes.append(dict(nodes[0]))
    chance.shuffle(nodes)
    write_nodes, write_edges = chance.choice(WRITERS), chance.choice(WRITERS)
    types = f", types: {{{_quoted(key)}: int64}}" if write_nodes is _csv and chance.random() < 0.3 else ""
    table = write_nodes(folder, "nodes", nodes).replace("}", f"{types}}}")
    used = {name: _transform(values[name], chance) for name in features if chance.random() < 0.8}
    spec = ", ".join(f"{_quoted(name)}: {how}" for name, how in used.items())
    text = [name for name in features if name not in used]
    more = f", text: [{', '.join(map(_quoted, text))}]" if text else ""
    weight = ", weight: w" if chance.random() < 0.5 else ""
    (folder / "graph.yaml").write_text(
        f"graph_name: g\nnodes:\n  u: {{table: {table}, key: {_quoted(key)}, features: {{{spec}}}{more}}}\n"
        f"edges:\n  u:r:u: {{table: {write_edges(folder, 'edges', edges)}, src: s, dst: d{weight}}}\n"
        f"on_defect: {{absent_keys: {chance.choice((*ACTIONS, *ACTIONS[1:]))},"
        f" null_keys: {chance.choice(ACTIONS[:2])}, duplicate_keys: {chance.choice(ACTIONS[:2])}}}\n"
    )
    return f"{folder.name}: {(folder / 'graph.yaml').read_text()}: {nodes[:3]}"


def _transform(make: Callable[[random.Random], Any], chance: random.Random) -> str:
    """Return a transform, in most attempts one that fits the values."""
    if chance.random() < 0.1:
        return chance.choice(TRANSFORMS)
    return chance.choice([one for one in TRANSFORMS if ('""' in one) == (make is _some_texts)])


TRANSFORMS = (
    *("{}", "{missing: 0}", "{transform: standardise, missing: mean}", "{transform: min-max, missing: 0}"),
    *('{transform: one-hot, missing: ""}', '{transform: hash, buckets: 8, missing: ""}'),
    *("{transform: bucket, buckets: 3, missing: 0}", "{dtype: float32, missing: 0}"),
)


def _quoted(text: str) -> str:
    return json.dumps(text)


def _texts(chance: random.Random) -> list[Any]:
    return chance.sample(TEXTS, chance.randrange(2, 12))


def _integers(chance: random.Random) -> list[Any]:
    return chance.sample(NUMBERS, chance.randrange(2, len(NUMBERS)))


def _some_texts(chance: random.Random) -> Any:
    return chance.choice((*TEXTS, None))


def _some_numbers(chance: random.Random) -> Any:
    return chance.choice((*NUMBERS[:7], None) if chance.random() < 0.1 else NUMBERS[:7])


def _some_floats(chance: random.Random) -> Any:
    return chance.choice(FLOATS[:6])


def _some_lists(chance: random.Random) -> Any:
    return [chance.choice(FLOATS[:6]) for _ in range(2)]


def _arrow(rows: list[Row]) -> pa.Table:
    return pa.Table.from_pylist(rows, schema=_schema(rows))


def _schema(rows: list[Row]) -> pa.Schema:
    found = []
    for name in rows[0]:
        known = [row[name] for row in rows if row[name] is not None]
        kind = pa.array(known[:1]).type if known else pa.string()
        found.append((name, kind))
    return pa.schema(found)


def _parquet(folder: Path, name: str, rows: list[Row]) -> str:
    pq.write_table(_arrow(rows), folder / f"{name}.parquet", row_group_size=3)
    return f"{{path: {name}.parquet}}"


def _feather(folder: Path, name: str, rows: list[Row]) -> str:
    feather.write_feather(_arrow(rows), str(folder / f"{name}.arrow"))
    return f"{{path: {name}.arrow}}"


def _csv_text(rows: list[Row]) -> str:
    def field(value: Any) -> str:
        text = "" if value is None else json.dumps(value) if isinstance(value, list) else str(value)
        return '"' + text.replace('"', '""') + '"' if any(c in text for c in ',;"\n\t|') else text

    lines = [",".join(map(field, rows[0])), *(",".join(map(field, row.values())) for row in rows)]
    return "\n".join(lines) + "\n"


def _csv(folder: Path, name: str, rows: list[Row]) -> str:
    (folder / f"{name}.csv").write_text(_csv_text(rows))
    return f'{{path: {name}.csv, delimiter: ","}}'


def _packed_csv(folder: Path, name: str, rows: list[Row]) -> str:
    (folder / f"{name}.csv.gz").write_bytes(gzip.compress(_csv_text(rows).encode()))
    return f'{{path: {name}.csv.gz, delimiter: ","}}'


def _json_lines(folder: Path, name: str, rows: list[Row]) -> str:
    lines = (json.dumps(row) for row in rows)
    (folder / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    return f"{{path: {name}.jsonl}}"


def _sqlite(folder: Path, name: str, rows: list[Row]) -> str:
    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in rows[0])
    plain = [[json.dumps(v) if isinstance(v, list) else v for v in row.values()] for row in rows]
    try:
        with closing(sqlite3.connect(folder / f"{name}.sqlite")) as connection:
            connection.execute(f"CREATE TABLE t ({columns})")
            connection.executemany(f"INSERT INTO t VALUES ({', '.join('?' for _ in rows[0])})", plain)
            connection.commit()
    except sqlite3.Error:  # columns that it does not tell apart
        return _parquet(folder, name, rows)
    return f"{{sql: SELECT * FROM t, database: {name}.sqlite}}"


def _duckdb(folder: Path, name: str, rows: list[Row]) -> str:
    try:
        with duckdb.connect(str(folder / f"{name}.duckdb")) as connection:
            connection.register("given", _arrow(rows))
            connection.execute("CREATE TABLE t AS SELECT * FROM given")
    except duckdb.Error:
        return _parquet(folder, name, rows)
    return f"{{sql: SELECT * FROM t;, database: {name}.duckdb}}"


WRITERS: list[Callable[[Path, str, list[Row]], str]] = [
    *(_parquet, _csv, _json_lines, _feather, _sqlite, _duckdb, _packed_csv, _csv, _parquet),
]


def _damage(folder: Path, chance: random.Random) -> str:
    """Change bytes of one of the files."""
    path = chance.choice(sorted(path for path in folder.iterdir()))
    content = bytearray(path.read_bytes())
    change = chance.choice([flip, cut_end, cut_piece, insert, repeat_piece])
    change(content, chance)
    path.write_bytes(bytes(content))
    return f"{path.name} by {change.__name__}"


CASES = [Case("tables", hostile_tables, 20_000, 20)]
