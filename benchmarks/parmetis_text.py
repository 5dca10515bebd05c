"""How fast ``prepare --format parmetis`` writes, beside pyarrow alone writing a CSV of the same columns.

    python -m benchmarks.parmetis_text [--scale 0.2] [--times 3]

Both write the graph of `benchmarks.mag_graph`. Ours reads the chunks twice, looks for duplicates and writes
nodes, edges and statistics, in a process of its own, its start included; pyarrow has the columns in memory
and writes them, and only that is timed. Prints the seconds and their ratio as JSON.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.csv as pa_csv

from benchmarks.mag_graph import Shape, write_graph
from benchmarks.processes import machine, measure, median

NAMES = {"nodes": [f"column{i}" for i in range(6)], "edges": ["src", "dst", "id", "type"]}


def load(folder: Path) -> dict[str, pa.Table]:
    """The columns that were written, in memory; one for each of the four node types."""
    parse = pa_csv.ParseOptions(delimiter=" ")
    return {
        kind: pa_csv.read_csv(
            next(path for path in folder.glob(f"*_{kind}.txt") if "removed" not in path.name),
            read_options=pa_csv.ReadOptions(column_names=names),
            parse_options=parse,
        )
        for kind, names in NAMES.items()
    }


def write_with_pyarrow(tables: dict[str, pa.Table], folder: Path) -> float:
    """Seconds that pyarrow takes to write the tables."""
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    began = time.monotonic()
    for kind, table in tables.items():
        pa_csv.write_csv(table, str(folder / f"{kind}.csv"), options)
    return time.monotonic() - began


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=0.2)
    parser.add_argument("--times", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        write_graph(root / "graph", Shape(scale=arguments.scale))
        command = [sys.executable, "-m", "partition_ops.cli", "prepare", str(root / "graph")]
        options = ["--format", "parmetis", "--output"]
        ours = median([measure([*command, *options, str(root / f"out{i}")]) for i in range(arguments.times)])
        tables = load(root / "out0" / "prepare")
        theirs = statistics.median(write_with_pyarrow(tables, root) for _ in range(arguments.times))
    ratio = {"speed_over_pyarrow": round(theirs / ours.wall, 3), "wanted": 1 / 3}
    figures = {"ours": ours.to_json(), "pyarrow_seconds": theirs, **ratio}
    print(json.dumps({"scale": arguments.scale, "machine": machine(), **figures}, indent=2))


if __name__ == "__main__":
    main()
