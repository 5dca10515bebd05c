"""The fast parser of edges in CSV files."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import FileFormat, load_metadata
from partition_ops.chunked.plain_edges import PlainRows
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
