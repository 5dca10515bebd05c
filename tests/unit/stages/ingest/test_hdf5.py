"""Tables in HDF5."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from partition_ops.errors import InvalidInputError, UsageError
from tests.tables import feature, ingest, keys

GRAPH = """\
graph_name: g
nodes:
  paper: {table: %s, key: %s, features: {%s}}
edges:
  paper:cites:paper: {table: {path: links.csv, types: {a: text, b: text}}, src: a, dst: b}
"""
IDS = ["p3", "p1", "é2"]
VECTORS = np.arange(12, dtype=np.float32).reshape(3, 4)


def write(
    folder: Path, datasets: dict[str, Any], features: str, table: str = "papers.h5", key: str = "id"
) -> None:
    with h5py.File(folder / "papers.h5", "w") as file:
        for name, rows in datasets.items():
            file.create_dataset(name, data=rows)
    (folder / "links.csv").write_text("a,b\np1,p3\n" if key == "id" else "a,b\n0,1\n")
    (folder / "graph.yaml").write_text(GRAPH % (table, key, features))


@pytest.mark.parametrize("ids", [IDS, np.array([text.encode() for text in IDS])], ids=["text", "bytes"])
def test_features_by_key(tmp_path: Path, ids: Any) -> None:
    datasets = {"id": ids, "x/year": np.array([3, 1, 2], ">i4"), "x/vector": VECTORS.astype(np.float16)}
    write(tmp_path, datasets, "vector: {column: x/vector}, year: {column: x/year}")
    ingest(tmp_path, tmp_path / "graph")
    assert keys(tmp_path / "graph", "paper") == ["p1", "p3", "é2"]
    assert feature(tmp_path / "graph", "paper", "vector").tolist() == VECTORS[[1, 0, 2]].tolist()
    assert feature(tmp_path / "graph", "paper", "year").tolist() == [1, 3, 2]


def test_an_array_without_keys_has_numbers_of_rows(tmp_path: Path) -> None:
    write(tmp_path, {"x": VECTORS}, "x: {column: x}", key="row")
    ingest(tmp_path, tmp_path / "graph")
    assert feature(tmp_path / "graph", "paper", "x").tolist() == VECTORS.tolist()


def test_a_query_joins_it_to_another_table(tmp_path: Path) -> None:
    (tmp_path / "papers.csv").write_text("id\np1\np3\né2\n")
    sql = "SELECT p.id, h.x FROM 'papers.csv' p JOIN 'papers.h5' h ON h.id = p.id"
    write(tmp_path, {"id": IDS, "x": VECTORS}, "x: {column: x}", table=f'{{sql: "{sql}"}}')
    ingest(tmp_path, tmp_path / "graph")
    assert feature(tmp_path / "graph", "paper", "x").tolist() == VECTORS[[1, 0, 2]].tolist()


@pytest.mark.parametrize(
    ("datasets", "column", "message"),
    [
        ({"id": IDS, "x": VECTORS[:2]}, "x", "not columns of one table.*id: 3 rows.*x: 2 rows"),
        ({"id": IDS, "x": np.zeros((3, 2, 2))}, "x", "'x'"),
        ({"id": IDS, "x": np.zeros(3, [("a", "f4")])}, "x", "dataset 'x' .* is no column"),
        ({"id": IDS, "x": np.zeros(3, complex)}, "x", "dataset 'x' .* is no column.*complex"),
    ],
    ids=["lengths", "dimensions", "records", "complex"],
)
def test_datasets_that_are_no_columns(
    tmp_path: Path, datasets: dict[str, Any], column: str, message: str
) -> None:
    write(tmp_path, datasets, f"x: {{column: {column}}}")
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        ingest(tmp_path, tmp_path / "graph")


def test_a_file_that_is_damaged(tmp_path: Path) -> None:
    write(tmp_path, {"id": IDS}, "")
    (tmp_path / "papers.h5").write_bytes((tmp_path / "papers.h5").read_bytes()[:400])
    with pytest.raises(InvalidInputError, match=r"papers\.h5 cannot be read"):
        ingest(tmp_path, tmp_path / "graph")


def test_without_h5py_the_message_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, {"id": IDS}, "")
    monkeypatch.setitem(sys.modules, "h5py", None)
    with pytest.raises(UsageError, match=r"papers.h5, an HDF5 file, needs h5py.*partition-ops\[hdf5\]"):
        ingest(tmp_path, tmp_path / "graph")
