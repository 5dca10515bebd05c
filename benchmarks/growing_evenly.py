"""Let real graphs grow evenly by 4 %, and compare incremental runs with full runs.

    python -m benchmarks.growing_evenly [GRAPH …] [--parts 2,4,8,16] [--seeds 0,1,2]

The graphs are those that the repository keeps. One node of 26 of each type, drawn at random, and
all their edges are taken away, and as many of the other edges; this is the graph before. The growth brings
them back, nodes behind the old ones. Figures are medians of the seeds, which also draw the growth; seconds
are those of all processors for the process of the stage ``partition``. Results go to
``benchmarks/results/growing_evenly.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import numpy as np

from benchmarks.growth import CLI, both_ways, say
from benchmarks.processes import machine, measure
from benchmarks.real_graph_sources import FOLDER, RealGraph
from benchmarks.real_graphs import write_chunked

GRAPHS = ("history", "names", "coauthors", "includes", "roads", "objects", "files")
GROWTH = 0.04
Rows = list[dict[str, Any]]


def shrunk(graph: RealGraph, rng: np.random.Generator) -> tuple[RealGraph, RealGraph]:
    """Return the graph before the growth, and the whole graph with new nodes behind the old ones."""
    numbers, olds = {}, {}
    for name, count in graph.nodes.items():
        olds[name] = round(count / (1 + GROWTH))
        numbers[name] = np.empty(count, np.int64)
        numbers[name][rng.permutation(count)] = np.arange(count)
    before, after = {}, {}
    for name, pairs in graph.edges.items():
        source, _, target = name.split(":")
        after[name] = np.column_stack([numbers[source][pairs[:, 0]], numbers[target][pairs[:, 1]]])
        old = (after[name] < [olds[source], olds[target]]).all(axis=1)
        before[name] = after[name][old & (rng.random(len(old)) < 1 / (1 + GROWTH))]
    return (
        RealGraph(graph.name, graph.kind, olds, before),
        RealGraph(graph.name, graph.kind, graph.nodes, after),
    )


def follow(graph: RealGraph, parts: int, seed: int) -> dict[str, Any]:
    """Return the figures of a full and of an incremental run after the growth."""
    before, after = shrunk(graph, np.random.default_rng(seed))
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        old, new = write_chunked(before, folder / "before"), write_chunked(after, folder / "after")
        options = ["--num-parts", str(parts), "--seed", str(seed)]
        measure([*CLI, "run", str(old), str(folder / "run"), *options])
        ways = both_ways(new, folder / "run", parts, 1, seed)
    return {"graph": graph.name, "parts": parts, "seed": seed, **ways}


def page(command: str, rows: Rows) -> str:
    """Return the results as Markdown."""
    cells, ratios = [], []
    for name, parts in dict.fromkeys((row["graph"], row["parts"]) for row in rows):
        here = [row for row in rows if (row["graph"], row["parts"]) == (name, parts)]
        full, ours = ([row[way] for row in here] for way in ("full", "incremental"))
        cuts, seconds = (
            [median(one[key] for one in way) for way in (full, ours)] for key in ("edge_cut", "cpu")
        )
        ratios.append(cuts[1] / cuts[0])
        cells.append(
            f"| {name} | {parts} | {cuts[0]:.2%} | {cuts[1]:.2%} | {ratios[-1]:.3f}"
            f" | {max(one['moved'] for one in ours):.1%} | {seconds[1] / seconds[0]:.2f}"
            f" | {max(one['imbalance'] for one in ours):.3f}"
            f" | {sum(one['mode'] == 'full' for one in ours)} |"
        )
    lines = [
        f"`{command}`: real graphs after an even growth of {GROWTH:.0%}. Medians of the seeds, the most old"
        " nodes that moved and the worst imbalance of a type; seconds of all processors, relative to a full"
        f" run. The cut of the incremental run is {geometric_mean(ratios):.3f} of that of a full run in the"
        f" geometric mean of {len(ratios)} cases, at worst {max(ratios):.3f}.",
        "",
        "| graph | parts | cut, full | cut, incremental | relative | old nodes moved | seconds, relative"
        " | worst type imbalance | full runs |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    return "\n".join([*lines, *cells]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    numbers = {"type": lambda text: [int(one) for one in text.split(",")]}
    parser.add_argument("graphs", nargs="*", metavar="GRAPH", help=f"default: {', '.join(GRAPHS)}")
    parser.add_argument("--parts", default=[2, 4, 8, 16], **numbers)
    parser.add_argument("--seeds", default=[0, 1, 2], **numbers)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    rows: Rows = []
    for name in args.graphs or GRAPHS:
        graph = RealGraph.load(FOLDER / f"{name}.xz")
        for parts in args.parts:
            for seed in args.seeds:
                say(f"{name}, {parts} partitions, seed {seed}")
                rows.append(follow(graph, parts, seed))
    lists = [f"--{key} {','.join(map(str, getattr(args, key)))}" for key in ("parts", "seeds")]
    command = " ".join(["python -m benchmarks.growing_evenly", *args.graphs, *lists])
    args.output.mkdir(parents=True, exist_ok=True)
    results = {"command": command, "machine": machine(), "rows": rows}
    (args.output / "growing_evenly.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.output / "growing_evenly.md").write_text(page(command, rows))
    print(page(command, rows), end="")


if __name__ == "__main__":
    main()
