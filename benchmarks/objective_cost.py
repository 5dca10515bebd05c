"""Compare the whole job with ``--objective train`` and with ``--objective cut`` on real graphs.

    python -m benchmarks.objective_cost [GRAPH …] [--parts 4] [--seeds 0,1] [--package CHECKOUT]

The graphs are those of `benchmarks.training_traffic`, with its features, masks and labels. Each job is a
process of its own, start included; processor seconds tell the objectives apart on a busy machine, too. The
rows are those that the slowest trainer is expected to fetch for a batch. Results go to
``benchmarks/results/objective_cost.md``; with ``--package``, another checkout of the project partitions, and
they are printed only.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks.expected_traffic import with_reverses
from benchmarks.processes import machine, measure
from benchmarks.real_graph_sources import KEPT, RealGraph
from benchmarks.real_graphs import RESULTS
from benchmarks.training_traffic import load, write

HERE = Path(__file__).resolve().parents[1]
OBJECTIVES = ("cut", "train")


def job(
    package: Path, graph: Path, output: Path, objective: str, parts: int, seed: int
) -> tuple[float, float]:
    """Return the processor seconds of a job, and the rows of the slowest trainer."""
    options = ["--num-parts", str(parts), "--objective", objective, "--seed", str(seed)]
    command = [sys.executable, "-P", "-m", "partition_ops.cli", "run", str(graph), str(output), *options]
    cost = measure(command, {"PYTHONPATH": str(package)})
    training = json.loads((output / "quality/report.json").read_text())["training"]
    return cost.cpu, training["slowest"]["remote_rows_per_batch"]


def compare(graph: RealGraph, package: Path, parts: int, seeds: list[int]) -> tuple[list[float], list[float]]:
    """Return the mean processor seconds of a job, and the mean rows of the slowest trainer, by objective."""
    found: dict[str, list[tuple[float, float]]] = {objective: [] for objective in OBJECTIVES}
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            write(graph, Path(folder) / "graph", seed)
            for objective in OBJECTIVES:
                places = Path(folder) / "graph", Path(folder) / objective
                found[objective].append(job(package, *places, objective, parts, seed))
    seconds, rows = (
        [statistics.mean(pair[figure] for pair in found[objective]) for objective in OBJECTIVES]
        for figure in (0, 1)
    )
    return seconds, rows


def page(lines: list[str], ratios: list[float], parts: int, seeds: list[int]) -> str:
    """Return the results as Markdown."""
    head = [
        f"`python -m benchmarks.objective_cost`: {parts} partitions, means of {len(seeds)} seeds. With"
        f" `train`, a job takes {statistics.mean(ratios):.2f} times the processor time in the mean,"
        f" {max(ratios):.2f} times at most.",
        "",
        "| graph | processor s, cut | train | ratio | rows of the slowest, cut | train |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*head, *lines, "", f"Machine: {machine()}."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"default: all of {', '.join(KEPT)}")
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--seeds", type=lambda text: [*map(int, text.split(","))], default=[0, 1])
    parser.add_argument("--package", type=Path, help="another checkout, to compare versions")
    args = parser.parse_args()
    lines: list[str] = []
    ratios: list[float] = []
    for name in args.graphs or KEPT:
        for graph in (load(name), with_reverses(load(name))):
            seconds, rows = compare(graph, args.package or HERE, args.parts, args.seeds)
            ratios.append(seconds[1] / seconds[0])
            cells = [*(f"{one:.2f}" for one in (*seconds, ratios[-1])), *(f"{one:,.0f}" for one in rows)]
            lines.append(f"| {graph.name} | {' | '.join(cells)} |")
            print(lines[-1], file=sys.stderr, flush=True)
    text = page(lines, ratios, args.parts, args.seeds)
    print(text)
    if args.package is None:
        (RESULTS / "objective_cost.md").write_text(text)


if __name__ == "__main__":
    main()
