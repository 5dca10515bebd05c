"""Queries on DuckDB files, which can read their database and nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from partition_ops.stages.ingest.sources.sqlite import SQLiteSource
from partition_ops.stages.ingest.table_source import ROWS, FoundFile, Place, QuerySource


class DuckDBSource(QuerySource):
    name, title = "duckdb", "DuckDB"

    @classmethod
    def find(cls, place: Place) -> list[FoundFile]:
        return place.files if place.spec.database and not SQLiteSource.find(place) else []

    def write_result(self, file: FoundFile) -> Path:
        import duckdb

        config: dict[str, Any] = {"enable_external_access": False, "autoload_known_extensions": False}
        with closing(duckdb.connect(str(file.path), read_only=True, config=config)) as connection:
            reader = connection.sql(self.sql).to_arrow_reader(ROWS)
            self.check_names(reader.schema.names)
            return self.write_parquet(reader.schema, reader, reader.schema.names)


SOURCE = DuckDBSource
