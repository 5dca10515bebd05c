"""The fast parser of edges in CSV files, and the columns that it leaves for later readers."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.chunked import edges, plain_edges
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import FileFormat, load_metadata
from partition_ops.chunked.plain_edges import PlainRows, keep_columns
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store, open_store
from tests.graphs import Edges, Layout, SmallGraph

ROWS = [(0, 1), (12, 345), (7, 7), (999_999_999_999_999_999, 0), (3, 40)]
LINES = [f"{src} {dst}" for src, dst in ROWS]


def parse(
    path: Path, text: str, *, delimiter: str = " ", header: bool = False, rows: int = 1 << 10
) -> PlainRows:
    path.write_bytes(text.encode())
    return PlainRows(path, FileFormat("csv", delimiter), header=header, rows=rows)


def pairs(parsed: PlainRows) -> list[tuple[int, int]]:
    return [pair for src, dst in parsed for pair in zip(src.tolist(), dst.tolist(), strict=True)]


@pytest.mark.parametrize("rows", [2, 3, 1 << 10])  # of a block; rows cross the ends of short ones
@pytest.mark.parametrize(
    ("text", "more"),
    [
        ("\n".join(LINES) + "\n", {}),
        ("\n".join(LINES), {}),
        ("\r\n".join(LINES) + "\r\n", {}),
        ("\n\n".join(LINES) + "\n\r\n\n", {}),
        ("\n".join(LINES).replace(" ", "\t"), {"delimiter": "\t"}),
        ("a b\n" + "\n".join(LINES), {"header": True}),
    ],
)
def test_plain_rows(tmp_path: Path, text: str, more: dict[str, str], rows: int) -> None:
    parsed = parse(tmp_path / "edges", text, rows=rows, **more)
    assert pairs(parsed) == ROWS
    assert parsed.complete
    assert parsed.done == len(ROWS)


@pytest.mark.parametrize(
    "row",
    [
        *("-1 2", "+1 2", "1", "1 ", " 1 2", "1 2 ", "1 2 3", '"1" 2', "1.0 2", "0x1 2", "1 2\r3 4", "é 2"),
        *("1 1000000000000000000", "1 2\0", "\N{BOM}1 2", "#", "1" * 3000 + " 2"),
    ],
)
def test_other_rows_are_left_to_pyarrow(tmp_path: Path, row: str) -> None:
    parsed = parse(tmp_path / "edges", "\n".join([*LINES, row, *LINES]), rows=100)
    assert pairs(parsed) == ROWS
    assert not parsed.complete


def test_empty_files_have_no_rows(tmp_path: Path) -> None:
    for text, header in (("", False), ("a b\n", True)):
        parsed = parse(tmp_path / "edges", text, header=header)
        assert pairs(parsed) == []
        assert parsed.complete


LAYOUT = Layout("csv", chunks=(150, 150), delimiter=" ")
GRAPH = SmallGraph({"a": 400}, {"a:r:a": Edges([*range(300)], [*range(99, 399)], LAYOUT)})


def graph(tmp_path: Path, lines: list[str] | None = None) -> tuple[Store, Path]:
    """Return the root of a graph, and its first edge file."""
    root = GRAPH.write(tmp_path / "graph")
    source = open_store(str(root))
    path = source.local_copy(load_metadata(source).edges[0].files[0])
    if lines is not None:
        path.write_text("".join(f"{line}\n" for line in lines))
    return source, path


def read(source: Store, rows: int = 64) -> list[tuple[int, int]]:
    reader = EdgeReader(source, load_metadata(source))
    batches = [batch for chunk in reader.chunks() for batch in reader.batches(chunk, rows=rows)]
    return [pair for batch in batches for pair in zip(*(column.to_pylist() for column in batch), strict=True)]


def test_pyarrow_goes_on_at_the_first_other_row(tmp_path: Path) -> None:
    lines = [f"{i} {i + 1}" for i in range(150)]
    lines[100] = "+7 8"
    source, path = graph(tmp_path, lines)
    with pytest.raises(InvalidInputError, match=r"row 101 \(line 102\) is not an edge"):
        path.write_text("\n".join([*lines[:101], "x y", *lines[102:]]) + "\n")
        read(source)
    lines[100] = '"7" 8'
    path.write_text("\n".join(lines) + "\n")
    assert read(source)[:150] == [(7, 8) if i == 100 else (i, i + 1) for i in range(150)]


def test_a_file_is_parsed_once(tmp_path: Path) -> None:
    source, _ = graph(tmp_path)
    expected = read(source)
    with keep_columns(source):
        assert read(source) == expected
        with patch.object(plain_edges, "parse_rows", side_effect=AssertionError("parsed again")):
            assert read(source) == expected
            assert read(source, rows=7) == expected
    failing = patch.object(plain_edges, "parse_rows", side_effect=RuntimeError("parsed"))
    with failing, pytest.raises(RuntimeError, match="parsed"):
        read(source)  # nothing is kept outside


def parquet_graph(tmp_path: Path, table: pa.Table | None = None) -> Store:
    """Return the root of a graph with one edge file; a table replaces its rows."""
    rows = Edges([*range(300)], [*range(99, 399)], Layout("parquet"))
    source = open_store(str(SmallGraph({"a": 400}, {"a:r:a": rows}).write(tmp_path / "graph")))
    if table is not None:
        pq.write_table(table, source.local_copy(load_metadata(source).edges[0].files[0]))
    return source


def test_a_parquet_file_is_decoded_once(tmp_path: Path) -> None:
    source = parquet_graph(tmp_path)
    expected = read(source)
    decoded = patch.object(edges, "parquet_file", side_effect=RuntimeError("decoded"))
    with keep_columns(source):
        assert read(source, rows=7) == expected
        with decoded:
            assert read(source) == expected
        path = source.local_copy(load_metadata(source).edges[0].files[0])
        pq.write_table(pq.read_table(path).slice(0, 200), path)
        assert read(source) == expected[:200]
    with decoded, pytest.raises(RuntimeError, match="decoded"):
        read(source)  # nothing is kept outside


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1, None], pa.int64()),
        pa.array([1, -1], pa.int32()),
        pa.array([1, 2**32], pa.int64()),
        pa.array([1, 2**64 - 1], pa.uint64()),
    ],
    ids=["null", "negative", "large", "larger"],
)
def test_parquet_columns_with_other_ids_are_not_kept(tmp_path: Path, column: pa.Array) -> None:
    source = parquet_graph(tmp_path, pa.table({"src": column, "dst": column}))
    expected = [(value, value) for value in column.to_pylist()]
    with keep_columns(source):
        assert read(source, rows=1) == expected
        assert read(source, rows=1) == expected


def test_a_changed_file_is_parsed_again(tmp_path: Path) -> None:
    """It has the same size and the same modification time."""
    source, path = graph(tmp_path)
    with keep_columns(source):
        before = read(source)
        text, times = path.read_text(), path.stat()
        path.write_text(text.replace("0 99\n", "0 88\n", 1))
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        assert read(source) == [(0, 88), *before[1:]]


def test_a_file_that_changes_while_it_is_parsed_is_not_kept(tmp_path: Path) -> None:
    source, path = graph(tmp_path)
    reader = EdgeReader(source, load_metadata(source))
    with keep_columns(source):
        batches = reader.batches(reader.chunks()[0], rows=16)
        next(batches)  # of the text that has been read, later rows are left
        path.write_text(path.read_text().replace("0 99\n", "0 88\n", 1))
        assert sum(batch.num_rows for batch in batches) > 0
        assert read(source)[0] == (0, 88)


@pytest.mark.parametrize("large", ["3000000000 1", "-1 1"])
def test_other_numbers_are_read_again_from_the_file(tmp_path: Path, large: str) -> None:
    lines = [f"{i} {i + 1}" for i in range(149)] + [large]
    source, _ = graph(tmp_path, lines)
    with keep_columns(source):
        first = read(source)
        assert first[149] == tuple(map(int, large.split()))
        assert read(source) == first


def test_ids_beyond_32_bits_are_kept(tmp_path: Path) -> None:
    source, _ = graph(tmp_path, [f"{i + 2**40} {i}" for i in range(150)])
    metadata = replace(load_metadata(source), num_nodes=(2**41,))
    with keep_columns(source):
        for _ in range(2):
            reader = EdgeReader(source, metadata)
            src = np.concatenate([b.column(0).to_numpy() for b in reader.batches(reader.chunks()[0])])
            assert src.tolist() == [i + 2**40 for i in range(150)]
            with patch.object(plain_edges, "parse_rows", side_effect=AssertionError("parsed again")):
                assert sum(b.num_rows for b in reader.batches(reader.chunks()[0])) == 150


def test_a_full_disk_only_means_that_nothing_is_kept(tmp_path: Path) -> None:
    source, _ = graph(tmp_path)
    expected = read(source)
    with keep_columns(source), patch.object(plain_edges, "_append", return_value=False):
        assert read(source) == expected
        assert read(source) == expected


def test_columns_are_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, _ = graph(tmp_path)
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(plain_edges, "temporary_folder", lambda: TemporaryDirectory(dir=folder))
    with keep_columns(source):
        read(source)
        sizes = [path.stat().st_size for path in folder.rglob("*") if path.is_file()]
        assert sum(sizes) == 8 * 300, "8 bytes an edge, as the estimate says"
    assert not any(folder.iterdir())
