"""Queries on DuckDB files, which can read their database and nothing else."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path
from typing import Any

from partition_ops.stages.ingest.table_source import ROWS, FoundFile, QuerySource


class DuckDBSource(QuerySource):
    name, title, magic = "duckdb", "DuckDB", (8, b"DUCK")
    database_suffixes = (".duckdb", ".ddb")
    list_tables = "SELECT table_schema AS place, table_name AS name FROM information_schema.tables"

    def write_result(self, file: FoundFile) -> Path:
        import duckdb

        config: dict[str, Any] = {"enable_external_access": False, "autoload_known_extensions": False}
        with closing(duckdb.connect(str(file.path), read_only=True, config=config)) as connection:
            return self.write_reader(connection.sql(self.sql).to_arrow_reader(ROWS))


SOURCE = DuckDBSource
