"""The engines that join and sort tables: `DuckDB`, and `Spark` for tables that outgrow a machine.

Queries are Ibis expressions over Parquet files; each engine runs the SQL that Ibis makes of them.
"""

from __future__ import annotations

import os
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.errors import InvalidInputError, PartitionOpsError, StorageError, UsageError

BATCH = 1 << 16  # rows
SPARK_SQL = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
}
LEAST_MEMORY = 256 << 20
SHARE = 0.6  # of the memory for DuckDB; Python, Arrow and what DuckDB does not count take the rest


class TableEngine(ABC):
    """Runs Ibis expressions over tables that are Parquet files."""

    def table(self, name: str, files: Sequence[Path], schema: pa.Schema) -> ibis.Table:
        """Register columns of Parquet files as a table, and return it for expressions."""
        self._register(name, files)
        return ibis.table(ibis_types(schema), name=name)

    def one(self, expression: ibis.Table) -> dict[str, Any]:
        """Return the only row of a small result."""
        rows = self.rows(expression)
        return rows[0]

    def rows(self, expression: ibis.Table) -> list[dict[str, Any]]:
        """Return a small result."""
        return [row for batch in self.batches(expression) for row in batch.to_pylist()]

    @abstractmethod
    def batches(self, expression: ibis.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a result, in its order if it has one."""

    @abstractmethod
    def close(self) -> None:
        """Give back memory and temporary files."""

    @abstractmethod
    def _register(self, name: str, files: Sequence[Path]) -> None: ...


class DuckDB(TableEngine):
    """DuckDB in this process; what does not fit into its memory goes to temporary files.

    Args:
        scratch: Folder for temporary files.
        memory: Memory in bytes, for DuckDB and what this process needs beside it.
    """

    def __init__(self, scratch: Path, memory: int) -> None:
        import duckdb

        limit = max(int(memory * SHARE), LEAST_MEMORY)
        self.errors = duckdb.Error
        self._duckdb = duckdb
        self.connection = duckdb.connect(
            str(scratch / "tables.duckdb"),
            config={
                "memory_limit": f"{limit // (1 << 20)}MiB",
                "temp_directory": str(scratch / "spilled"),
                "threads": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1,
                "autoinstall_known_extensions": False,
                "autoload_known_extensions": False,
            },
        )
        self.connection.execute("SET TimeZone = 'UTC'")
        self.connection.execute("SET preserve_insertion_order = false")

    def _register(self, name: str, files: Sequence[Path]) -> None:
        self.connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT * FROM {parquet(files)}")

    def batches(self, expression: ibis.Table) -> Iterator[pa.RecordBatch]:
        sql = ibis.to_sql(expression, dialect="duckdb")
        with self._explained():
            yield from self.connection.sql(sql).to_arrow_reader(BATCH)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a small result of DuckDB's own SQL."""
        with self._explained():
            result = self.connection.execute(sql)
            return list(result.fetchall()) if result.description else []

    def close(self) -> None:
        self.connection.close()

    def _explained(self) -> _Explained:
        return _Explained(self._duckdb)


class _Explained:
    """Replaces DuckDB's errors for want of memory or disk by ours."""

    def __init__(self, duckdb: Any) -> None:
        self.duckdb = duckdb

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if isinstance(error, self.duckdb.OutOfMemoryException):
            raise StorageError(
                "Memory or temporary disk space for the tables ran out",
                found=str(error).splitlines()[0],
                remedy="Give more with --memory, or set TMPDIR to a larger disk.",
            ) from error


class Spark(TableEngine):
    """PySpark: a cluster, or processes of this machine.

    Results are sorted by the executors and written to a folder below ``scratch``, which all of them and this
    process must see; from there they are read in order. A session that is active already is used as it is.

    Args:
        scratch: Folder for results.
        memory: Memory in bytes for the driver.
    """

    def __init__(self, scratch: Path, memory: int) -> None:
        try:
            from pyspark.sql import SparkSession
        except ImportError as error:
            raise UsageError(
                "--table-engine spark needs PySpark, which is not installed",
                remedy="Install partition-ops[spark], and Java 17 or newer.",
            ) from error
        self.scratch = scratch
        self._results = 0
        _set_ibis_options()
        session = SparkSession.builder.appName("partition-ops ingest")
        master = os.environ.get("SPARK_MASTER", "local[*]")
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": f"{max(memory, 1 << 30) // (1 << 20)}m",
            "spark.ui.showConsoleProgress": "false",
        }
        for name, value in settings.items():
            session = session.config(name, value)
        try:
            self.owned = SparkSession.getActiveSession() is None
            self.session = session.master(master).getOrCreate() if self.owned else SparkSession.active()
        except Exception as error:  # py4j and Java have many
            raise PartitionOpsError(
                f"Spark does not start with SPARK_MASTER={master}",
                found=str(error).splitlines()[0],
                remedy="Check that Java 17 or newer is installed, and that the cluster can be reached.",
            ) from error
        for name in SPARK_SQL:  # also in a session that was there already
            self.session.conf.set(name, SPARK_SQL[name])

    def _register(self, name: str, files: Sequence[Path]) -> None:
        self.session.read.parquet(*(f"file://{file.resolve()}" for file in files)).createOrReplaceTempView(
            name
        )

    def batches(self, expression: ibis.Table) -> Iterator[pa.RecordBatch]:
        folder = self.scratch / f"result{self._results}"
        self._results += 1
        frame = self.session.sql(ibis.to_sql(expression, dialect="pyspark"))
        frame.write.parquet(f"file://{folder.resolve()}")
        for path in sorted(folder.glob("part-*.parquet")):
            with pq.ParquetFile(path) as file:
                yield from file.iter_batches(BATCH)
        shutil.rmtree(folder)

    def close(self) -> None:
        if self.owned:
            self.session.stop()


def _set_ibis_options() -> None:
    """Set the options of Ibis that its compiler for Spark reads, and that only its backend registers."""
    from ibis.config import Config

    class SparkOptions(Config):  # type: ignore[misc]
        treat_nan_as_null: bool = False

    if ibis.options.pyspark is None:
        ibis.options.pyspark = SparkOptions()


ENGINES: dict[str, type[DuckDB] | type[Spark]] = {"duckdb": DuckDB, "spark": Spark}


def quoted(name: str) -> str:
    """Return an identifier for DuckDB's SQL."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """Return a text for DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"


def parquet(files: Sequence[Path], more: str = "") -> str:
    """Return the table function of DuckDB that reads Parquet files of one schema."""
    names = ", ".join(literal(str(file)) for file in files)
    return f"read_parquet([{names}], hive_partitioning = false{more})"


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type as engines see it."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind


def ibis_types(schema: pa.Schema) -> dict[str, str]:
    """Return the types of columns in Ibis's words.

    Raises:
        InvalidInputError: A column has a type that neither a key nor a feature can have.
    """
    return {entry.name: _ibis_type(entry.type, entry.name) for entry in schema}


def _ibis_type(kind: pa.DataType, name: str) -> str:
    if pa.types.is_list(kind):
        return f"array<{_ibis_type(kind.value_type, name)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    known = {"bool": "boolean", "float": "float32", "double": "float64", "halffloat": "float16"}
    known |= {"string": "string", "date32[day]": "date", "null": "null"}
    if str(kind) not in known and not pa.types.is_integer(kind):
        raise InvalidInputError(
            f"The column {name!r} has a type that is neither a key nor a feature",
            found=str(kind),
            expected="numbers, text, booleans, dates, times, or lists of numbers",
            remedy="Set its type with 'types' of the table in graph.yaml.",
        )
    return known.get(str(kind), str(kind))
