"""The engines that join and sort tables: `DuckDB`, and `Spark` for tables that outgrow a machine.

Queries are Ibis expressions over Parquet files; each engine runs the SQL that Ibis makes of them.
"""

from __future__ import annotations

import os
import re
import shutil
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ibis
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.errors import InvalidInputError, PartitionOpsError, StorageError, UsageError
from partition_ops.stages.ingest.patterns import escaped, is_pattern
from partition_ops.system.memory import memory_limit
from partition_ops.system.temporary_folders import full_disk

BATCH = 1 << 14  # rows
TYPES = {  # of graph.yaml, in DuckDB's words
    "text": "VARCHAR",
    "int64": "BIGINT",
    "float64": "DOUBLE",
    "bool": "BOOLEAN",
    "date": "DATE",
    "timestamp": "TIMESTAMP",
}
FILE_INDEX, ROW_INDEX = "file index", "row index"  # columns beside those of a table
ROW_ID, ROW_KEY = "id of row", "key of row"
OF_DUCKDB = {"filename", "file_index", "file_row_number"}  # it gives Parquet files these columns itself
RESERVED = {FILE_INDEX, ROW_INDEX, ROW_ID, ROW_KEY, *OF_DUCKDB}
STAGED_ROWS = 1 << 15  # in a row group: each thread has one in memory
SPARK_SQL = {
    "spark.sql.caseSensitive": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.parquet.inferTimestampNTZ.enabled": "true",
}
LEAST_MEMORY = 512 << 20
PROCESS = 128 << 20  # Python and its libraries
BLOCK_SHARE, LEAST_BLOCK, MOST_BLOCK = 32, 16 << 20, 64 << 20
BLOCKS = 9  # of rows at a time, of nodes and edges: as they came, ordered, as features, and as they go
ENGINE_SHARE = 0.75  # of the rest; DuckDB needs more than its limit, because it does not count everything
ENGINE_THREAD = 96 << 20  # least memory of each thread of the engine


@dataclass(frozen=True)
class MemoryShares:
    """Shares of the memory of this process, in bytes."""

    total: int  # all of it

    @property
    def block(self) -> int:
        """Rows in memory at a time."""
        return min(max(self.total // BLOCK_SHARE, LEAST_BLOCK), MOST_BLOCK)

    @property
    def engine(self) -> int:
        """The limit of the engine."""
        return int((self.total - PROCESS - BLOCKS * self.block) * ENGINE_SHARE)

    @property
    def threads(self) -> int:
        """Threads of the engine, fewer than there are processors if memory is short."""
        processors = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
        return max(min(processors, self.engine // ENGINE_THREAD), 1)


def share_memory(memory: int | None) -> MemoryShares:
    """Return the shares of ``--memory``; by default it is a quarter of what the machine or its cgroup allows.

    Raises:
        UsageError: It is less than any table needs.
    """
    if memory is None:
        return MemoryShares(max(memory_limit() // 4, LEAST_MEMORY))
    if memory < LEAST_MEMORY:
        raise UsageError(
            "--memory is too small for tables",
            found=f"{memory / (1 << 20):.0f}M",
            expected=f"{LEAST_MEMORY >> 20}M or more, which ingest needs for tables of any size",
            remedy=f"Set --memory {LEAST_MEMORY >> 20}M, or leave it out.",
        )
    return MemoryShares(memory)


class TableEngine(ABC):
    """Runs Ibis expressions over tables that are Parquet files."""

    def table(self, name: str, files: Sequence[Path], schema: pa.Schema) -> ibis.Table:
        """Register columns of Parquet files as a table, and return it for expressions."""
        self._register(name, files)
        return ibis.table(ibis_types(schema), name=name)

    def one(self, expression: ibis.Table) -> dict[str, Any]:
        """Return the only row of a small result."""
        return self.rows(expression)[0]

    def rows(self, expression: ibis.Table) -> list[dict[str, Any]]:
        """Return a small result."""
        return [row for batch in self.batches(expression) for row in batch.to_pylist()]

    def staged(self, expression: ibis.Table, file: Path) -> ibis.Table:
        """Return a table for expressions, whose rows an engine in this process writes to a file first."""
        return expression

    @abstractmethod
    def batches(self, expression: ibis.Table) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a result, in its order if it has one."""

    @abstractmethod
    def close(self) -> None:
        """Give back memory and temporary files."""

    @abstractmethod
    def _register(self, name: str, files: Sequence[Path]) -> None: ...


class DuckDB(TableEngine):
    """DuckDB in this process; what does not fit into its memory goes to temporary files."""

    def __init__(self, scratch: Path, memory: MemoryShares) -> None:
        import duckdb

        self.memory = memory
        self.errors = duckdb.Error
        self.defects = (duckdb.BinderException, duckdb.CatalogException, duckdb.ParserException)  # of queries
        self._duckdb = duckdb
        config: dict[str, Any] = {
            "memory_limit": f"{memory.engine >> 20}MiB",
            "temp_directory": str(scratch / "spilled"),
            "threads": memory.threads,
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
        }
        with self._explained():
            self.connection = duckdb.connect(str(scratch / "tables.duckdb"), config=config)
            self.connection.execute("SET GLOBAL TimeZone = 'UTC'")
            self.connection.execute("SET GLOBAL preserve_insertion_order = false")

    def _register(self, name: str, files: Sequence[Path]) -> None:
        self.connection.execute(f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT * FROM {parquet(files)}")

    def indexed(self, name: str, files: Sequence[Path], schema: pa.Schema) -> ibis.Table:
        """Register Parquet files as a table with `FILE_INDEX` and `ROW_INDEX`, from 0, beside its columns."""
        self.connection.execute(
            f"CREATE OR REPLACE VIEW {quoted(name)} AS SELECT *, file_index AS {quoted(FILE_INDEX)},"
            f" file_row_number AS {quoted(ROW_INDEX)} FROM {parquet(files)}"
        )
        types = {**ibis_types(schema), FILE_INDEX: "int64", ROW_INDEX: "int64"}
        return ibis.table(types, name=name)

    def batches(self, expression: ibis.Table) -> Iterator[pa.RecordBatch]:
        sql = ibis.to_sql(expression, dialect="duckdb")
        with self._explained():
            yield from self.connection.cursor().sql(sql).to_arrow_reader(BATCH)

    def staged(self, expression: ibis.Table, file: Path) -> ibis.Table:
        """Write rows in any order to a Parquet file, so that one join is in memory at a time."""
        rows = ibis.to_sql(expression, dialect="duckdb")
        options = f"FORMAT parquet, COMPRESSION lz4_raw, ROW_GROUP_SIZE {STAGED_ROWS}"
        self.query(f"COPY ({rows}) TO {literal(str(file))} ({options})")
        name = f"staged_{file.stem}"
        self._register(name, [file])
        return ibis.table(expression.schema(), name=name)

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        """Return the rows of a small result of DuckDB's own SQL."""
        with self._explained():
            result = self.connection.cursor().execute(sql)  # another thread may be reading a result
            return list(result.fetchall()) if result.description else []

    def close(self) -> None:
        self.connection.close()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        """Replace errors for want of memory or disk."""
        try:
            yield
        except (self._duckdb.OutOfMemoryException, self._duckdb.IOException, OSError) as error:
            if (full := full_disk(error)) is not None:
                raise full from error
            text = str(error)
            if not isinstance(error, self._duckdb.OutOfMemoryException) and "Out of Memory Error" not in text:
                raise  # through Arrow's stream, an OSError may be about memory
            memory, disk = self.memory.total >> 20, "temp_directory" in text
            raise StorageError(
                f"{'Temporary disk space' if disk else 'Memory'} for joining and sorting the tables ran out",
                found=text.splitlines()[0],
                remedy="Set TMPDIR to a larger disk."
                if disk
                else f"Set --memory {2 * memory}M; it is {memory}M, which is too little.",
            ) from error


class Spark(TableEngine):
    """PySpark: a cluster, or processes of this machine.

    Results are sorted by the executors and written to a folder below ``scratch``, which all of them and this
    process must see; from there they are read in order. A session that is active already is used as it is.

    Args:
        scratch: Folder for results.
        memory: The shares of memory; the driver gets all of it.
    """

    def __init__(self, scratch: Path, memory: MemoryShares) -> None:
        from pyspark.sql import SparkSession

        self.scratch = scratch
        self._results = 0
        _set_ibis_options()
        session = SparkSession.builder.appName("partition-ops ingest")
        master = os.environ.get("SPARK_MASTER", "local[*]")
        settings = {
            "spark.ui.enabled": "false",
            "spark.driver.memory": f"{max(memory.total, 1 << 30) >> 20}m",
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
        paths = [str(file.resolve()) for file in files]
        odd = next((path for path in paths if re.search(r"[*?\[\]{}\\\\]", path)), None)
        if odd is not None:
            raise UsageError(
                "Spark takes the path of a file for a pattern",
                found=repr(odd),
                expected="a path without *, ?, [], {} and \\",
                remedy="Rename the folder, set TMPDIR to another one, or use --table-engine duckdb.",
            )
        self.session.read.parquet(*(f"file://{path}" for path in paths)).createOrReplaceTempView(name)

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


def path_literal(path: Path) -> str:
    """Return the path of one file for DuckDB's SQL, which would take ``*``, ``?`` and ``[`` for a pattern.

    Raises:
        InvalidInputError: The path has a backslash too, which cannot be escaped in a pattern.
    """
    text = str(path)
    if not is_pattern(text):
        return literal(text)
    if "\\" in text:
        raise InvalidInputError(
            "DuckDB cannot read a path with a backslash and one of *, ? and [",
            found=repr(text),
            remedy="Rename the file or the folder. If it is a temporary file, set TMPDIR to another folder.",
        )
    return literal(escaped(text))


def literal(text: str) -> str:
    """Return a text for DuckDB's SQL."""
    return "'" + text.replace("'", "''") + "'"


def parquet(files: Sequence[Path]) -> str:
    """Return the table function of DuckDB that reads Parquet files of one schema."""
    names = ", ".join(map(path_literal, files))
    return f"read_parquet([{names}], hive_partitioning = false)"


def plain_type(kind: pa.DataType) -> pa.DataType:
    """Return a type as engines see it."""
    if pa.types.is_dictionary(kind):
        return plain_type(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_fixed_size_list(kind) or pa.types.is_large_list(kind):
        return pa.list_(plain_type(kind.value_type))
    return kind


def ibis_types(schema: pa.Schema, about: str = "") -> dict[str, str]:
    """Return the types of columns in Ibis's words; ``about`` names their table, for messages.

    Raises:
        InvalidInputError: A column has a type that neither a key nor a feature can have.
    """
    return {entry.name: _ibis_type(entry.type, f"{about}the column {entry.name!r}") for entry in schema}


def _ibis_type(kind: pa.DataType, where: str) -> str:
    if pa.types.is_list(kind):
        return f"array<{_ibis_type(kind.value_type, where)}>"
    if pa.types.is_timestamp(kind):
        return "timestamp"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    known = {"bool": "boolean", "float": "float32", "double": "float64", "halffloat": "float16"}
    known |= {"string": "string", "date32[day]": "date", "null": "null"}
    if str(kind) not in known and not pa.types.is_integer(kind):
        raise odd_type(where, str(kind))
    return known.get(str(kind), str(kind))


def odd_type(where: str, found: str | Sequence[str]) -> InvalidInputError:
    """Return the error about a column that can be neither a key nor a feature."""
    return InvalidInputError(
        f"{where} has a type that is neither a key nor a feature",
        found=found,
        expected="numbers, text, booleans, dates, times, or lists of numbers",
        remedy="Set its type with 'types' of the table in graph.yaml.",
    )
