"""Partition the history of a repository at six dates, each time from the partitions of the date before.

    python -m benchmarks.growing_history [--parts 2,4,8] [--seeds 0,1,2] [--rounds 1] [--repository CLONE]

The graph has the commits up to a date, their authors, and the files that they change. The dates are those of
half of the commits, 60, 70, 80, 90 and 100 % of them. The stage ``partition`` runs with ``--previous`` and
without, alternately, each in its own process. This is done with several seeds, and the page has medians of
them. Seconds are those of all processors for the whole process, so that other load disturbs them little.
Without a clone it is the kept graph ``history``. Results go to ``benchmarks/results/growing_history.json``
and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.growth import CLI, both_ways, say
from benchmarks.processes import machine, measure
from benchmarks.real_graph_sources import FOLDER, RealGraph, history
from benchmarks.real_graphs import write_chunked

DATES = (50, 60, 70, 80, 90, 100)  # percent of the commits
WROTE, FOLLOWS, CHANGES = "author:wrote:commit", "commit:follows:commit", "commit:changes:file"


def until(graph: RealGraph, commits: int) -> RealGraph:
    """Return the graph of the first commits; authors and files are numbered in the order of their first."""
    wrote, follows, changes = (graph.edges[name] for name in (WROTE, FOLLOWS, CHANGES))
    edges = {WROTE: wrote[wrote[:, 1] < commits]}
    edges |= {FOLLOWS: follows[(follows < commits).all(axis=1)], CHANGES: changes[changes[:, 0] < commits]}
    nodes = {
        "author": int(edges[WROTE][:, 0].max()) + 1,
        "commit": commits,
        "file": int(edges[CHANGES][:, 1].max()) + 1,
    }
    return RealGraph(graph.name, graph.kind, nodes, edges)


def steps(graph: RealGraph, parts: int, folder: Path, rounds: int, seed: int) -> list[dict[str, Any]]:
    """Return the figures of both ways at each date but the first."""
    found: list[dict[str, Any]] = []
    previous: Path | None = None
    for percent in DATES:
        now = until(graph, graph.nodes["commit"] * percent // 100)
        source = write_chunked(now, folder / f"graph-{percent}")
        say(f"{parts} partitions, seed {seed}, {percent} % of the commits")
        run = folder / f"run-{percent}"
        options = ["--num-parts", str(parts), "--seed", str(seed)]
        measure(
            [
                *CLI,
                "run",
                str(source),
                str(run),
                *options,
                *(["--previous", str(previous)] if previous else []),
            ]
        )
        if previous is not None:
            ways = both_ways(source, previous, parts, rounds, seed)
            found.append({"percent": percent, "nodes": now.nodes, **ways})
        previous = run
    return found


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    lines = [
        f"`{results['command']}`: commits, authors and files of a repository at six dates."
        " Each incremental run follows the one before; the first is a full run. Medians of the seeds; the"
        " worst seed is the one with the largest cut, relative to the median of the full runs. Seconds are"
        " those of all processors for the process of the stage.",
        "",
        "| parts | commits | full s | incremental s | relative | cut, full | cut, incremental | relative"
        " | worst seed | old nodes moved, worst seed | worst type imbalance | full runs |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for parts, seeds in results["parts"].items():
        for rows in zip(*seeds.values(), strict=True):
            lines.append("| " + " | ".join([parts, *_cells(rows)]) + " |")
    return "\n".join(lines) + "\n"


def _cells(rows: Sequence[dict[str, Any]]) -> list[str]:
    """Return the figures of one date, from those of each seed."""
    full, ours = ([row[way] for row in rows] for way in ("full", "incremental"))
    seconds, cuts = ([median(one[key] for one in way) for way in (full, ours)] for key in ("cpu", "edge_cut"))
    return [
        f"{rows[0]['nodes']['commit']:,}",
        *(f"{one:.1f}" for one in seconds),
        f"{seconds[1] / seconds[0]:.2f}",
        *(f"{one:.2%}" for one in cuts),
        f"{cuts[1] / cuts[0]:.3f}",
        f"{max(one['edge_cut'] for one in ours) / cuts[0]:.3f}",
        f"{max(one['moved'] for one in ours):.1%}",
        f"{max(one['imbalance'] for one in ours):.3f}",
        f"{sum(one['mode'] == 'full' for one in ours)}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=lambda text: [int(one) for one in text.split(",")], default=[2, 4, 8])
    parser.add_argument("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[0, 1, 2])
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--repository", type=Path, help="clone (default: the kept graph history)")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    graph = history(args.repository) if args.repository else RealGraph.load(FOLDER / "history.xz")
    found: dict[str, dict[str, Any]] = {}
    for parts in args.parts:
        found[str(parts)] = {}
        for seed in args.seeds:
            with tempfile.TemporaryDirectory() as folder:
                found[str(parts)][str(seed)] = steps(graph, parts, Path(folder), args.rounds, seed)
    clone = ["--repository CLONE"] * (args.repository is not None)
    seeds = ",".join(map(str, args.seeds))
    options = [f"--parts {','.join(found)}", f"--seeds {seeds}", f"--rounds {args.rounds}", *clone]
    results = {
        "command": " ".join(["python -m benchmarks.growing_history", *options]),
        "machine": machine(),
        "rounds": args.rounds,
        "parts": found,
    }
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "growing_history.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.output / "growing_history.md").write_text(page(results))
    print(page(results), end="")


if __name__ == "__main__":
    main()
