"""JSON lines: a document on each line."""

from __future__ import annotations

from collections.abc import Mapping

from partition_ops.stages.ingest.engines import literal
from partition_ops.stages.ingest.sources.csv import TextSource, compression, struct
from partition_ops.stages.ingest.table_source import FoundFile


class JSONSource(TextSource):
    name, title = "json", "JSON lines"
    suffixes = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz")

    def reader(self, file: FoundFile, types: Mapping[str, str] | None) -> str:
        columns = f", columns = {struct(types)}" if types else ""
        path = literal(str(file.path))
        return f"read_json({path}, format = 'newline_delimited'{columns}{compression(file)})"


SOURCE = JSONSource
