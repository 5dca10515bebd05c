"""Restored rows beside the user's own IDs, and Parquet that is larger than a batch."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.cli import main
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.idmap import row_files, string_ids
from partition_ops.stages.idmap.options import RemapConfig
from partition_ops.stages.idmap.restore import restore_rows
from partition_ops.stages.idmap.row_files import RowFile
from partition_ops.storage import Store, open_store
from tests.graphs import library

NAMES = [f"paper, №{i}" for i in range(40)]
COLUMNS = {"orig_id": np.arange(40), "name": NAMES, "size": np.arange(40)}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Input, finished run, and rows as trainers save them: row i says which original it is of."""
    root = tmp_path_factory.mktemp("ids")
    source, run = open_store(str(library().write(root / "in"))), open_store(str(root / "run"))
    run_job(RunConfig(num_parts=3, engine="random"), source, run)
    with PartitionBook(run) as book:
        orig = book.nid_new2orig(np.arange(40), "paper")
    np.save(root / "emb.npy", np.stack([orig, -orig], axis=1).astype(np.float32))
    return root


def write(path: Path, columns: dict[str, Any]) -> Path:
    if path.suffix == ".txt":
        path.write_text("".join(f"{name}\n" for name in columns["name"]))
    elif path.suffix == ".csv":
        pa_csv.write_csv(pa.table(columns), path)
    else:
        pq.write_table(pa.table(columns), path)
    return path


def restore(folder: Path, output: Path, *options: Any) -> int:
    words = ["--node-type", "paper", "--input", folder / "emb.npy", "--output", output, *options]
    return main(["idmap", "restore", str(folder / "run"), *map(str, words)])


def check(output: Path, names: list[str]) -> None:
    table = pq.ParquetFile(output).read()
    assert table.column_names == ["id", "value"]
    assert table["id"].to_pylist() == names
    assert table["value"].to_pylist() == [[float(i), float(-i)] for i in range(40)]


@pytest.mark.parametrize(
    ("name", "columns", "options"),
    [
        ("ids.txt", {"name": NAMES}, ()),
        ("ids.csv", {"name": NAMES}, ()),
        ("ids.parquet", {"name": NAMES}, ()),
        ("ids.parquet", {"orig_id": np.arange(40), "name": NAMES}, ()),
        ("ids.parquet", {"name": pa.array(NAMES).dictionary_encode()}, ()),
        ("ids.parquet", COLUMNS, ("--ids-column", "name")),
        ("ids.csv", COLUMNS, ("--ids-column", "name")),
    ],
)
def test_ids_of_every_kind(
    folder: Path,
    tmp_path: Path,
    name: str,
    columns: dict[str, Any],
    options: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(string_ids, "ROWS", 7)
    monkeypatch.setattr(row_files, "BATCH_BYTES", 24)  # three rows
    ids = write(tmp_path / name, columns)
    assert restore(folder, tmp_path / "out.parquet", "--ids", ids, *options) == 0
    check(tmp_path / "out.parquet", NAMES)


def test_numbers_and_several_files(folder: Path, tmp_path: Path) -> None:
    numbers = np.arange(40) * 10**12
    files = [
        write(tmp_path / f"{i}.parquet", {"number": part}) for i, part in enumerate(np.split(numbers, [13]))
    ]
    assert restore(folder, tmp_path / "out.parquet", "--ids", *files) == 0
    check(tmp_path / "out.parquet", [str(number) for number in numbers])


def test_ids_that_the_input_names(folder: Path, tmp_path: Path) -> None:
    document = json.loads((folder / "in/metadata.json").read_text())
    document["node_ids"] = {"paper": {"data": ["names/paper.parquet"], "column": "name"}}
    (tmp_path / "metadata.json").write_text(json.dumps(document))
    (tmp_path / "names").mkdir()
    write(tmp_path / "names/paper.parquet", COLUMNS)
    assert restore(folder, tmp_path / "out.parquet", "--ids-from", tmp_path) == 0
    check(tmp_path / "out.parquet", NAMES)


@pytest.mark.parametrize(
    ("name", "columns", "options", "code", "message"),
    [
        ("ids.txt", {"name": NAMES[:39]}, (), 3, "fewer IDs than there are rows"),
        ("ids.txt", {"name": [*NAMES, "x"]}, (), 3, "more IDs than there are rows"),
        ("ids.parquet", COLUMNS, (), 3, "not clear which column"),
        ("ids.parquet", COLUMNS, ("--ids-column", "title"), 3, "no column 'title'"),
        ("ids.parquet", {"orig_id": np.arange(40)[::-1], "name": NAMES}, (), 3, "does not count from 0"),
        ("ids.parquet", {"name": [None, *NAMES[1:]]}, (), 3, "an ID is missing from row 0"),
        ("ids.parquet", {"name": NAMES}, ("--ids-from", "in"), 2, "two sources of IDs"),
        ("ids.npy", {"name": NAMES}, (), 2, "has no known suffix"),
    ],
)
def test_what_cannot_be_joined(
    folder: Path,
    tmp_path: Path,
    name: str,
    columns: dict[str, Any],
    options: tuple[str, ...],
    code: int,
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    ids = write(tmp_path / name, columns)
    assert restore(folder, tmp_path / "out.parquet", "--ids", ids, *options) == code
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.parquet").exists()


def test_only_parquet_holds_ids(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = write(tmp_path / "ids.txt", {"name": NAMES})
    assert restore(folder, tmp_path / "out.npy", "--ids", ids) == 2
    assert "Only Parquet holds IDs" in capsys.readouterr().err
    assert restore(folder, tmp_path / "out.parquet", "--ids-column", "name") == 2
    assert restore(folder, tmp_path / "out.parquet", "--ids-from", folder / "in") == 3
    assert "names no file with IDs of 'paper'" in capsys.readouterr().err


@pytest.mark.parametrize("shape", [(40,), (40, 2), (40, 2, 3)])
def test_parquet_rows_are_mapped_batch_by_batch(
    folder: Path, tmp_path: Path, shape: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_files, "BATCH_BYTES", 100)
    store: Store = open_store(str(tmp_path))
    rows = np.random.default_rng(0).normal(size=shape)
    with RowFile(store, "rows.parquet").create(shape, rows.dtype) as new:
        new[:] = rows
    opened = RowFile(store, "rows.parquet").open()
    assert isinstance(opened, np.memmap)
    assert np.array_equal(opened, rows)
    restore_rows(
        RemapConfig(node_type="paper"),
        open_store(str(folder / "run")),
        [RowFile(store, "rows.parquet")],
        RowFile(store, "out.npy"),
    )
    with PartitionBook(open_store(str(folder / "run"))) as book:
        assert np.array_equal(np.load(tmp_path / "out.npy"), rows[book.nid_orig2new(np.arange(40), "paper")])
