"""The readers of ``verify``, which share no code with those of the conversion."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.chunked.metadata import FileFormat, FileSet, load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import open_store
from partition_ops.verification.input_graph import FeatureTable, read_edges
from tests.graphs import Edges, Layout, SmallGraph


def feature(folder: Path, file_format: FileFormat, *files: str) -> FeatureTable:
    return FeatureTable(open_store(str(folder)), FileSet(file_format, files), folder / "scratch")


@pytest.mark.parametrize("delimiter", [" ", ",", ";", "\t", "|"])
@pytest.mark.parametrize("header", [True, False])
@pytest.mark.parametrize("flagged", [True, False])
def test_edges_in_csv(tmp_path: Path, delimiter: str, header: bool, flagged: bool) -> None:
    layout = Layout("csv", (2, 0, 1), delimiter, header, flagged)
    SmallGraph({"a": 5}, {"a:r:a": Edges([0, 4, 2], [1, 3, 2], layout)}).write(tmp_path)
    source = open_store(str(tmp_path))
    src, dst = read_edges(source, load_metadata(source), 0)
    assert (src.tolist(), dst.tolist()) == ([0, 4, 2], [1, 3, 2])


def test_an_edge_out_of_range_is_bad_input(tmp_path: Path) -> None:
    SmallGraph({"a": 5}, {"a:r:a": Edges([0, 5], [1, 3])}).write(tmp_path)
    source = open_store(str(tmp_path))
    with pytest.raises(InvalidInputError, match=r"row 1 .* Found: 5"):
        read_edges(source, load_metadata(source), 0)


@pytest.mark.parametrize(
    "text",
    ["0,1\nseven,2\n", "0,1\n1.5,2\n", "0,1\n4,\n", "0,1\n1,2,3\n", "0,1,2\n3,4,1\n", "\xff\xfe\0", "9e9,1"],
)
def test_edges_that_cannot_be_read_are_bad_input(tmp_path: Path, text: str) -> None:
    SmallGraph({"a": 5}, {"a:r:a": Edges([0, 4], [1, 3], Layout("csv"))}).write(tmp_path)
    source = open_store(str(tmp_path))
    metadata = load_metadata(source)
    (tmp_path / metadata.edges[0].files[0]).write_text(text, encoding="latin-1")
    with pytest.raises(InvalidInputError, match=r"0-0\.csv cannot be read as edges.*two columns of integers"):
        read_edges(source, metadata, 0)


@pytest.mark.parametrize(
    "table",
    [
        pa.table({"s": [0, None], "d": [1, 2]}),
        pa.table({"s": [0.0], "d": [1]}),
        pa.table({"s": [0], "d": [1], "w": [2]}),
        None,
    ],
)
def test_edges_in_parquet_that_cannot_be_read_are_bad_input(tmp_path: Path, table: pa.Table | None) -> None:
    SmallGraph({"a": 5}, {"a:r:a": Edges([0, 4], [1, 3])}).write(tmp_path)
    source = open_store(str(tmp_path))
    metadata = load_metadata(source)
    path = tmp_path / metadata.edges[0].files[0]
    if table is None:
        path.write_text("no")
    else:
        pq.write_table(table, path)
    with pytest.raises(InvalidInputError, match="cannot be read as edges"):
        read_edges(source, metadata, 0)


def test_columns_side_by_side(tmp_path: Path) -> None:
    pq.write_table(pa.table({"x": [1, 2], "y": [3, 4]}), tmp_path / "f.parquet")
    table = feature(tmp_path, FileFormat("parquet"), "f.parquet")
    assert table.take(np.array([1, 0])).tolist() == [[2, 4], [1, 3]]


def test_shape_in_the_metadata_of_a_parquet_file(tmp_path: Path) -> None:
    """DGL's own writer flattens an array and notes its shape."""
    flat = pa.table({"x": list(range(8))}).replace_schema_metadata({"shape": "(2, 2, 2)"})
    pq.write_table(flat, tmp_path / "f.parquet")
    table = feature(tmp_path, FileFormat("parquet"), "f.parquet")
    assert table.shape == (2, 2)
    assert table.take(np.array([1])).tolist() == [[[4, 5], [6, 7]]]


def test_booleans_are_bytes_and_byte_order_is_the_machines(tmp_path: Path) -> None:
    np.save(tmp_path / "bool.npy", np.array([True, False]))
    np.save(tmp_path / "big.npy", np.array([1, 2], ">i4"))
    assert feature(tmp_path, FileFormat("numpy"), "bool.npy").dtype == np.uint8
    big = feature(tmp_path, FileFormat("numpy"), "big.npy")
    assert (big.dtype.isnative, big.take(np.array([0, 1])).tolist()) == (True, [1, 2])


def test_an_empty_csv_has_no_say_in_the_dtype(tmp_path: Path) -> None:
    (tmp_path / "0.csv").write_text("")
    (tmp_path / "1.csv").write_text("7,8\n")
    table = feature(tmp_path, FileFormat("csv", ","), "0.csv", "1.csv")
    assert (table.dtype, table.shape, len(table)) == (np.int64, (2,), 1)


def test_pickles_are_not_loaded(tmp_path: Path) -> None:
    np.save(tmp_path / "f.npy", np.array([{}], object), allow_pickle=True)
    with pytest.raises(ValueError, match="Python objects"):
        feature(tmp_path, FileFormat("numpy"), "f.npy")
