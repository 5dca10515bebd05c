"""`ingest` and GraphStorm's graph construction on the same tables with text keys, side by side.

    python -m benchmarks.ingest FOLDER [--scale 1] [--memory 4G] [--graphstorm PYTHON] [--rounds 1]

The tables are those of `benchmarks.mag_graph`: ogbn-mag's counts of nodes and edges (1.9 million nodes and 19
million edges at scale 1), 128 features of every paper as lists of float32, keys such as ``P448394750123`` in
an order of their own. Edges are drawn a slice at a time, so some are there twice. The tables are written to
FOLDER/tables once.

``--graphstorm`` names a Python in which graphstorm 0.5.1 can be imported from; see
`benchmarks.ingest_graphstorm` for what it runs. It keeps all results in memory and writes only the ID maps;
`ingest` writes the whole graph. Prints a JSON object with seconds and peak memory of each, and whether the
anonymous memory of `ingest` was within ``--memory``: pages of files that it has mapped are not part of that,
because the system drops them when memory is short.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.mag_graph import EDGES, FEATURES, NODES, EdgeDraws, Ids, Shape, draw_communities
from benchmarks.processes import Cost, machine, measure, median
from partition_ops.options.values import parse_size

PRIME, FACTOR = 999_999_999_989, 1_640_531  # multiplication by a factor permutes the numbers below a prime
FILES = 4
SLICE = 1 << 21  # rows in memory at a time
GRAPH = """\
graph_name: mag
nodes:
  author: {table: 'author-*.parquet', key: id}
  field_of_study: {table: 'field_of_study-*.parquet', key: id}
  institution: {table: 'institution-*.parquet', key: id}
  paper: {table: 'paper-*.parquet', key: id, features: {feat: }}
edges:
"""


def keys(node_type: str, ids: Ids) -> pa.Array:
    """Return the keys of nodes: text whose order is not that of the IDs."""
    numbers = pa.array(ids * FACTOR % PRIME).cast(pa.string())
    return pc.binary_join_element_wise(node_type[0].upper(), numbers, "")


def write_tables(folder: Path, scale: float) -> None:
    """Write the tables and their ``graph.yaml``; peak memory: 32 bytes a node, and 1 GB."""
    folder.mkdir(parents=True)
    rng = np.random.default_rng(0)
    shape = Shape(scale)
    communities = draw_communities(rng, shape)
    for node_type in NODES:
        ids = rng.permutation(shape.nodes(node_type))
        for index, part in enumerate(np.array_split(ids, FILES)):
            with _Writer(folder / f"{node_type}-{index}.parquet") as writer:
                for begin in range(0, max(len(part), 1), SLICE // 8):
                    rows = part[begin : begin + SLICE // 8]
                    columns = {"id": keys(node_type, rows)}
                    if node_type == "paper":
                        values = rng.standard_normal(len(rows) * FEATURES, dtype=np.float32)
                        columns["feat"] = pa.FixedSizeListArray.from_arrays(pa.array(values), FEATURES)
                    writer.write(pa.table(columns))
    lines = []
    for edge_type in EDGES:
        src_type, relation, dst_type = edge_type.split(":")
        draws = EdgeDraws(communities[src_type], communities[dst_type])
        ends = [shape.edges(edge_type) * (index + 1) // FILES for index in range(FILES)]
        for index, (begin, end) in enumerate(pairwise([0, *ends])):
            with _Writer(folder / f"{relation}-{index}.parquet") as writer:
                for first in range(begin, max(end, begin + 1), SLICE):
                    src, dst = draws.draw(rng, min(SLICE, end - first))
                    writer.write(pa.table({"src": keys(src_type, src), "dst": keys(dst_type, dst)}))
        lines.append(f"  {edge_type}: {{table: '{relation}-*.parquet', src: src, dst: dst}}\n")
    (folder / "graph.yaml").write_text(GRAPH + "".join(lines))


class _Writer:
    """Writes a Parquet file by tables."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.file: pq.ParquetWriter | None = None

    def __enter__(self) -> _Writer:
        return self

    def __exit__(self, *error: object) -> None:
        if self.file is not None:
            self.file.close()

    def write(self, table: pa.Table) -> None:
        self.file = self.file or pq.ParquetWriter(self.path, table.schema)
        self.file.write_table(table)


def run_ingest(folder: Path, memory: str) -> Cost:
    """Ingest the tables into a new folder."""
    output = folder / "graph"
    shutil.rmtree(output, ignore_errors=True)
    tables = str(folder / "tables" / "graph.yaml")
    command = ["-m", "partition_ops.cli", "ingest", tables, str(output), "--memory", memory, "--json"]
    return measure([sys.executable, *command])


def run_graphstorm(folder: Path, python: str) -> Cost:
    """Build ID maps, edges and features with GraphStorm's functions."""
    output = folder / "graphstorm"
    shutil.rmtree(output, ignore_errors=True)
    return measure([python, "-m", "benchmarks.ingest_graphstorm", str(folder / "tables"), str(output)])


def compare(folder: Path, *, memory: str, graphstorm: str | None, rounds: int) -> dict[str, Any]:
    """Run both in turn, ``rounds`` times, and return the medians."""
    costs: dict[str, list[Cost]] = {"ingest": [], "graphstorm": []}
    for _ in range(rounds):
        if graphstorm is not None:
            costs["graphstorm"].append(run_graphstorm(folder, graphstorm))
        costs["ingest"].append(run_ingest(folder, memory))
    found = {name: median(several).to_json() for name, several in costs.items() if several}
    found["within_memory"] = found["ingest"]["anonymous"] <= parse_size(memory)
    if graphstorm is not None:
        found["speedup"] = round(found["graphstorm"]["wall"] / found["ingest"]["wall"], 2)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--memory", default="4G")
    parser.add_argument("--graphstorm", metavar="PYTHON")
    parser.add_argument("--rounds", type=int, default=1)
    args = parser.parse_args()
    if not (args.folder / "tables" / "graph.yaml").exists():
        shutil.rmtree(args.folder / "tables", ignore_errors=True)
        write_tables(args.folder / "tables", args.scale)
    found = compare(args.folder, memory=args.memory, graphstorm=args.graphstorm, rounds=args.rounds)
    print(
        json.dumps(
            {**machine(), "load": os.getloadavg(), "scale": args.scale, "memory": args.memory, **found},
            indent=2,
        )
    )


if __name__ == "__main__":
    main()
