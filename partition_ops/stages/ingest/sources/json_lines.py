"""JSON: a document on each line, or one array of documents."""

from __future__ import annotations

from codecs import BOM_UTF8
from collections.abc import Mapping, Sequence

from partition_ops.stages.ingest.engines import path_literal
from partition_ops.stages.ingest.sources.csv import UNKNOWN, TextSource, binary, compression, struct
from partition_ops.stages.ingest.table_source import FoundFile

BEGIN = 1 << 12
NUMBERS = {"BIGINT", "UBIGINT", "DOUBLE", "BOOLEAN"}


class JSONSource(TextSource):
    name, title = "json", "JSON: lines, or an array of objects"
    suffixes = (".jsonl", ".ndjson", ".json", ".jsonl.gz", ".ndjson.gz")

    def reader(self, file: FoundFile, types: Mapping[str, str] | None) -> str:
        columns = f", columns = {struct(types)}" if types else ""
        always = (
            f"format = '{'array' if _is_array(file) else 'newline_delimited'}', hive_partitioning = false"
        )
        return f"read_json({path_literal(file.path)}, {always}{columns}{compression(file)})"

    def without_column(self, have: Sequence[str]) -> str:
        return ", or write each row as an object with columns" if have == ["json"] else ""

    def _is_no_text(self, key: str) -> bool:
        kinds = {described[key] for described in self._described.values()}
        return kinds <= NUMBERS | UNKNOWN or all(kind.endswith("[]") for kind in kinds)

    def written_names(self, file: FoundFile) -> list[str]:
        """Return the keys of all documents; each is read once more."""
        kind = ", format = 'array'" if _is_array(file) else ", format = 'newline_delimited'"
        read = f"read_json_objects({path_literal(file.path)}{kind}{compression(file)})"
        rows = self.duckdb.query(f"SELECT DISTINCT unnest(json_keys(json)) FROM {read} ORDER BY 1")
        return [str(name) for (name,) in rows]


def _is_array(file: FoundFile) -> bool:
    """Return whether the documents of a file are in one array."""
    with binary(file) as stream:
        for piece in iter(lambda: stream.read(BEGIN), b""):
            if begin := piece.removeprefix(BOM_UTF8).lstrip():
                return begin.startswith(b"[")
    return False


SOURCE = JSONSource
