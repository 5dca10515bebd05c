"""JSON lines: a document on each line."""

from __future__ import annotations

from collections.abc import Mapping

from partition_ops.stages.ingest.engines import path_literal
from partition_ops.stages.ingest.sources.csv import UNKNOWN, TextSource, compression, struct
from partition_ops.stages.ingest.table_source import FoundFile

NUMBERS = {"BIGINT", "UBIGINT", "DOUBLE", "BOOLEAN"}


class JSONSource(TextSource):
    name, title = "json", "JSON lines"
    suffixes = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz")

    def reader(self, file: FoundFile, types: Mapping[str, str] | None) -> str:
        columns = f", columns = {struct(types)}" if types else ""
        always = "format = 'newline_delimited', hive_partitioning = false"
        return f"read_json({path_literal(file.path)}, {always}{columns}{compression(file)})"

    def _is_number(self, key: str) -> bool:
        return all(kinds[key] in NUMBERS | UNKNOWN for kinds in self._described.values())

    def written_names(self, file: FoundFile) -> list[str]:
        """Return the keys of all documents; each is read once more."""
        read = f"read_ndjson_objects({path_literal(file.path)}{compression(file)})"
        rows = self.duckdb.query(f"SELECT DISTINCT unnest(json_keys(json)) FROM {read} ORDER BY 1")
        return [str(name) for (name,) in rows]


SOURCE = JSONSource
