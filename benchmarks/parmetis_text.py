"""Write and read ParMETIS's text, and compare the writing with pyarrow.

    python -m benchmarks.parmetis_text [--scale 1] [--times 3] [--graph FOLDER] [--output FILE.json]

Writing: ``prepare --format parmetis`` beside pyarrow alone writing a CSV of the same columns. Ours reads the
chunks twice, searches for duplicates and writes nodes, edges and statistics, in its own process, start
included. pyarrow writes columns that are in memory, and only this is timed.

Reading: ``convert-partition``, to all files that DGL loads, in a process of its own. Our ``pm-dglpart`` on
two ranks makes four partitions, which is not timed.

The graph is that of `benchmarks.mag_graph`, generated unless ``--graph`` names it. Prints medians and their
ratios as JSON.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pa_csv

from benchmarks.mag_graph import Shape, write_graph
from benchmarks.processes import machine, measure, median
from partition_ops.stages.partition.mpi.mpirun import mpi_environment, mpirun_command
from partition_ops.stages.partition.mpi.options import MpiOptions

OURS = [sys.executable, "-m", "partition_ops.cli"]
PARTS, RANKS = 4, 2

NAMES = {"nodes": [f"column{i}" for i in range(6)], "edges": ["src", "dst", "id", "type"]}


def load(folder: Path) -> dict[str, pa.Table]:
    """Return the written columns in memory, for each of the four node types."""
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
    """Return the seconds that pyarrow needs to write the tables."""
    options = pa_csv.WriteOptions(include_header=False, delimiter=" ", quoting_style="none")
    began = time.monotonic()
    for kind, table in tables.items():
        pa_csv.write_csv(table, str(folder / f"{kind}.csv"), options)
    return time.monotonic() - began


def measure_writing(graph: Path, root: Path, times: int) -> dict[str, Any]:
    command = [*OURS, "prepare", str(graph), "--format", "parmetis", "--output"]
    ours = median([measure([*command, str(root / f"out{i}")]) for i in range(times)])
    tables = load(root / "out0" / "prepare")
    theirs = statistics.median(write_with_pyarrow(tables, root) for _ in range(times))
    ratio = {"speed_over_pyarrow": round(theirs / ours.wall, 3), "wanted": 1 / 3}
    return {"ours": ours.to_json(), "pyarrow_seconds": theirs, **ratio}


def measure_reading(graph: Path, root: Path, times: int) -> dict[str, Any]:
    """Measure reading of the text of `measure_writing`."""
    text, schema = root / "out0" / "prepare", str(root / "schema.json")
    stats = next(text.glob("*_stats.txt"))
    name, weights = stats.name.removesuffix("_stats.txt"), stats.read_text().split()[2]
    partition = [*mpirun_command(MpiOptions(ranks=RANKS)), *OURS, "pm-dglpart", name, str(PARTS // RANKS)]
    environment = {**mpi_environment(), "PYTHONPATH": str(Path.cwd())}
    subprocess.run(partition, cwd=text, env=environment, check=True, stdout=subprocess.DEVNULL)
    measure([*OURS, "schema", str(graph), "--output", schema])
    arguments = ["--input-dir", str(text), "--graph-name", name, "--schema", schema]
    arguments += ["--num-parts", str(PARTS), "--num-node-weights", weights, "--output"]
    found = []
    for i in range(times):
        found.append(measure([*OURS, "convert-partition", *arguments, str(root / f"ours{i}")]))
        shutil.rmtree(root / f"ours{i}")
    return {"ours": median(found).to_json()}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1)
    parser.add_argument("--times", type=int, default=3)
    parser.add_argument("--graph", type=Path, help="an existing graph of the scale --scale")
    parser.add_argument("--output", type=Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        root = Path(scratch)
        graph = arguments.graph or root / "graph"
        if arguments.graph is None:
            write_graph(graph, Shape(scale=arguments.scale))
        figures = {
            "scale": arguments.scale,
            "machine": machine(),
            "writing": measure_writing(graph, root, arguments.times),
            "reading": measure_reading(graph, root, arguments.times),
        }
    text = json.dumps(figures, indent=2) + "\n"
    print(text, end="")
    if arguments.output is not None:
        arguments.output.write_text(text)


if __name__ == "__main__":
    main()
