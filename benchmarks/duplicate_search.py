"""Read the edges of a graph with other libraries, or count duplicates among them.

    python -m benchmarks.duplicate_search pyarrow|pandas|duckdb|polars GRAPH

``pyarrow`` only reads and converts, on all cores. The others count only the edges that repeat an earlier one
of their type. Prints the seconds after the imports and the count, as JSON.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

COLUMNS = ["src", "dst"]


@dataclass(frozen=True)
class EdgeFiles:
    """The files of one edge type."""

    format: str
    delimiter: str
    paths: list[str]


def edge_types(graph: Path) -> Iterator[EdgeFiles]:
    """Return the edge types in ``metadata.json``; CSV files have no header."""
    for spec in json.loads((graph / "metadata.json").read_text())["edges"].values():
        paths = [str(graph / key) for key in spec["data"]]
        yield EdgeFiles(spec["format"]["name"], spec["format"].get("delimiter", " "), paths)


class PyArrow:
    """Read and convert the edges; count rows."""

    def __init__(self) -> None:
        import pyarrow
        import pyarrow.csv
        import pyarrow.parquet

        self.arrow = pyarrow

    def count(self, files: EdgeFiles) -> int:
        with ThreadPoolExecutor() as pool:
            return sum(pool.map(lambda path: self._read(path, files), files.paths))

    def _read(self, path: str, files: EdgeFiles) -> int:
        if files.format == "parquet":
            return int(self.arrow.parquet.read_table(path).num_rows)
        csv = self.arrow.csv
        return int(
            csv.read_csv(
                path,
                read_options=csv.ReadOptions(column_names=COLUMNS),
                parse_options=csv.ParseOptions(delimiter=files.delimiter),
                convert_options=csv.ConvertOptions(column_types=dict.fromkeys(COLUMNS, self.arrow.int64())),
            ).num_rows
        )


class Pandas:
    """``DataFrame.duplicated``, on files read by its fastest engine."""

    def __init__(self) -> None:
        import pandas

        self.pandas = pandas

    def count(self, files: EdgeFiles) -> int:
        pd = self.pandas
        options: dict[str, Any] = {"sep": files.delimiter, "names": COLUMNS, "engine": "pyarrow"}
        read = pd.read_parquet if files.format == "parquet" else lambda path: pd.read_csv(path, **options)
        return int(pd.concat([read(path) for path in files.paths]).duplicated().sum())


class DuckDB:
    """Group by both ends."""

    def __init__(self) -> None:
        import duckdb

        self.duckdb = duckdb

    def count(self, files: EdgeFiles) -> int:
        columns = "{'src': 'BIGINT', 'dst': 'BIGINT'}"
        csv = f"read_csv({files.paths}, delim='{files.delimiter}', header=false, columns={columns})"
        table = f"read_parquet({files.paths})" if files.format == "parquet" else csv
        groups = f"select count(*) as n from {table} group by src, dst"
        found = self.duckdb.sql(f"select coalesce(sum(n - 1), 0) from ({groups}) where n > 1").fetchall()
        return int(found[0][0])


class Polars:
    """Group by both ends, with the streaming engine."""

    def __init__(self) -> None:
        import polars

        self.polars = polars

    def count(self, files: EdgeFiles) -> int:
        pl = self.polars
        options: dict[str, Any] = {"separator": files.delimiter, "has_header": False, "new_columns": COLUMNS}
        parquet = files.format == "parquet"
        frame = pl.scan_parquet(files.paths) if parquet else pl.scan_csv(files.paths, **options)
        again = frame.group_by(COLUMNS).len().select((pl.col("len") - 1).sum())
        return int(again.collect(engine="streaming").item())


LIBRARIES: dict[str, Any] = {"pyarrow": PyArrow, "pandas": Pandas, "duckdb": DuckDB, "polars": Polars}


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("library", choices=LIBRARIES)
    parser.add_argument("graph", type=Path)
    args = parser.parse_args()
    library = LIBRARIES[args.library]()
    began = time.monotonic()
    counts = [library.count(files) for files in edge_types(args.graph)]
    print(json.dumps({"seconds": time.monotonic() - began, "counts": counts}))


if __name__ == "__main__":
    main()
