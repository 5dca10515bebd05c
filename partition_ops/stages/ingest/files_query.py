"""Queries on files, which can read the files that they name and nothing else."""

from __future__ import annotations

import re
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from partition_ops.stages.ingest.engines import literal, parquet, quoted
from partition_ops.stages.ingest.graph_file import IN_QUERY
from partition_ops.stages.ingest.table_source import ROWS, FoundFile, QuerySource


@dataclass
class FilesQuery(QuerySource):
    """A query on files: each path behind FROM or JOIN is a table."""

    name, title = "files", "queries on files"
    # by path, the Parquet files of the table
    tables: dict[str, tuple[Path, ...]] = field(default_factory=dict)
    # the columns of these tables for which ``types`` says something
    typed: set[str] = field(default_factory=set)

    def write_result(self, file: FoundFile) -> Path:
        import duckdb

        names = {path: quoted(f"files {index}") for index, path in enumerate(self.tables)}
        paths = [str(path) for one in self.tables.values() for path in one]

        def named(found: re.Match[str]) -> str:
            begin, path = found[0][: -len(found[1]) - 2], found[1].replace("''", "'")
            return begin + names[path]

        spilled = self.scratch / "spilled"
        config: dict[str, Any] = {
            "autoload_known_extensions": False,
            "memory_limit": f"{self.duckdb.memory.engine >> 20}MiB",
            "temp_directory": str(spilled),
            "threads": self.duckdb.memory.threads,
        }
        with closing(duckdb.connect(":memory:", config=config)) as connection:
            for path, name in names.items():
                connection.execute(f"CREATE VIEW {name} AS SELECT * FROM {parquet(self.tables[path])}")
            connection.execute(f"SET allowed_paths = [{', '.join(map(literal, paths))}]")
            connection.execute(f"SET allowed_directories = [{literal(str(spilled))}]")
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute("SET enable_external_access = false")
            connection.execute("SET lock_configuration = true")
            return self.write_reader(connection.sql(IN_QUERY.sub(named, self.sql)).to_arrow_reader(ROWS))
