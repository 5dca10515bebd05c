"""Compare incremental runs on a growing graph with full runs of the fastest engine.

    python -m benchmarks.growth [--scale 1] [--parts 4,16] [--rounds 3] [--steps 10] [--folder DIR]

The graph is that of `benchmarks.growing_graph`. It is partitioned, then grows by 1, 5 and 20 % of its nodes
and edges; each time the stage ``partition`` runs with ``--previous`` and without, alternately, each in its
own process. Seconds are those in the record of the stage, without the start of the process and ``prepare``,
which both need. Then it grows ten times by 5 %, each time from the previous partitions, with a full run for
comparison. Results go to ``benchmarks/results/growth.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import copy
import json
import shutil
import sys
import tempfile
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks.growing_graph import GrowingGraph
from benchmarks.growth_page import page
from benchmarks.processes import machine, measure
from partition_ops.artifacts import layout
from partition_ops.artifacts.graph_counts import node_counts_of_graph, spread_old_values
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.incremental.previous_run import PreviousAssignment
from partition_ops.stages.partition.multilevel.graph import Graph, edge_cut
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Problem
from partition_ops.storage import open_store

GROWTHS = (1, 5, 20)
STEP = 5
ENGINE = "auto"
CLI = [sys.executable, "-m", "partition_ops.cli"]


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def partition_stage(
    graph: Path, run: Path, num_parts: int, previous: Path | None, seed: int = 0
) -> dict[str, Any]:
    """Run the stage in its own process on a prepared graph: seconds, edge cut, imbalance, nodes moved.

    The seconds are those of the stage; those of all processors, ``cpu``, are those of the whole process.
    """
    (run / layout.record("partition")).unlink(missing_ok=True)
    command = [*CLI, "partition", str(graph), "--output", str(run), "--num-parts", str(num_parts), "--json"]
    follow = ["--previous", str(previous)] if previous else []
    cost = measure([*command, "--engine", ENGINE, "--seed", str(seed), *follow])
    result = json.loads(cost.output)
    counters = result["counters"]
    sidecar = json.loads((run / layout.ASSIGNMENT / layout.ASSIGNMENT_SIDECAR).read_text())
    found = {
        "seconds": result["seconds"],
        "cpu": cost.cpu,
        "peak": cost.peak,
        "edge_cut": sidecar["edge_cut"]["fraction"],
        "imbalance": _imbalance(graph, run, num_parts),
    }
    if previous:
        found |= {"mode": counters["mode"], "moved": counters["moved"] / counters["old"]}
    return found


def _imbalance(graph: Path, run: Path, num_parts: int) -> float:
    """Return the imbalance of the worst node type."""
    folder = run / layout.ASSIGNMENT
    names = load_metadata(open_store(str(graph))).node_types
    sizes = [np.bincount(np.load(folder / layout.assignment_binary(n)), minlength=num_parts) for n in names]
    return max(float(counts.max() * num_parts / counts.sum()) for counts in sizes)


def both_ways(graph: Path, previous: Path, num_parts: int, rounds: int, seed: int = 0) -> dict[str, Any]:
    """Run incremental and full runs alternately; return medians of the seconds."""
    found: dict[str, list[dict[str, Any]]] = {"full": [], "incremental": []}
    with tempfile.TemporaryDirectory(dir=graph.parent) as folder:
        measure([*CLI, "prepare", str(graph), "--output", folder])
        for _ in range(rounds):
            for way, before in (("full", None), ("incremental", previous)):
                found[way].append(partition_stage(graph, Path(folder), num_parts, before, seed))
    return {
        way: {**results[-1], **{key: median(one[key] for one in results) for key in ("seconds", "cpu")}}
        for way, results in found.items()
    }


def growths(args: argparse.Namespace, base: GrowingGraph) -> dict[str, Any]:
    """Return the results of both by number of partitions and percent of growth."""
    graphs = {}
    for percent in GROWTHS:
        say(f"growing by {percent} %")
        grown = copy.deepcopy(base)
        grown.grow(percent / 100)
        graphs[percent] = grown.write(args.folder / f"grown-{percent}", before=args.folder / "base")
    found: dict[str, Any] = {}
    for parts in args.parts:
        previous = args.folder / f"base-{parts}"
        say(f"the graph before, in {parts} partitions")
        command = [*CLI, "run", str(args.folder / "base"), str(previous), "--num-parts", str(parts)]
        measure([*command, "--engine", ENGINE])
        found[str(parts)] = {}
        for percent in GROWTHS:
            say(f"{parts} partitions, {percent} %")
            found[str(parts)][str(percent)] = both_ways(graphs[percent], previous, parts, args.rounds)
        shutil.rmtree(previous)
    return found


def successive(args: argparse.Namespace, graph: GrowingGraph) -> dict[str, Any]:
    """Grow several times, each from the previous partitions; return the cut and that of a full run."""
    found: dict[str, list[dict[str, float]]] = {str(parts): [] for parts in args.parts}
    state: dict[int, Any] = {}
    before: Path | None = None
    for step in range(args.steps + 1):
        if step:
            graph.grow(STEP / 100)
        folder = graph.write(args.folder / f"step-{step}", before=before)
        with tempfile.TemporaryDirectory(dir=args.folder) as run:
            measure([*CLI, "prepare", str(folder), "--output", run])
            for parts in args.parts:
                say(f"step {step}, {parts} partitions")
                one = _step(folder, Path(run), parts, state)
                found[str(parts)] += [one] if step else []
        if before is not None:
            shutil.rmtree(before)
        before = folder
    return found


def _step(folder: Path, run: Path, parts: int, state: dict[int, Any]) -> dict[str, float]:
    source = open_store(str(folder))
    metadata = load_metadata(source)
    problem = Problem(PartitionConfig(num_parts=parts), metadata, open_store(str(run)), source)
    graph, now = Graph.of_input(problem.graph), node_counts_of_graph(metadata)
    full = find_engine(ENGINE).partition(problem)
    degrees = np.diff(graph.offsets).astype(np.int32)
    if parts not in state:
        state[parts] = now, full, degrees
        return {}
    counts, old, old_degrees = state[parts]
    homes = spread_old_values(counts, now, old, -1)
    previous = PreviousAssignment(homes, spread_old_values(counts, now, old_degrees, -1))
    incremental = next(find_engine(ENGINE).follow(problem, previous), None)
    if incremental is None:
        raise RuntimeError("balance could not be kept")
    state[parts] = now, incremental, degrees
    cuts = [edge_cut(graph, one).fraction for one in (incremental, full)]
    moved = np.count_nonzero((homes >= 0) & (homes != incremental)) / len(old)
    return {"edge_cut": cuts[0], "full": cuts[1], "moved": float(moved)}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--parts", type=lambda text: [int(one) for one in text.split(",")], default=[4, 16])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--folder", type=Path, help="folder of the graphs (default: a temporary one)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=args.folder) as folder:
        args.folder = Path(folder)
        say("drawing the graph")
        base = GrowingGraph.drawn(args.scale)
        base.write(args.folder / "base")
        results: dict[str, Any] = {
            "command": "python -m benchmarks.growth",
            "machine": machine(),
            "scale": args.scale,
            "rounds": args.rounds,
            "engine": ENGINE,
            "growths": growths(args, base),
            "successive": successive(args, base),
        }
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "growth.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.output / "growth.md").write_text(page(results))
    print(page(results), end="")


if __name__ == "__main__":
    main()
