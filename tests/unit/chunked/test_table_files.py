"""Parquet files are read batch by batch."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.chunked.table_files import parquet_file

GROUP, GROUPS = 1 << 16, 64


def test_memory_does_not_grow_with_the_file(tmp_path: Path) -> None:
    path, schema = tmp_path / "ids.parquet", pa.schema([("id", pa.int64())])
    rng = np.random.default_rng(0)
    with pq.ParquetWriter(path, schema) as writer:
        for _ in range(GROUPS):
            values = rng.integers(0, 2**62, GROUP)  # random values, which do not compress
            writer.write_table(pa.table([values], schema=schema))
    before, most = pa.total_allocated_bytes(), 0
    with parquet_file(path, "ids.parquet") as file:
        for batch in file.iter_batches(batch_size=GROUP):
            most = max(most, pa.total_allocated_bytes() - before)
            del batch
    assert path.stat().st_size > 8 * GROUP * GROUPS * 0.9
    assert most < 8 * (8 * GROUP)
