"""Tables in every format: the same rows make the same graph."""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import fastavro
import h5py
import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.ingest.infer import infer_graph_file
from partition_ops.storage import open_store
from tests.tables import edges, feature, ingest, keys, write_csv, write_json_lines

PLACES = [{"id": n, "name": f"place {n}", "size": float(n * n)} for n in (30, 4, 200)]
ROADS = [{"a": 30, "b": 4, "km": 7.5}, {"a": 4, "b": 200, "km": 1.0}, {"a": 200, "b": 30, "km": 2.0}]
GRAPH = """\
graph_name: map
nodes:
  place: {{table: {places}, key: id, features: {{size: }}, text: [name]}}
edges:
  place:road:place: {{table: {roads}, src: a, dst: b, weight: km}}
"""


def as_parquet(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    for index, row in enumerate(rows):
        pq.write_table(pa.Table.from_pylist([row]), folder / f"{name}-{index}.parquet")
    return f"'{name}-*.parquet'"


def as_partitioned_folder(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    first = next(iter(rows[0]))
    for row in rows:
        part = folder / name / f"{first}={row[first]}"
        part.mkdir(parents=True)
        rest = {key: value for key, value in row.items() if key != first}
        pq.write_table(pa.Table.from_pylist([rest]), part / "part-0.parquet")
    (folder / name / "_SUCCESS").touch()
    return f"{name}/"


def as_csv(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    write_csv(folder / f"{name}.csv", rows)
    ints = ", ".join(f"{key}: int64" for key, value in rows[0].items() if isinstance(value, int))
    return f"{{path: {name}.csv, types: {{{ints}}}}}"


def as_packed_tsv(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    lines = ["\t".join(rows[0]), *("\t".join(map(str, row.values())) for row in rows)]
    (folder / f"{name}.tsv.gz").write_bytes(gzip.compress("\n".join(lines).encode()))
    return as_csv(folder, name, rows).replace(".csv", ".tsv.gz")


def as_json(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    write_json_lines(folder / f"{name}.jsonl", rows)
    return f"{name}.jsonl"


def as_arrow(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    feather.write_feather(pa.Table.from_pylist(rows), folder / f"{name}.arrow")
    return f"{name}.arrow"


def as_arrow_stream(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    table = pa.Table.from_pylist(rows)
    with pa.ipc.new_stream(str(folder / f"{name}.arrows"), table.schema) as writer:
        writer.write_table(table)
    return f"{name}.arrows"


def as_avro(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    kinds = {int: "long", float: "double", str: "string"}
    fields = [{"name": key, "type": kinds[type(value)]} for key, value in rows[0].items()]
    with (folder / f"{name}.avro").open("wb") as stream:
        fastavro.writer(stream, {"type": "record", "name": name, "fields": fields}, rows)
    return f"{name}.avro"


def as_hdf5(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    with h5py.File(folder / f"{name}.h5", "w") as file:
        for column in rows[0]:
            file.create_dataset(column, data=[row[column] for row in rows])
    return f"{name}.h5"


def as_duckdb(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    table = pa.Table.from_pylist(rows)
    with duckdb.connect(str(folder / "all.duckdb")) as connection:
        connection.register("rows", table)
        connection.execute(f"CREATE TABLE {name} AS SELECT * FROM rows")
    return f"{{sql: SELECT * FROM {name}, database: all.duckdb}}"


def as_sqlite(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    with sqlite3.connect(folder / "all.sqlite") as connection:
        connection.execute(f"CREATE TABLE {name} ({', '.join(rows[0])})")
        marks = ", ".join("?" for _ in rows[0])
        connection.executemany(f"INSERT INTO {name} VALUES ({marks})", [[*row.values()] for row in rows])
    connection.close()
    return f"{{sql: SELECT * FROM {name}, database: all.sqlite}}"


def as_delta(folder: Path, name: str, rows: list[dict[str, Any]]) -> str:
    """Write a Delta table with a partition for each row; the log names files that are not of it any more."""
    first, place = next(iter(rows[0])), str(folder / name)
    for index, row in enumerate(rows):
        other = {**row, first: 999 + index}
        write_deltalake(place, pa.Table.from_pylist([row, other]), mode="append", partition_by=[first])
    DeltaTable(place).delete(f"{first} >= 999")
    DeltaTable(place).create_checkpoint()
    DeltaTable(place).delete(f"{first} = {rows[0][first]}")
    write_deltalake(place, pa.Table.from_pylist(rows[:1]), mode="append")
    return f"{name}/"


FORMATS: list[Callable[[Path, str, list[dict[str, Any]]], str]] = [
    as_delta,
    as_parquet,
    as_partitioned_folder,
    as_csv,
    as_packed_tsv,
    as_json,
    as_arrow,
    as_arrow_stream,
    as_avro,
    as_hdf5,
    as_duckdb,
    as_sqlite,
]


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_formats(tmp_path: Path, write: Callable[..., str]) -> None:
    specs = {"places": write(tmp_path, "places", PLACES), "roads": write(tmp_path, "roads", ROADS)}
    (tmp_path / "graph.yaml").write_text(GRAPH.format(**specs))
    ingest(tmp_path, tmp_path / "graph")
    assert keys(tmp_path / "graph", "place") == [4, 30, 200]  # in the order of numbers
    assert feature(tmp_path / "graph", "place", "size").tolist() == [16.0, 900.0, 40000.0]
    assert edges(tmp_path / "graph", "place:road:place") == [(0, 2), (1, 0), (2, 1)]
    assert feature(tmp_path / "graph", "place:road:place", "weight", edges=True).tolist() == [1.0, 7.5, 2.0]


@pytest.mark.parametrize("write", [one for one in FORMATS if one not in (as_duckdb, as_sqlite)])
def test_every_kind_of_files_can_be_proposed(tmp_path: Path, write: Callable[..., str]) -> None:
    write(tmp_path, "places", PLACES)
    write(tmp_path, "roads", ROADS)
    proposal = infer_graph_file(open_store(str(tmp_path)))
    assert "\n  place:\n    table: places" in proposal and "    table: roads" in proposal


def test_an_unknown_format_names_the_known_ones(tmp_path: Path) -> None:
    write_graph(tmp_path, "{path: places.xml, format: xml}")
    with pytest.raises(InvalidInputError, match=r"no format 'xml' of tables.*'parquet', 'csv', 'json'"):
        ingest(tmp_path, tmp_path / "graph")


def write_graph(folder: Path, places: str, **changes: str) -> None:
    graph = GRAPH.format(places=places, roads=as_parquet(folder, "roads", ROADS))
    for old, new in changes.items():
        graph = graph.replace(old, new)
    (folder / "graph.yaml").write_text(graph)


def test_a_query_reads_its_database_only(tmp_path: Path) -> None:
    as_duckdb(tmp_path, "places", PLACES)
    write_json_lines(tmp_path / "secret.jsonl", PLACES)
    secret = f"SELECT * FROM read_json('{tmp_path}/secret.jsonl')"
    write_graph(tmp_path, f'{{sql: "{secret}", database: all.duckdb}}')
    with pytest.raises(InvalidInputError, match="Permission Error"):
        ingest(tmp_path, tmp_path / "graph")
    as_sqlite(tmp_path, "places", PLACES)
    write_graph(tmp_path, "{sql: DELETE FROM places, database: all.sqlite}")
    with pytest.raises(InvalidInputError, match="not authorized"):
        ingest(tmp_path, tmp_path / "graph")


def test_partitions_of_a_delta_table_keep_their_types(tmp_path: Path) -> None:
    rows = [{"id": key, "size": 1.0} for key in ("007", "a b/%41=c", "ü")]
    write_deltalake(str(tmp_path / "places"), pa.Table.from_pylist(rows), partition_by=["id"])
    write_csv(tmp_path / "roads.csv", [{"a": "007", "b": "ü"}])
    graph = GRAPH.replace(", text: [name]", "").replace(", weight: km", "")
    (tmp_path / "graph.yaml").write_text(graph.format(places="places", roads="roads.csv"))
    ingest(tmp_path, tmp_path / "graph")
    assert keys(tmp_path / "graph", "place") == ["007", "a b/%41=c", "ü"]


def test_delta_tables_that_cannot_be_read_are_rejected(tmp_path: Path) -> None:
    write_graph(tmp_path, as_delta(tmp_path, "places", PLACES))
    newest = max((tmp_path / "places/_delta_log").glob("*.json"))
    whole = newest.read_text()
    protocol = {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": ["deletionVectors"]}
    changed = json.dumps({"protocol": {**protocol, "writerFeatures": ["deletionVectors"]}})
    newest.write_text(f"{whole}{changed}\n")
    with pytest.raises(InvalidInputError, match=r"has features .* deletionVectors"):
        ingest(tmp_path, tmp_path / "graph")
    newest.write_text(whole[:-20])
    with pytest.raises(InvalidInputError, match="places cannot be read as a Delta table"):
        ingest(tmp_path, tmp_path / "graph")
    newest.write_text(whole)
    next(tmp_path.glob("places/id=4/*.parquet")).unlink()
    with pytest.raises(InvalidInputError, match="files of the Delta table are missing"):
        ingest(tmp_path, tmp_path / "graph")


def test_iceberg_tables_are_rejected(tmp_path: Path) -> None:
    (tmp_path / "places/metadata").mkdir(parents=True)
    (tmp_path / "places/metadata/v1.metadata.json").write_text("{}")
    as_parquet(tmp_path / "places", "part", PLACES)
    write_graph(tmp_path, "places/")
    with pytest.raises(InvalidInputError, match="places is an Iceberg table"):
        ingest(tmp_path, tmp_path / "graph")


def test_a_column_that_is_null_in_one_file_has_the_type_of_the_others(tmp_path: Path) -> None:
    write_json_lines(tmp_path / "a.jsonl", [{**row, "size": None} for row in PLACES[:1]])
    write_json_lines(tmp_path / "b.jsonl", PLACES[1:])
    write_graph(tmp_path, "'?.jsonl'", **{"size:": "size: {missing: -1}"})
    ingest(tmp_path, tmp_path / "graph")
    assert sorted(feature(tmp_path / "graph", "place", "size").tolist())[0] == -1.0


def test_a_column_of_several_types_is_rejected(tmp_path: Path) -> None:
    places = as_parquet(tmp_path, "places", [*PLACES, {"id": "x", "name": "n", "size": 1.0}])
    write_graph(tmp_path, places)
    with pytest.raises(
        InvalidInputError, match=r"'id' of places-\*.parquet has values of several types"
    ) as raised:
        ingest(tmp_path, tmp_path / "graph")
    assert raised.value.found == ["int64 in places-0.parquet", "text in places-3.parquet"]
    as_sqlite(tmp_path, "places", [*PLACES, {"id": "x", "name": "n", "size": 1.0}])
    write_graph(tmp_path, "{sql: SELECT * FROM places, database: all.sqlite}")
    with pytest.raises(
        InvalidInputError, match=r"'id' of the query on all.sqlite has values of several types"
    ):
        ingest(tmp_path, tmp_path / "graph")


def test_a_broken_csv_is_rejected_with_its_line(tmp_path: Path) -> None:
    write_csv(tmp_path / "places.csv", [*PLACES, {"id": 5, "name": "n", "size": "big"}])
    write_graph(tmp_path, "{path: places.csv, types: {id: int64, size: float64}}")
    with pytest.raises(InvalidInputError, match=r"places.csv cannot be read.*Line: 5.*big"):
        ingest(tmp_path, tmp_path / "graph")


@pytest.mark.parametrize(
    ("last", "message"),
    [
        (b"5,n\n", "places.csv cannot be read.*Line: 6.*Expected Number of Columns: 3 Found: 2"),
        (b"5,n,1.0,x\n", "places.csv cannot be read.*Line: 6.*Expected Number of Columns: 3 Found: 4"),
        (b"5,n,1.0\r\n", "places.csv has lines with different ends.*LF after line 1, CRLF after line 6"),
        (b'5,"n,1.0\\n', "places.csv cannot be read.*Line: 6.*unterminated quote"),
    ],
)
@pytest.mark.parametrize("packed", [False, True])
def test_a_csv_that_is_written_in_several_ways_is_rejected_with_the_line(
    tmp_path: Path, last: bytes, message: str, packed: bool
) -> None:
    written = b"id,name,size\n" + b"".join(b"%d,n,1.5\n" % number for number in range(4)) + last
    name = f"places.csv{'.gz' * packed}"
    (tmp_path / name).write_bytes(gzip.compress(written) if packed else written)
    write_graph(tmp_path, name)
    with pytest.raises(InvalidInputError, match=message.replace("csv", name.removeprefix("places."))):
        ingest(tmp_path, tmp_path / "graph")


@pytest.mark.parametrize(
    ("table", "written"),
    [
        ("places.csv", 'id;name;size\n30;"a;""b""";2\n4;c,d,e,f;3\n200;;4\n'),
        ('{path: places.csv, quote: "\'"}', "id|name|size\r\n30|'a;\"b\"'|2\r\n4|c,d,e,f|3\r\n200||4\r\n"),
        ("{path: places.csv, quote: '', delimiter: '_'}", 'id_name_size\n30_a;"b"_2\n4_c,d,e,f_3\n200__4\n'),
    ],
)
def test_quotes_and_delimiters_are_those_of_the_header_or_of_the_graph_file(
    tmp_path: Path, table: str, written: str
) -> None:
    (tmp_path / "places.csv").write_text(written, newline="")
    write_graph(tmp_path, table)
    ingest(tmp_path, tmp_path / "graph")
    found = pq.read_table(tmp_path / "graph/node_text/place/name-0.parquet").column("name").to_pylist()
    assert dict(zip(keys(tmp_path / "graph", "place"), found, strict=True)) == {
        "30": 'a;"b"',
        "4": "c,d,e,f",
        "200": None,
    }
    assert {*feature(tmp_path / "graph", "place", "size").tolist()} == {2, 3, 4}


WRITTEN = b"id,name,size\n" + b"".join(b"%d,n%d,1.5\n" % (number, number**5) for number in range(4000))
PACKED = gzip.compress(WRITTEN, mtime=0)  # the same bytes in each process


@pytest.mark.parametrize(
    ("name", "written", "message"),
    [
        ("places.csv", b"", "is empty"),
        ("places.csv.gz", gzip.compress(b"", mtime=0), "is empty"),
        ("places.csv", b"\n" + WRITTEN, "begins with an empty line.*Remove the empty line"),
        ("places.csv", b"\xef\xbb\xbf\r\n" + WRITTEN, "begins with an empty line"),
        ("places.csv", WRITTEN.decode().encode("utf-16"), "is not text in UTF-8"),
        ("places.csv", bytes(100), "is not text in UTF-8"),
        ("places.csv.gz", WRITTEN, "is not packed with gzip"),
        ("places.csv.gz", PACKED[:-3000], "cannot be read"),
        ("places.csv.gz", PACKED[:3000] + b"garbage" + PACKED[3007:], "cannot be read"),
    ],
)
def test_a_csv_that_is_no_text_is_rejected(tmp_path: Path, name: str, written: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(written)
    write_graph(tmp_path, name)
    with pytest.raises(InvalidInputError, match=f"'place': {name} {message}"):
        ingest(tmp_path, tmp_path / "graph")
    assert not (tmp_path / "graph/metadata.json").exists()


def test_lists_in_json_are_no_categories(tmp_path: Path) -> None:
    lines = [json.dumps({"id": str(row), "v": [row, 0.5]}) + "\n" for row in range(3)]
    (tmp_path / "u.jsonl").write_text("".join(lines))
    (tmp_path / "e.csv").write_text("s,d\n0,1\n")
    (tmp_path / "graph.yaml").write_text(
        "graph_name: g\nnodes:\n  u: {table: u.jsonl, key: id, features: {v: {transform: one-hot}}}\n"
        "edges:\n  u:r:u: {table: e.csv, src: s, dst: d}\n"
    )
    with pytest.raises(InvalidInputError, match=r"feature 'v': the values are no categories.*list"):
        ingest(tmp_path, tmp_path / "graph")


def test_lines_may_end_with_crlf_and_values_have_lf(tmp_path: Path) -> None:
    (tmp_path / "places.csv").write_bytes(b'id,name,size\r\n30,"a\nb",1\r\n4,c,2\r\n200,d,3\r\n')
    write_graph(tmp_path, "places.csv")
    ingest(tmp_path, tmp_path / "graph")
    names = pq.read_table(tmp_path / "graph/node_text/place/name-0.parquet").column("name").to_pylist()
    assert sorted(names) == ["a\nb", "c", "d"]


def test_keys_of_several_columns(tmp_path: Path) -> None:
    flats = [{"street": "a|b", "no": 1}, {"street": "a", "no": 11}, {"street": "a", "no": 2}]
    near = [{"s": "a", "n": 2, "t": "a|b", "m": 1}]
    as_parquet(tmp_path, "flats", flats)
    as_parquet(tmp_path, "near", near)
    (tmp_path / "graph.yaml").write_text(
        "graph_name: g\nnodes:\n  flat: {table: 'flats-*.parquet', key: [street, no]}\n"
        "edges:\n  flat:near:flat: {table: 'near-*.parquet', src: [s, n], dst: [t, m]}\n"
    )
    ingest(tmp_path, tmp_path / "graph")
    assert keys(tmp_path / "graph", "flat") == ["a%7Cb|1", "a|11", "a|2"]
    assert edges(tmp_path / "graph", "flat:near:flat") == [(2, 0)]


@pytest.mark.parametrize("missing", ["b.csv", "b*.csv", "folder/"])
def test_every_path_of_a_list_must_be_there(missing: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id\n1\n2\n")
    for paths in (f"['a.csv', '{missing}']", f"['{missing}', 'a.csv']"):
        write_graph(tmp_path, paths)
        with pytest.raises(InvalidInputError, match=rf"there is no table {re.escape(missing)}"):
            ingest(tmp_path, tmp_path / "graph")


def test_the_file_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,size\n1,x,1\n")
    (tmp_path / "b.csv").write_text("id,name,size\n2,y,old\n")
    write_graph(tmp_path, "{path: '*.csv', types: {size: int64}}")
    with pytest.raises(InvalidInputError, match=r"'size' of b\.csv has values") as raised:
        ingest(tmp_path, tmp_path / "graph")
    assert "a.csv" not in str(raised.value) and "old" in str(raised.value)


@pytest.mark.parametrize(
    ("name", "kind", "values", "found"),
    [
        ("p.csv", "int64", ["1", "x", "", "2.5", "3"], ["'x' in row 1", "'2.5' in row 3"]),
        ("p.jsonl", "date", ["2024-01-31", None, "2024-13-01"], ["'2024-13-01' in row 2"]),
        ("p.jsonl", "int64", ["5", "5.5"], ["'5.5' in row 1"]),
        ("p.parquet", "bool", ["true", "maybe"], ["'maybe' in row 1"]),
        ("p.parquet", "timestamp", ["2024-01-31 10:00:00", "noon"], ["'noon' in row 1"]),
    ],
)
def test_values_that_are_not_of_the_type_in_graph_yaml_are_named_with_their_rows(
    tmp_path: Path, name: str, kind: str, values: list[str | None], found: list[str]
) -> None:
    rows = [{"id": str(number), "name": "n", "size": value} for number, value in enumerate(values)]
    if name.endswith("csv"):
        write_csv(tmp_path / name, rows)
    elif name.endswith("jsonl"):
        write_json_lines(tmp_path / name, rows)
    else:
        pq.write_table(pa.Table.from_pylist(rows), tmp_path / name)
    write_graph(tmp_path, f"{{path: {name}, types: {{size: {kind}}}}}")
    message = rf"the column 'size' of {re.escape(name)} has values that are not of the type {kind}"
    with pytest.raises(InvalidInputError, match=message) as raised:
        ingest(tmp_path, tmp_path / "graph")
    assert raised.value.found == found
    assert not (tmp_path / "graph" / "metadata.json").exists()


def test_an_empty_numpy_file_is_no_table(tmp_path: Path) -> None:
    (tmp_path / "a.npy").write_bytes(b"")
    (tmp_path / "b.csv").write_text("src,dst\n0,1\n")
    nodes, edges = "{table: a.npy, key: row}", "{table: b.csv, src: src, dst: dst}"
    graph = f"graph_name: g\nnodes: {{a: {nodes}}}\nedges: {{'a:near:a': {edges}}}\n"
    (tmp_path / "graph.yaml").write_text(graph)
    with pytest.raises(InvalidInputError, match=r"a\.npy cannot be read"):
        ingest(tmp_path, tmp_path / "graph")


@pytest.mark.parametrize(
    ("connection", "message"),
    [
        ("postgresql://u:top@host/db", r"'connection' has a password.*postgresql://u@host/db.*PGPASSWORD"),
        ("'postgresql://u@host/db?password=top'", "'connection' has a password"),
        ("mysql://u:top@host/db", "'connection' is no URL of PostgreSQL"),
        ("$NO_SUCH_DATABASE", "the environment variable NO_SUCH_DATABASE has no URL.*it is not set"),
        ("$EMPTY_DATABASE", "the environment variable EMPTY_DATABASE has no URL.*it is not set"),
    ],
)
def test_connections_that_are_none(
    tmp_path: Path, connection: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EMPTY_DATABASE", "")
    write_graph(tmp_path, f"{{sql: SELECT 1 AS id, connection: {connection}}}")
    with pytest.raises((InvalidInputError, UsageError), match=message) as refused:
        ingest(tmp_path, tmp_path / "graph")
    assert "top" not in str(refused.value)


def test_mixed_types_name_the_first_values(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("id,name,size\n1,x,1.5\n")
    (tmp_path / "b.csv").write_text("id,name,size\n2,y,2\n3,z,many\n4,z,few\n")
    write_graph(tmp_path, "[a.csv, b.csv]")
    with pytest.raises(InvalidInputError) as refused:
        ingest(tmp_path, tmp_path / "graph")
    assert refused.value.found == ["float64 in a.csv", "text in b.csv, such as 'many', 'few'"]


@pytest.mark.parametrize("table", ["places", "roads"])
def test_a_table_with_the_line_ends_of_old_macs_is_refused(table: str, tmp_path: Path) -> None:
    names = {"places": as_csv(tmp_path, "places", PLACES), "roads": as_csv(tmp_path, "roads", ROADS)}
    (tmp_path / "graph.yaml").write_text(GRAPH.format(**names))
    file = tmp_path / f"{table}.csv"
    file.write_bytes(file.read_bytes().replace(b"\r\n", b"\r").replace(b"\n", b"\r"))
    with pytest.raises(InvalidInputError, match=rf"{table}\.csv: the first line cannot be read") as caught:
        ingest(tmp_path, tmp_path / "graph")
    assert caught.value.expected is not None and "line feed" in caught.value.expected


@pytest.mark.parametrize(
    ("types", "remedy"),
    [
        ((pa.int32(), pa.int64()), "int64"),
        ((pa.int64(), pa.float32()), "float64"),
        ((pa.int64(), pa.string()), "text"),
    ],
)
def test_the_remedy_for_several_types_names_one_that_has_all_values(
    types: tuple[pa.DataType, pa.DataType], remedy: str, tmp_path: Path
) -> None:
    for name, kind in zip("ab", types, strict=True):
        pq.write_table(pa.table({"id": pa.array([1, 2]).cast(kind)}), tmp_path / f"{name}.parquet")
    (tmp_path / "roads.csv").write_text("a,b\n1,2\n")
    (tmp_path / "graph.yaml").write_text(
        "graph_name: map\nnodes:\n  place: {table: '?.parquet', key: id}\n"
        "edges:\n  place:road:place: {table: roads.csv, src: a, dst: b}\n"
    )
    with pytest.raises(InvalidInputError, match="values of several types") as caught:
        ingest(tmp_path, tmp_path / "graph")
    assert caught.value.remedy is not None and f"types: {{id: {remedy}}}" in caught.value.remedy


def test_a_column_that_is_neither_key_nor_feature_is_named_with_its_table(tmp_path: Path) -> None:
    (tmp_path / "roads.jsonl").write_text('{"a":1,"b":2}\n{"a":2,"b":"3"}\n')
    (tmp_path / "graph.yaml").write_text(
        "graph_name: map\nnodes: {place: }\n"
        "edges:\n  place:road:place: {table: roads.jsonl, src: a, dst: b}\n"
    )
    wanted = r"edges 'place:road:place': roads\.jsonl: the column 'b' has a type that is neither a key"
    with pytest.raises(InvalidInputError, match=wanted) as refused:
        ingest(tmp_path, tmp_path / "graph")
    assert refused.value.found == ["2 in roads.jsonl, row 0", '"3" in roads.jsonl, row 1']
