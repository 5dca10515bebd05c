"""The core of `ingest` as queries of DuckDB and of Polars, on the tables of `benchmarks.ingest`.

    python -m benchmarks.ingest_engines FOLDER/tables duckdb|polars

Numbers the keys of every node type, joins the ends of every edge type with them, sorts the edges and writes
them as Parquet. Prints a JSON object with the seconds and the peak memory of the process.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from benchmarks.mag_graph import EDGES, NODES
from partition_ops.system.memory import peak_memory

MEMORY = "2GB"


def with_duckdb(tables: Path, output: Path) -> None:
    import duckdb

    settings = {"memory_limit": MEMORY, "temp_directory": str(output / "spilled")}
    with duckdb.connect(str(output / "all.duckdb"), config=settings) as connection:
        for name in NODES:
            distinct = f"SELECT DISTINCT id AS key FROM read_parquet('{tables}/{name}-*.parquet')"
            number = "row_number() OVER (ORDER BY key) - 1 AS number"
            connection.execute(f"CREATE TABLE {name} AS SELECT key, {number} FROM ({distinct})")
        for name in EDGES:
            src, relation, dst = name.split(":")
            connection.execute(
                f"COPY (SELECT s.number AS src, d.number AS dst"
                f" FROM read_parquet('{tables}/{relation}-*.parquet') AS e"
                f" LEFT JOIN {src} AS s ON e.src = s.key LEFT JOIN {dst} AS d ON e.dst = d.key"
                f" ORDER BY 1, 2) TO '{output}/{relation}.parquet'"
            )


def with_polars(tables: Path, output: Path) -> None:
    import polars as pl

    keys = {}
    for name in NODES:
        distinct = pl.scan_parquet(f"{tables}/{name}-*.parquet").select(key="id").unique()
        keys[name] = distinct.sort("key").with_row_index("number").collect(engine="streaming").lazy()
    for name in EDGES:
        src, relation, dst = name.split(":")
        edges = pl.scan_parquet(f"{tables}/{relation}-*.parquet").rename({"src": "src_key"})
        edges = edges.join(keys[src], left_on="src_key", right_on="key", how="left")
        edges = edges.rename({"number": "src", "dst": "dst_key"})
        edges = edges.join(keys[dst], left_on="dst_key", right_on="key", how="left")
        edges.select("src", dst="number").sort("src", "dst").sink_parquet(output / f"{relation}.parquet")


def main() -> None:
    tables, engine = Path(sys.argv[1]), sys.argv[2]
    with tempfile.TemporaryDirectory() as output:
        began = time.monotonic()
        {"duckdb": with_duckdb, "polars": with_polars}[engine](tables, Path(output))
        seconds = round(time.monotonic() - began, 2)
    cpu = round(time.process_time(), 2)
    print(json.dumps({"engine": engine, "seconds": seconds, "cpu": cpu, "peak": peak_memory()}))


if __name__ == "__main__":
    main()
