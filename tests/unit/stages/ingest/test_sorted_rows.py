"""Edges are sorted as an engine sorts them by their ends and columns, in any amount of memory."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.chunked.graph_writer import DST, SRC
from partition_ops.stages.ingest.edge_order import EdgeOrder, in_order
from partition_ops.stages.ingest.engines import ROW_ID, DuckDB, MemoryShares

VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "int8": (pa.int8(), [-128, 0, 1, 127, None]),
    "uint64": (pa.uint64(), [0, 1, 2**64 - 1, None]),
    "float32": (pa.float32(), [0.0, -0.0, 1.5, -1.5, float("inf"), float("nan"), None]),
    "float64": (pa.float64(), [-0.0, 0.0, 1e-300, float("-inf"), float("nan"), None]),
    "bool": (pa.bool_(), [True, False, None]),
    "text": (pa.string(), ["", "a", "B", "é", "a\0", "zz", "😀", None]),
    "date": (pa.date32(), [date(1970, 1, 1), date(1969, 12, 31), None]),
    "time": (pa.timestamp("us"), [datetime(2024, 1, 1), datetime(1960, 1, 1), None]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.25"), Decimal("-1.25"), None]),
    "list": (pa.list_(pa.float64()), [[0.0], [-0.0], [], [1.0, 2.0], None]),
}


@pytest.fixture
def duckdb(tmp_path: Path) -> Iterator[DuckDB]:
    engine = DuckDB(tmp_path, MemoryShares(1 << 30))
    yield engine
    engine.close()


def rows_of(kinds: list[str], num_src: int, num_dst: int, count: int = 500) -> pa.Table:
    """Return edges in no order, some without a node; many have the same ends and values."""
    rng = np.random.default_rng(len(kinds) + num_src)
    pairs = rng.integers(0, num_src, count) * num_dst + rng.integers(0, num_dst, count)
    columns: dict[str, pa.Array] = {ROW_ID: pa.array(pairs, mask=rng.random(count) < 0.1)}
    for place, name in enumerate(kinds):
        kind, values = VALUES[name]
        columns[f"value_{place}"] = pa.array([values[i] for i in rng.integers(0, len(values), count)], kind)
    return pa.table(columns)


@pytest.mark.parametrize("block_bytes", [2_000, 1 << 26], ids=["tiny", "large"])
@pytest.mark.parametrize(
    ("num_src", "num_dst"), [(2, 3), (70, 900), (1 << 31, 1 << 30)], ids=["few", "many", "huge"]
)
@pytest.mark.parametrize(
    "kinds",
    [[], *([name] for name in VALUES), ["float32", "text", "int8"]],
    ids=lambda kinds: "+".join(kinds),
)
def test_the_order_is_that_of_the_engine(
    tmp_path: Path, duckdb: DuckDB, kinds: list[str], num_src: int, num_dst: int, block_bytes: int
) -> None:
    table = rows_of(kinds, num_src, num_dst)
    pq.write_table(table, tmp_path / "edges.parquet")
    rows = duckdb.table("edges", [tmp_path / "edges.parquet"], table.schema)
    rows = rows.filter(rows[ROW_ID].notnull()).order_by(in_order([rows[name] for name in table.column_names]))
    expected = pa.Table.from_batches([*duckdb.batches(rows)]).cast(table.schema)
    pairs = expected.column(ROW_ID).to_numpy()

    order = EdgeOrder(table.schema, num_dst, num_src * num_dst, duckdb, tmp_path / "sorted", block_bytes)
    found = pa.Table.from_batches([*order.sorted(iter(table.to_batches(max_chunksize=100)))])

    assert len(found) == len(table)
    known, lost = found.slice(0, len(expected)), found.slice(len(expected))
    assert known.column(SRC).to_pylist() == (pairs // num_dst).tolist()
    assert known.column(DST).to_pylist() == (pairs % num_dst).tolist()
    assert lost.column(SRC).null_count == lost.column(DST).null_count == len(lost)
    for name in table.column_names[1:]:
        assert repr(known.column(name).to_pylist()) == repr(expected.column(name).to_pylist())  # -0.0, nan
    assert not (tmp_path / "sorted").exists()
