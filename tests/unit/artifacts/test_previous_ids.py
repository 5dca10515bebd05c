"""``previous_ids`` of a graph whose nodes were renumbered: what is read, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts.graph_counts import still_there_in
from partition_ops.chunked.metadata import METADATA, PREVIOUS_IDS
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, open_store


def graph(folder: Path, *files: Any, key: str = "previous_ids/page-0.parquet", column: str = "") -> Store:
    """An input that names some files of previous IDs of five nodes; bytes are written as they are."""
    (folder / "previous_ids").mkdir(parents=True)
    names = [key, "previous_ids/page-1.parquet"][: len(files)]
    for name, values in zip(names, files, strict=True):
        if isinstance(values, bytes):
            (folder / name).write_bytes(values)
        elif values is not None:
            pq.write_table(pa.table({column or "previous_id": values}), folder / name)
    spec = {"data": names, "column": "previous_id", "num_previous": 5}
    (folder / METADATA).write_text(json.dumps({PREVIOUS_IDS: {"page": spec}}))
    return open_store(str(folder))


def test_the_nodes_that_are_still_there(tmp_path: Path) -> None:
    found = still_there_in(graph(tmp_path, [0, 2], [3]))
    assert found["page"].tolist() == [True, False, True, True, False]


@pytest.mark.parametrize(
    ("files", "message"),
    [
        (([0, 5],), "row 1 is out of order or range"),
        (([-1, 2],), "row 0 is out of order or range"),
        (([2, 1],), "row 1 is out of order or range"),
        (([1, 1],), "row 1 is out of order or range"),
        (([0, 3], [3]), r"page-1\.parquet.*row 0 is out of order or range"),
        (([0, None],), "an ID is missing"),
        ((["a"],), "no column 'previous_id' of integers"),
        ((b"PAR1 this is no table",), "cannot be read as Parquet"),
        ((None,), r"page-0\.parquet"),  # there is no such file
    ],
)
def test_a_wrong_file_is_refused(files: tuple[Any, ...], message: str, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match=message):
        still_there_in(graph(tmp_path, *files))


def test_a_column_of_another_name_and_a_path_out_of_the_root_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="no column 'previous_id' of integers"):
        still_there_in(graph(tmp_path / "column", [0], column="id"))
    pq.write_table(pa.table({"previous_id": [0]}), tmp_path / "page.parquet")
    with pytest.raises(InvalidInputError, match=r"page\.parquet"):
        still_there_in(graph(tmp_path / "root", None, key="../page.parquet"))
