"""Compare what trainers are expected to read after `auto`, `metis` and ``partition_graph`` on real graphs.

    python -m benchmarks.expected_traffic [GRAPH …] [--parts 4,8] [--seeds 3] [--share 0.2]

The graphs are those in ``benchmarks/real_graphs``, as they are and with a reverse type for each edge type. A
random share of the nodes of the type with the most in-edges is trained, with fan-outs 10 and 10, and batches
of 1,024. The figures are those of `partition_ops.traffic`: the rows that the slowest trainer is expected to
fetch in an epoch, and the in-edges of the fullest partition over the mean. A ratio is a median over the
seeds, relative to ``partition_graph``, or to `metis` if METIS fails in DGL.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.processes import machine
from benchmarks.real_graph_sources import FOLDER, KEPT, RealGraph
from benchmarks.real_graphs import RESULTS, write_chunked
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import PartitionOpsError
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.stages.partition.training import with_traffic
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store

DGL, MOST_SECONDS = "partition_graph", 300
WAYS: dict[str, dict[str, Any]] = {
    "train": {"objective": "train"},
    "cut": {"objective": "cut"},
    "metis": {"engine": "metis", "objective": "cut"},
}
Figures = dict[str, Any]


def with_reverses(graph: RealGraph) -> RealGraph:
    """Return the graph with a reverse type for each edge type."""
    found = dict(graph.edges)
    for name, pairs in graph.edges.items():
        source, relation, target = name.split(":")
        found[f"{target}:rev_{relation}:{source}"] = np.unique(pairs[:, ::-1], axis=0)
    return replace(graph, name=f"{graph.name}, reversed too", edges=found)


def write(graph: RealGraph, folder: Path, share: float) -> str:
    """Write a graph with a train mask, and prepare it; return the type with train nodes."""
    write_chunked(graph, folder / "graph")
    in_edges = dict.fromkeys(graph.nodes, 0)
    for name, pairs in graph.edges.items():
        in_edges[name.rsplit(":", 1)[1]] += len(pairs)
    trained = max(in_edges, key=lambda name: in_edges[name])
    mask = np.random.default_rng(5).random(graph.nodes[trained]) < share
    np.save(folder / "graph" / "train_mask.npy", mask)
    path = folder / "graph" / "metadata.json"
    document = json.loads(path.read_text())
    spec = {"format": {"name": "numpy"}, "data": ["train_mask.npy"]}
    document["node_data"] = {trained: {"train_mask": spec}}
    path.write_text(json.dumps(document))
    prepare_graph(PrepareConfig(), open_store(str(folder / "graph")), open_store(str(folder / "run")))
    return trained


def problem(folder: Path, num_parts: int, **options: Any) -> Problem:
    source, run = open_store(str(folder / "graph")), open_store(str(folder / "run"))
    return Problem(PartitionConfig(num_parts=num_parts, **options), load_metadata(source), run, source)


def look(judge: Problem, parts: np.ndarray, seconds: float) -> Figures:
    """Return the figures of an assignment, with the model of the traffic of another problem."""
    if judge.traffic is None:
        raise ValueError("no train nodes")
    rows = judge.traffic.about_remote_rows(parts.astype(np.int32), judge.num_parts)
    edges = np.bincount(parts, weights=judge.in_degrees, minlength=judge.num_parts)
    return {
        "slowest": float(rows.max()),
        "sum": float(rows.sum()),
        "fullest": float(edges.max() / edges.mean()),
        "seconds": seconds,
    }


def compare(graph: RealGraph, parts: list[int], seeds: int, share: float) -> list[Figures]:
    """Return a row for each number of partitions."""
    found = []
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        trained = write(graph, folder, share)
        command = [sys.executable, "-m", "benchmarks.real_graphs", "--dgl", ",".join(map(str, parts))]
        with suppress(subprocess.TimeoutExpired):  # METIS may end or block the process
            subprocess.run([*command, str(folder)], stdout=subprocess.DEVNULL, timeout=MOST_SECONDS)
        for num_parts in parts:
            judge = with_traffic(problem(folder, num_parts, objective="train"))
            if judge.traffic is None:
                continue
            row: Figures = {"graph": graph.name, "trained": trained, "parts": num_parts}
            path = folder / f"dgl-{num_parts}.npz"
            if path.exists():
                with np.load(path) as theirs:
                    row[DGL] = [look(judge, theirs["parts"], float(theirs["seconds"]))]
            for name, options in WAYS.items():
                row[name] = [run for seed in range(seeds) if (run := _run(judge, folder, seed, options))]
            print(json.dumps(row), flush=True)
            found.append(row)
    return found


def _run(judge: Problem, folder: Path, seed: int, options: Figures) -> Figures | None:
    began = time.monotonic()
    task = problem(folder, judge.num_parts, seed=seed, **options)
    try:
        task = with_traffic(task) if options["objective"] == "train" else task
        parts = find_engine(task.config.engine).partition(task)
    except PartitionOpsError as error:
        print(f"{options} failed with {judge.num_parts} partitions: {error}", file=sys.stderr)
        return None
    return look(judge, parts, time.monotonic() - began)


def _median(runs: list[Figures], key: str) -> float:
    return float(statistics.median(run[key] for run in runs))


def page(rows: list[Figures], command: str) -> str:
    """Return the results as Markdown."""
    ratios: dict[str, list[float]] = {name: [] for name in WAYS}
    lines = []
    for row in rows:
        base = row.get(DGL) or row["metis"]
        cells = [row["graph"], row["trained"], str(row["parts"]), f"{_median(base, 'slowest'):,.0f}"]
        for name in WAYS:
            least = _median(base, "slowest")
            value = _median(row[name], "slowest") / least if row[name] and least else None
            ratios[name] += [value] if value else []
            cells.append("" if value is None else f"{value:.2f}")
        for runs in (row.get(DGL, []), *(row[name] for name in WAYS)):
            cells.append(f"{_median(runs, 'fullest'):.2f}" if runs else "")
        cells.append(f"{_median(row['train'], 'seconds'):.1f}, {_median(row['cut'], 'seconds'):.1f}")
        lines.append("| " + " | ".join(cells) + " |")
    means = "; ".join(
        f"`{name}` {statistics.geometric_mean(values):.2f} (worst {max(values):.2f})"
        for name, values in ratios.items()
        if values
    )
    head = [
        f"`{command}`: expected rows of the slowest trainer over those of `partition_graph`, geometric mean:"
        f" {means}.",
        "",
        "| graph | trained | parts | rows of the slowest, `partition_graph` | train | cut | metis"
        " | fullest: `partition_graph` | train | cut | metis | seconds: train, cut |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*head, *lines]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"default: all of {', '.join(KEPT)}")
    parser.add_argument("--parts", type=lambda text: [int(one) for one in text.split(",")], default=[4, 8])
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--share", type=float, default=0.2, help="of the nodes of a type that are trained")
    parser.add_argument("--output", type=Path, default=RESULTS)
    args = parser.parse_args()
    rows: list[Figures] = []
    for name in args.graphs or KEPT:
        graph = RealGraph.load(FOLDER / f"{name}.xz")
        for one in (graph, with_reverses(graph)):
            rows += compare(one, args.parts, args.seeds, args.share)
    results = {"machine": machine(), "seeds": args.seeds, "share": args.share, "rows": rows}
    text = page(rows, f"python -m benchmarks.expected_traffic --seeds {args.seeds}")
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "expected_traffic.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.output / "expected_traffic.md").write_text(text)
    print(text, end="")


if __name__ == "__main__":
    main()
