"""``--memory`` bounds what is in memory at a time, and the graph does not depend on it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.chunked import graph_writer
from partition_ops.chunked.graph_writer import GraphWriter
from partition_ops.errors import InvalidInputError, StorageError, UsageError
from partition_ops.stages.ingest import engines, numbered_rows
from partition_ops.stages.ingest.buckets import fill_buckets
from partition_ops.stages.ingest.engines import LEAST_MEMORY, ROW_ID, DuckDB, MemoryShares, share_memory
from partition_ops.storage import open_store
from tests.tables import contents, ingest, write_shop


def test_the_graph_does_not_depend_on_the_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ingest(write_shop(tmp_path / "tables"), tmp_path / "much")
    monkeypatch.setattr(engines, "LEAST_BLOCK", 16)  # bytes: a row or two at a time
    monkeypatch.setattr(engines, "MOST_BLOCK", 16)
    monkeypatch.setattr(numbered_rows, "JOINED_SHARE", 0)  # one join at a time
    ingest(tmp_path / "tables", tmp_path / "little")
    assert contents(tmp_path / "little") == contents(tmp_path / "much")


@pytest.mark.parametrize("memory", [LEAST_MEMORY, 1 << 30, 64 << 30])
def test_the_shares_fit_into_the_memory(memory: int) -> None:
    shares = share_memory(memory)
    used = engines.PROCESS + engines.BLOCKS * shares.block + shares.engine
    assert shares.engine > 100 << 20 and used < memory
    assert shares.threads * engines.ENGINE_THREAD <= shares.engine


def test_too_little_memory_names_the_least(tmp_path: Path) -> None:
    write_shop(tmp_path / "tables")
    with pytest.raises(UsageError, match=r"--memory is too small for tables\. Found: 64M\. Expected: 512M"):
        ingest(tmp_path / "tables", tmp_path / "graph", memory=64 << 20)
    assert not (tmp_path / "graph/metadata.json").exists()


@pytest.mark.parametrize("streamed", [False, True])
def test_memory_that_runs_out_is_no_traceback(tmp_path: Path, streamed: bool) -> None:
    engine = DuckDB(tmp_path, MemoryShares(1 << 30))
    engine.connection.execute("SET memory_limit = '2MiB'")
    engine.connection.execute("CREATE VIEW located AS SELECT range AS id FROM range(10000000)")
    with pytest.raises(StorageError, match=r"Memory .* ran out.*Set --memory 2048M; it is 1024M"):
        if streamed:
            import ibis

            table = ibis.table({"id": "int64"}, name="located")
            list(engine.batches(table.order_by((table.id * 7919) % 1000003)))
        else:
            engine.query("SELECT count(*) FROM (SELECT * FROM located ORDER BY id % 1000)")
    engine.close()


def test_buckets_are_as_small_as_their_rows_are_wide(tmp_path: Path) -> None:
    ids = np.random.default_rng(0).permutation(5000)
    texts = [f"{i:0100d}" for i in ids]
    schema = pa.schema([(ROW_ID, pa.int64()), ("text", pa.string())])
    batches = pa.table([ids, texts], schema=schema).to_batches(max_chunksize=300)
    buckets = fill_buckets(iter(batches), schema, tmp_path / "buckets", 5001, 50_000)
    assert max(one.path.stat().st_size for one in buckets.ranges) <= 50_000
    assert sorted(path.name for path in (tmp_path / "buckets").iterdir()) == sorted(
        one.path.name for one in buckets.ranges
    )
    expected = [*(f"{i:0100d}" for i in range(5000)), None]  # the last ID has no row
    assert pa.concat_tables(buckets.pieces(["text"])).column("text").to_pylist() == expected
    blocks = [*buckets.blocks(["text"], 512)]
    assert [len(block) for block in blocks] == [512] * 9 + [393]
    assert pa.concat_tables(blocks).column("text").to_pylist() == expected
    pieces = buckets.pieces(["text"])
    next(pieces)
    buckets.given_up.set()  # as when a signal ends the process
    assert [*pieces] == []


@pytest.mark.parametrize("size", [7, 1000, 30_000])
def test_long_texts_have_small_row_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    monkeypatch.setattr(graph_writer, "GROUP_BYTES", 100_000)
    writer = GraphWriter(open_store(str(tmp_path)), "g", lambda artifact: None)
    table = pa.table({"text": [str(i).zfill(1 + i % 50) for i in range(20_000)]})
    with writer.table_file("node_text", "t", table.schema) as file:
        for begin in range(0, len(table), size):
            file.append(table.slice(begin, size))
    written = pq.ParquetFile(tmp_path / "node_text/t-0.parquet")
    groups = [written.metadata.row_group(i).num_rows for i in range(written.metadata.num_row_groups)]
    assert groups == [4096, 4096, 4096, 4096, 3616]
    assert written.read().equals(table)


def test_a_feature_has_one_width_in_all_blocks(tmp_path: Path) -> None:
    writer = GraphWriter(open_store(str(tmp_path)), "g", lambda artifact: None)
    with (
        pytest.raises(InvalidInputError, match="not rows of one matrix"),
        writer.feature_file("t", "f", 8) as f,
    ):
        f.append(np.zeros((2, 3)))
        f.append(np.zeros((2, 4)))
