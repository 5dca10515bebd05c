"""``verify --tables``: tables are read again by other code, and compared with the graph."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import partition_ops
from partition_ops.cli import main
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.stages.ingest.patterns import matches
from partition_ops.verification.check_tables import TABLE_CHECKS
from partition_ops.verification.table_rows import _fits
from tests.command_line import Called
from tests.tables import ITEMS, RATINGS, TAGS, USERS, write_csv, write_json_lines, write_parquet, write_shop
from tests.unit.stages.ingest.test_ingest_sources import FORMATS, GRAPH, PLACES, ROADS, as_delta

OPTIONS: dict[str, Any] = {"num_parts": 2, "engine": "random", "on_defect": "warn", "ignore_estimate": True}


def verify(file: Path, out: Path) -> dict[str, str]:
    """Return the failures of the checks of tables; all others must pass."""
    report = partition_ops.verify(file, out, tables=True)
    assert {*TABLE_CHECKS} <= {check.name for check in report.checks}
    failed = {check.name: check.detail for check in report.failed}
    assert failed.keys() <= TABLE_CHECKS.keys(), report.summary()
    return failed


@pytest.mark.parametrize("write", FORMATS, ids=lambda write: write.__name__)
def test_formats(tmp_path: Path, write: Callable[..., str]) -> None:
    specs = {"places": write(tmp_path, "places", PLACES), "roads": write(tmp_path, "roads", ROADS)}
    file = tmp_path / "graph.yaml"
    file.write_text(GRAPH.format(**specs))
    partition_ops.run(file, tmp_path / "out", **OPTIONS)
    if write is as_delta:
        with pytest.raises(UsageError, match="cannot read places/ again"):
            partition_ops.verify(file, tmp_path / "out", tables=True)
    else:
        assert verify(file, tmp_path / "out") == {}


SPLITS = [
    "split: {column: part, train: [train], val: [valid], test: [test]}",
    "split: {masks: {train: trains, test: tests}}",
    "split: {shares: [0.5, 0.25, 0.25]}",
]


@pytest.mark.parametrize(
    ("action", "split"), [("drop", SPLITS[0]), ("add", SPLITS[0]), ("drop", SPLITS[1]), ("add", SPLITS[2])]
)
def test_labels_splits_and_actions(action: str, split: str, tmp_path: Path) -> None:
    users = [{**user, "trains": bool(i % 2), "tests": not i % 2} for i, user in enumerate(USERS)]
    users += [{**users[0], "age": 5}, {**users[0], "user_id": None}]
    ratings = [*RATINGS, {**RATINGS[0], "user_id": "nobody"}, {**RATINGS[0], "sku": None}]
    write_shop(tmp_path, users=users, ratings=ratings)
    file = tmp_path / "graph.yaml"
    text = file.read_text().replace(SPLITS[0], split)
    add = "{null_keys: drop, duplicate_keys: drop, missing_classes: warn}"
    text = text.replace("time: at}", f"time: at, on_defect: {{absent_keys: {action}}}}}")
    text = text.replace("age: {transform: standardise", "age: {transform: min-max")
    file.write_text(text + f"on_defect: {add}\n")
    partition_ops.run(file, tmp_path / "out", **OPTIONS)
    assert verify(file, tmp_path / "out") == {}


def change(rows: list[dict[str, Any]], index: int, **values: Any) -> list[dict[str, Any]]:
    return [{**row, **values} if place == index else row for place, row in enumerate(rows)]


CHANGES: dict[str, tuple[str, Callable[[Path], None]]] = {
    "feature": ("table-rows", lambda f: write_csv(f / "items.csv", change(ITEMS, 0, price=21.0))),
    "hash": ("table-rows", lambda f: write_csv(f / "items.csv", change(ITEMS, 1, brand="other"))),
    "node": ("table-nodes", lambda f: write_csv(f / "items.csv", [*ITEMS, {**ITEMS[0], "sku": "new"}])),
    "key": ("table-nodes", lambda f: write_csv(f / "items.csv", change(ITEMS, 0, sku="0007"))),
    "edge": ("table-edges", lambda f: write_json_lines(f / "ratings.jsonl", RATINGS[1:])),
    "end": ("table-edges", lambda f: write_json_lines(f / "ratings.jsonl", change(RATINGS, 0, sku="x"))),
    "weight": ("table-rows", lambda f: write_json_lines(f / "ratings.jsonl", change(RATINGS, 1, stars=1.0))),
    "time": (
        "table-rows",
        lambda f: write_json_lines(f / "ratings.jsonl", change(RATINGS, 2, at="1970-01-02 00:00:00")),
    ),
    "tag": ("table-nodes", lambda f: write_parquet(f / "tags.parquet", change(TAGS, 1, tag="newest"))),
    "label": (
        "table-rows",
        lambda f: write_parquet(f / "users/a.parquet", change(USERS[:2], 0, churned="no")),
    ),
    "split": (
        "table-rows",
        lambda f: write_parquet(f / "users/a.parquet", change(USERS[:2], 0, part="test")),
    ),
    "one-hot": (
        "table-rows",
        lambda f: write_parquet(f / "users/a.parquet", change(USERS[:2], 0, country="fr")),
    ),
    "text": (
        "table-rows",
        lambda f: write_parquet(f / "users/a.parquet", change(USERS[:2], 0, about="b, a")),
    ),
}


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    write_shop(folder)
    partition_ops.run(folder / "graph.yaml", folder / "out", **OPTIONS)
    assert verify(folder / "graph.yaml", folder / "out") == {}
    return folder


@pytest.mark.parametrize("name", CHANGES)
def test_differences_are_found(name: str, finished: Path) -> None:
    """A table that changed after the run is as a table that ingest has read wrong."""
    write_shop(finished)
    check, change_table = CHANGES[name]
    change_table(finished)
    assert check in verify(finished / "graph.yaml", finished / "out")


def test_the_command(finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_shop(finished)
    words = ["verify", str(finished / "graph.yaml"), str(finished / "out"), "--tables"]
    assert main(words) == 0
    assert "table-edges" in capsys.readouterr().out
    CHANGES["end"][1](finished)
    assert main([*words, "--json"]) == 1
    report = json.loads(capsys.readouterr().out)["report"]
    assert "table-edges" in [one["name"] for one in report["checks"] if not one["passed"]]
    assert main(["verify", str(finished / "out/ingest"), str(finished / "out"), "--tables"]) == 2


@pytest.mark.parametrize(
    "keys", [["2024-1-1", "2024-01-01"], ["A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11", "b"], ["12:30", "1:30"]]
)
def test_keys_and_texts_of_json_lines_stay_as_they_are(keys: list[str], tmp_path: Path) -> None:
    """Text that looks like a date, a time or a UUID is not written in another way."""
    write_json_lines(tmp_path / "u.jsonl", [{"id": key, "name": key, "x": 1} for key in keys])
    write_json_lines(tmp_path / "e.jsonl", [{"s": keys[0], "d": keys[-1]}])
    file = tmp_path / "graph.yaml"
    file.write_text(
        "graph_name: g\nnodes: {u: {table: u.jsonl, key: id, text: [name], features: {x: }}}\n"
        "edges: {'u:r:u': {table: e.jsonl, src: s, dst: d}}\n"
    )
    partition_ops.run(file, tmp_path / "out", **OPTIONS)
    assert verify(file, tmp_path / "out") == {}
    found = pq.read_table(tmp_path / "out/ingest/node_ids/u-0.parquet")["key"].to_pylist()
    assert sorted(keys) == found
    texts = pq.read_table(tmp_path / "out/ingest/node_text/u/name-0.parquet")["name"].to_pylist()
    assert texts == found


def test_a_text_that_looks_like_a_number_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "u.csv").write_text("id,code\n1,007\n2,07\n")
    pq.write_table(pa.table({"s": ["1"], "d": ["2"]}), tmp_path / "e.parquet")
    file = tmp_path / "graph.yaml"
    file.write_text(
        "graph_name: g\nnodes: {u: {table: u.csv, key: id, text: [code]}}\n"
        "edges: {'u:r:u': {table: e.parquet, src: s, dst: d}}\n"
    )
    partition_ops.run(file, tmp_path / "out", **OPTIONS)
    texts = pq.read_table(tmp_path / "out/ingest/node_text/u/code-0.parquet")["code"].to_pylist()
    assert texts == ["007", "07"]


@pytest.mark.parametrize(
    "pattern", ["*.csv", "**/*.csv", "a/**/c.csv", "a/**", "**", "[a]/?.csv", "a/*/*", "a/**/*"]
)
def test_both_readers_find_the_same_files(pattern: str) -> None:
    keys = ["a.csv", "a/b.csv", "a/b/c.csv", "b/c.csv", "a/b/d/c.csv", "a/c.csv"]
    assert matches(pattern, keys, "x") == [key for key in keys if _fits(key.split("/"), pattern.split("/"))]


def test_whole_numbers_of_json_lines_keep_all_digits(tmp_path: Path) -> None:
    values = [2**53 + 1, None, -(2**63)]
    rows = [{"id": 2**62 + index, "n": value, "x": value or 0} for index, value in enumerate(values)]
    write_json_lines(tmp_path / "u.jsonl", rows)
    write_json_lines(tmp_path / "e.jsonl", [{"s": 2**62, "d": 2**62 + 2}])
    file = tmp_path / "graph.yaml"
    file.write_text(
        "graph_name: g\nnodes: {u: {table: u.jsonl, key: id, text: [n], features: {x: }}}\n"
        "edges: {'u:r:u': {table: e.jsonl, src: s, dst: d}}\n"
    )
    partition_ops.run(file, tmp_path / "out", **OPTIONS)
    assert verify(file, tmp_path / "out") == {}
    assert np.load(tmp_path / "out/ingest/node_data/u/x-0.npy").tolist() == [row["x"] for row in rows]
    texts = pq.read_table(tmp_path / "out/ingest/node_text/u/n-0.parquet")["n"].to_pylist()
    assert texts == ["9007199254740993", None, "-9223372036854775808"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("features: {v: {dtype: float32}}", "does not fit into float32"),
        ("features: {n: {dtype: int32}}", "does not fit into int32"),
        ("text: [l]", "is no text"),
    ],
)
def test_values_that_a_feature_or_a_text_cannot_hold_are_rejected(
    change: str, message: str, tmp_path: Path
) -> None:
    rows = [{"id": "a", "v": 1e300, "n": -(2**40), "l": [1.0]}, {"id": "b", "v": 0.0, "n": 0, "l": [2.0]}]
    write_parquet(tmp_path / "u.parquet", rows)
    write_parquet(tmp_path / "e.parquet", [{"s": "a", "d": "b"}])
    (tmp_path / "graph.yaml").write_text(
        f"graph_name: g\nnodes: {{u: {{table: u.parquet, key: id, {change}}}}}\n"
        "edges: {'u:r:u': {table: e.parquet, src: s, dst: d}}\n"
    )
    with pytest.raises(InvalidInputError, match=message):
        partition_ops.run(tmp_path / "graph.yaml", tmp_path / "out", **OPTIONS)


def test_a_table_that_is_damaged_behind_its_header_is_rejected(tmp_path: Path) -> None:
    rows = [{"id": index, "x": float(index)} for index in range(1000)]
    write_parquet(tmp_path / "u.parquet", rows)
    data = bytearray((tmp_path / "u.parquet").read_bytes())
    data[4:600] = bytes(596)
    (tmp_path / "u.parquet").write_bytes(bytes(data))
    write_parquet(tmp_path / "e.parquet", [{"s": 0, "d": 1}])
    (tmp_path / "graph.yaml").write_text(
        "graph_name: g\nnodes: {u: {table: u.parquet, key: id, features: {x: }}}\n"
        "edges: {'u:r:u': {table: e.parquet, src: s, dst: d}}\n"
    )
    with pytest.raises(InvalidInputError, match="cannot be read"):
        partition_ops.run(tmp_path / "graph.yaml", tmp_path / "out", **OPTIONS)


@pytest.mark.parametrize("name", ["u.csv", "u.jsonl", "u.parquet"])
@pytest.mark.parametrize("column", ["id", "n"])
def test_fractions_are_not_rounded_to_keys_or_numbers(name: str, column: str, tmp_path: Path) -> None:
    rows = [{"id": 1.0, "n": 1.0}, {"id": 2.0, "n": 2.0}]
    rows[1][column] = 2.5
    write = {"u.csv": write_csv, "u.jsonl": write_json_lines, "u.parquet": write_parquet}[name]
    write(tmp_path / name, rows)
    write_parquet(tmp_path / "e.parquet", [{"s": 1, "d": 1}])
    table = f"{{path: {name}, types: {{id: int64, n: int64}}}}"
    (tmp_path / "graph.yaml").write_text(
        f"graph_name: g\nnodes: {{u: {{table: {table}, key: id, features: {{n: }}}}}}\n"
        "edges: {'u:r:u': {table: e.parquet, src: s, dst: d}}\n"
    )
    with pytest.raises(InvalidInputError, match=r"not of the type int64.*'2\.5' in row 1"):
        partition_ops.run(tmp_path / "graph.yaml", tmp_path / "out", **OPTIONS)


def test_an_output_that_is_not_finished_is_named_before_the_tables_are_read(
    tmp_path: Path, called: Called
) -> None:
    """The tables need the previous graph, so they would be rejected for another reason."""
    tables = "nodes:\n  p: {table: missing.csv, key: id}\nedges: {}\n"
    (tmp_path / "graph.yaml").write_text(f"graph_name: w\n{tables}")
    done = called("verify", str(tmp_path / "graph.yaml"), str(tmp_path / "out"))
    assert done.returncode == 3
    assert "is not a finished output" in done.stderr
