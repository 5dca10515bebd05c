"""Parquet files: read where they are."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

import pyarrow.parquet as pq

from partition_ops.stages.ingest.table_source import FoundFile, TableSource


class ParquetSource(TableSource):
    name, title = "parquet", "Parquet"
    suffixes: ClassVar[tuple[str, ...]] = (".parquet", ".pq")

    def columns(self, file: FoundFile) -> list[str]:
        return list(pq.read_schema(file.path).names)

    def read(self, file: FoundFile, columns: Sequence[str]) -> Path:
        return file.path


SOURCE = ParquetSource
