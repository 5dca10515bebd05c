"""Arrow IPC: files, which Feather files of version 2 are as well, and streams."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa

from partition_ops.stages.ingest.table_source import FoundFile, TableSource


class ArrowSource(TableSource):
    name, title = "arrow", "Arrow IPC, files and streams"
    suffixes = (".arrow", ".feather", ".ipc", ".arrows")

    def columns(self, file: FoundFile) -> list[str]:
        with _opened(file.path) as (schema, _):
            return list(schema.names)

    def read(self, file: FoundFile, columns: Sequence[str]) -> Path:
        with _opened(file.path) as (schema, batches):
            return self.write_parquet(schema, batches, columns)


@contextmanager
def _opened(path: Path) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
    with pa.memory_map(str(path)) as stream:
        try:
            file = pa.ipc.open_file(stream)
        except pa.ArrowInvalid:
            stream.seek(0)
            file = pa.ipc.open_stream(stream)
        known = isinstance(file, pa.ipc.RecordBatchFileReader)
        yield file.schema, (file.get_batch(i) for i in range(file.num_record_batches)) if known else file


SOURCE = ArrowSource
