"""Features as models want them: matrices of columns, codes, multi-hot, ranks, vectors, several labels."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.errors import InvalidInputError
from tests.tables import feature, ingest

ROWS = 40
RNG = np.random.default_rng(3)
USERS = {
    "id": [f"u{i:02}" for i in range(ROWS)],
    "f0": RNG.normal(size=ROWS).astype(np.float32),
    "f1": RNG.normal(size=ROWS).astype(np.float32),
    "f2": np.arange(ROWS),
    "maker": ["xyz"[i % 3] for i in range(ROWS)],
    "tags": [["a", "b"][: i % 3] for i in range(ROWS)],
    "genres": ["rock, pop", "pop", None, "jazz,,rock"] * (ROWS // 4),
    "vector": [f"[{i}, {i / 2}, -1e-3]" for i in range(ROWS)],
    "spaced": [f"{i} 0.5" for i in range(ROWS)],
    "amount": np.exp(RNG.normal(size=ROWS)),
    "churn": [["no", "yes"][i % 2] for i in range(ROWS)],
    "income": np.arange(ROWS) / 4,
    "part": [["train", "train", "test", "val"][i % 4] for i in range(ROWS)],
}


def write(folder: Path, features: str, table: dict[str, Any] = USERS, more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    pq.write_table(pa.table(table), folder / "users.parquet")
    (folder / "links.csv").write_text("a,b\nu00,u01\n")
    text = "graph_name: g\nnodes:\n  user:\n    table: users.parquet\n    key: id\n"
    text += f"    features:\n      x: {{{features}}}\n" if features else ""
    text += more + "edges:\n  user:links:user: {table: links.csv, src: a, dst: b}\n"
    (folder / "graph.yaml").write_text(text)
    return folder


def made(tmp_path: Path, features: str, table: dict[str, Any] = USERS, **more: Any) -> Any:
    ingest(write(tmp_path / "tables", features, table), tmp_path / "graph", **more)
    return feature(tmp_path / "graph", "user", "x")


@pytest.mark.parametrize("columns", ["[f0, f1, f2]", "'f?'", "[f0, 'f[12]']"])
def test_several_columns_are_a_matrix(tmp_path: Path, columns: str) -> None:
    found = made(tmp_path, f"columns: {columns}")
    assert np.array_equal(found, np.column_stack([USERS["f0"], USERS["f1"], USERS["f2"]]))


def test_several_columns_are_scaled_and_filled_each(tmp_path: Path) -> None:
    some = {**USERS, "f2": [None if i % 5 == 0 else i for i in range(ROWS)]}
    found = made(tmp_path, "columns: [f1, f2], transform: standardise, missing: mean", some)
    known = np.array([i for i in range(ROWS) if i % 5], float)
    expected = np.array([0 if i % 5 == 0 else (i - known.mean()) / known.std() for i in range(ROWS)])
    # rows with a null are not fitted
    f1 = USERS["f1"].astype(float)
    fitted = f1[np.arange(ROWS) % 5 != 0]
    assert found.dtype == np.float32 and np.allclose(found[:, 1], expected, atol=1e-5)
    assert np.allclose(found[:, 0], (f1 - fitted.mean()) / fitted.std(), atol=1e-5)


def test_codes_of_categories_are_kept_and_continued(tmp_path: Path) -> None:
    found = made(tmp_path, "column: maker, transform: category")
    assert found.dtype == np.int64 and found.tolist() == [i % 3 for i in range(ROWS)]
    maker = [["b", "y", "z"][i % 3] for i in range(ROWS)]
    ingest(
        write(tmp_path / "grown", "column: maker, transform: category", {**USERS, "maker": maker}),
        tmp_path / "new",
        previous=tmp_path / "graph",
    )
    assert feature(tmp_path / "new", "user", "x").tolist() == [[3, 1, 2][i % 3] for i in range(ROWS)]
    document = json.loads((tmp_path / "new/ingest.json").read_text())
    state = document["node_types"]["user"]["features"]["x"]
    assert state["fitted"] == {"categories": ["x", "y", "z", "b"]}
    (finding,) = document["findings"]
    assert (finding["check"], finding["examples"]) == ("new_categories", ["'b'"])
    grown = tmp_path / "grown/graph.yaml"
    grown.write_text(f"on_defect: {{new_categories: fail}}\n{grown.read_text()}")
    with pytest.raises(InvalidInputError, match=r"1 value of maker .* codes follow its codes: 'b'"):
        ingest(tmp_path / "grown", tmp_path / "new", previous=tmp_path / "graph")


def test_lists_and_separated_text_are_multi_hot(tmp_path: Path) -> None:
    assert made(tmp_path, "column: tags, transform: multi-hot").tolist() == [
        [float(i % 3 > 0), float(i % 3 > 1)] for i in range(ROWS)
    ]
    found = made(tmp_path, 'column: genres, transform: multi-hot, separator: ",", missing: ""')
    assert found[:4].tolist() == [[0, 1, 1], [0, 1, 0], [0, 0, 0], [1, 0, 1]]  # jazz, pop, rock


def test_ranks_become_a_normal_distribution(tmp_path: Path) -> None:
    found = made(tmp_path, "column: amount, transform: rank-gauss")
    assert found.dtype == np.float32 and (np.argsort(found) == np.argsort(USERS["amount"])).all()
    assert abs(found.mean()) < 1e-3 and 0.85 < found.std() < 1.1
    assert np.allclose(np.sort(found), -np.sort(found)[::-1], atol=1e-5)
    outside = made(tmp_path, "column: amount, transform: rank-gauss, bounds: [0, 1]")
    assert len({*outside[USERS["amount"] > 1].tolist()}) == 1


def test_vectors_are_read_from_text(tmp_path: Path) -> None:
    found = made(tmp_path, 'column: vector, separator: ","')
    assert np.allclose(found, [[i, i / 2, -1e-3] for i in range(ROWS)]) and found.dtype == np.float64
    assert made(tmp_path, 'column: spaced, separator: " ", dtype: float32').shape == (ROWS, 2)
    found = made(tmp_path, 'column: vector, separator: ",", truncate: 2, bounds: [1, 5], dtype: float32')
    assert found.dtype == np.float32 and found.tolist() == [
        [min(max(i, 1), 5), min(max(i / 2, 1), 5)] for i in range(ROWS)
    ]


def test_several_labels_have_masks_of_their_own(tmp_path: Path) -> None:
    more = """\
    label: maker
    split: {column: part, train: [train], val: [val], test: [test]}
    labels:
      churn: {column: churn, split: {shares: [0.5, 0.25, 0.25]}}
      income: {column: income, task: regression}
"""
    ingest(write(tmp_path / "tables", "column: f0", more=more), tmp_path / "graph")
    graph = tmp_path / "graph"
    assert feature(graph, "user", "label").tolist() == [i % 3 for i in range(ROWS)]
    assert feature(graph, "user", "label_churn").tolist() == [i % 2 for i in range(ROWS)]
    assert np.array_equal(feature(graph, "user", "label_income"), USERS["income"].astype(np.float32))
    masks = np.stack([feature(graph, "user", f"{part}_mask_churn") for part in ("train", "val", "test")])
    assert (masks.sum(axis=0) == 1).all() and 8 < masks[0].sum() < 32
    names = {*json.loads((graph / "metadata.json").read_text())["node_data"]["user"]}
    assert "train_mask_income" not in names and "train_mask" in names
    state = json.loads((graph / "ingest.json").read_text())["node_types"]["user"]
    assert state["labels"] == {"churn": {"classes": ["no", "yes"]}}


@pytest.mark.parametrize(
    ("features", "message"),
    [
        ("columns: 'q*'", r"no column of the table matches.*'q\*'.*Expected: one of 'id', 'f0'"),
        ("columns: [f0, maker]", "the column 'maker' has text.*maker 'x' in users.parquet, row 0"),
        ("columns: [f0, tags]", "one of several columns has lists|not numbers"),
        ("columns: [f0, f9]", "no column 'f9'"),
        ("columns: [f0, f1], transform: category", "category takes one column"),
        ('column: maker, separator: ","', "is no list of numbers.*maker 'x' in users.parquet, row 0"),
        ("column: f0, bounds: [2, 1]", "first of the bounds is not less"),
        ("column: tags, transform: multi-hot, truncate: 2", "'truncate' and 'bounds' are for numbers"),
        (
            'column: spaced, separator: " ", truncate: 5',
            "fewer numbers than 'truncate' keeps.*2 in a row.*5 or more",
        ),
        ("column: genres, transform: category", "10 values of genres missing"),
        ("column: maker, transform: multi", "one-hot, multi-hot"),
    ],
)
def test_messages(tmp_path: Path, features: str, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        made(tmp_path, features)


def test_features_of_other_tables_are_joined_by_key(tmp_path: Path) -> None:
    """A second table, and rows of .npy files by the keys of another one: all are inputs of the graph."""
    folder = write(tmp_path / "tables", "")
    order = RNG.permutation(ROWS)
    vectors = RNG.normal(size=(ROWS, 5)).astype(np.float32)
    np.save(folder / "vectors.npy", vectors[order])
    np.save(folder / "ids.npy", np.array(USERS["id"])[order])
    pq.write_table(pa.table({"id": USERS["id"][::-1], "age": list(range(ROWS))}), folder / "more.parquet")
    sql = "SELECT u.id, m.age, v.value AS vector FROM 'users.parquet' u LEFT JOIN 'more.parquet' m USING (id)"
    sql += " JOIN 'ids.npy' i ON i.value = u.id JOIN 'vectors.npy' v ON v.row = i.row"
    graph = (folder / "graph.yaml").read_text().replace("users.parquet", f'{{sql: "{sql}"}}')
    (folder / "graph.yaml").write_text(
        graph.replace("    key: id\n", "    key: id\n    features: {age: , vector: }\n")
    )
    ingest(folder, tmp_path / "graph")
    found = feature(tmp_path / "graph", "user", "vector")
    assert found.dtype == np.float32 and np.array_equal(found, vectors)
    assert feature(tmp_path / "graph", "user", "age").tolist() == list(range(ROWS))[::-1]
    np.save(folder / "vectors.npy", vectors)
    assert not ingest(folder, tmp_path / "graph").skipped


@pytest.mark.parametrize("dtype", ["float16", ">f8", "int8", "bool", "U3"])
def test_a_numpy_file_is_a_table(tmp_path: Path, dtype: str) -> None:
    values = np.array(["12", "0", "7"]) if dtype == "U3" else np.array([12, 0, 7]).astype(dtype)
    np.save(tmp_path / "n.npy", values)
    (tmp_path / "links.csv").write_text("a,b\n0,1\n")
    transform = "{column: value, transform: category}" if dtype == "U3" else "{column: value}"
    edges = "{a:links:a: {table: {path: links.csv, types: {a: int64, b: int64}}, src: a, dst: b}}"
    (tmp_path / "graph.yaml").write_text(
        "graph_name: g\nnodes:\n  a:\n    table: n.npy\n    key: row\n"
        f"    features: {{x: {transform}}}\nedges: {edges}\n"
    )
    ingest(tmp_path, tmp_path / "graph")
    expected = [1, 0, 2] if dtype == "U3" else values.astype(float).tolist()
    assert feature(tmp_path / "graph", "a", "x").tolist() == expected


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        (np.zeros((2, 2, 2)), r"not a table.*\(2, 2, 2\)"),
        (np.array([{}], object), "cannot be read.*Python objects"),
    ],
)
def test_numpy_files_that_are_no_table(tmp_path: Path, rows: Any, message: str) -> None:
    folder = write(tmp_path / "tables", "column: value")
    np.save(folder / "x.npy", rows, allow_pickle=True)
    (folder / "graph.yaml").write_text(
        (folder / "graph.yaml").read_text().replace("users.parquet", "x.npy").replace("key: id", "key: row")
    )
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        ingest(folder, tmp_path / "graph")


@pytest.mark.parametrize(
    "transform",
    [
        "transform: standardise",
        "transform: min-max",
        "transform: rank-gauss",
        "transform: bucket, buckets: 2",
        "missing: mean",
    ],
)
@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_one_value_that_is_not_finite_does_not_spoil_a_feature(
    value: float, transform: str, tmp_path: Path
) -> None:
    """Mean, limits and ranks would be NaN or infinite, and so all values of the feature."""
    income = USERS["income"].copy()
    income[7] = value
    with pytest.raises(InvalidInputError, match="cannot be fitted on values that are not finite") as e:
        made(tmp_path, f"column: income, {transform}", {**USERS, "income": income})
    assert e.value.found is not None
    assert f"id 'u07', income {value} in users.parquet, row 7" in e.value.found
    assert not (tmp_path / "graph/metadata.json").exists()


def test_a_column_of_numbers_as_they_are_may_have_any_value(tmp_path: Path) -> None:
    income = USERS["income"].copy()
    income[7] = np.nan
    np.testing.assert_array_equal(made(tmp_path, "column: income", {**USERS, "income": income}), income)


def test_no_number_is_in_no_bucket(tmp_path: Path) -> None:
    income = USERS["income"].copy()
    income[7] = np.nan
    with pytest.raises(InvalidInputError, match="a value is in no bucket"):
        made(
            tmp_path,
            "column: income, transform: bucket, boundaries: [2]",
            {**USERS, "income": income},
        )


def test_a_table_without_rows_has_no_type(tmp_path: Path) -> None:
    write(tmp_path, "")
    (tmp_path / "users.csv").write_text("id,income\n")
    graph = (tmp_path / "graph.yaml").read_text().replace("users.parquet", "users.csv")
    graph = graph.replace("    key: id\n", "    key: id\n    features: {income: }\n")
    (tmp_path / "graph.yaml").write_text(graph)
    with pytest.raises(InvalidInputError, match="the column 'income' has no type") as caught:
        ingest(tmp_path, tmp_path / "graph")
    assert caught.value.found == "a table without rows"
