"""Seconds, memory and disk of ``prepare`` and ``partition``, from 20 million edges to more than a billion.

    make bench-billion
    python -m benchmarks.billion [--scales 1,3,10,52] [--folder DIR] [--output DIR] [--chart FILE]

The graphs are those of `benchmarks.large_graph`, which have no features, in 8 parts. Each stage runs in its
own process. A scale begins only if the machine has room for it, and its files are removed at the end. Results
of earlier calls are kept, so that each scale can be measured alone; they go to
``benchmarks/results/billion.json`` and ``.md``, and ``docs/images/large_graphs.svg``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any

import psutil

from benchmarks.charts import panels
from benchmarks.large_graph import write_large_graph
from benchmarks.mag_graph import EDGES
from benchmarks.processes import machine, measure

PARTS = 8
CLI = [sys.executable, "-m", "partition_ops.cli"]
DISK_BYTES, MEMORY_BYTES = 32, 16  # an edge: of all files at once; of memory and of the pages of the graph
BASE_BYTES = 1 << 30
PROJECTED = (1e9, 10e9)  # edges
CHART = Path(__file__).parents[1] / "docs/images/large_graphs.svg"


def check_room(folder: Path, scale: float) -> None:
    """End the program if the disk or the memory is too small for a graph."""
    edges = sum(EDGES.values()) * scale
    for what, needed, free in (
        ("disk", edges * DISK_BYTES, shutil.disk_usage(folder).free),
        ("memory", edges * MEMORY_BYTES + BASE_BYTES, psutil.virtual_memory().available),
    ):
        if needed > free:
            sys.exit(f"Scale {scale:g} needs {needed / 1e9:.0f} GB of {what}; {free / 1e9:.0f} GB are free.")


def at_scale(folder: Path, scale: float) -> dict[str, Any]:
    """Make a graph, run both stages, and return what they needed."""
    graph, run = folder / "graph", folder / "run"
    edges = write_large_graph(graph, scale)
    found: dict[str, Any] = {"edges": edges, "input_bytes": _bytes(graph)}
    options = {"prepare": [], "partition": ["--num-parts", str(PARTS)]}
    for stage, more in options.items():
        command = [*CLI, stage, str(graph), "--output", str(run), *more]
        cost = measure(command, {"TMPDIR": str(folder)})
        found[stage] = cost.to_json()
    found["graph_bytes"] = (run / "prepare/graph.parhip").stat().st_size
    assignment = json.loads((run / "assignment/assignment.json").read_text())
    found["edge_cut"] = assignment["edge_cut"]["fraction"]
    found["pairs"] = assignment["edge_cut"]["of"]
    found["nodes"] = json.loads((run / "prepare/stats.json").read_text())["num_nodes"]
    return found


def _bytes(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    cores, memory = results["machine"]["cores"], results["machine"]["memory_gib"]
    lines = [
        f"`{results['command']}`: {cores} cores, {memory} GiB, {PARTS} parts, one run for each scale.",
        "",
        "Memory is the peak of all processes of the stage: *anonymous* is what the kernel cannot drop"
        " (`RssAnon` and `RssShmem`; what a forked process shares with its parent counts twice), *with files*"
        " adds the resident pages of mapped files. Wall time includes waiting for other programs.",
        "",
        "| scale | million edges | stage | wall s | CPU s | CPU µs an edge | anonymous GB | bytes an edge |"
        " with files GB | edge cut |",
        "|---:|---:|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for scale, found in _sorted(results):
        for stage in ("prepare", "partition"):
            cost, edges = found[stage], found["edges"]
            cut = f"{found['edge_cut']:.2%}" if stage == "partition" else ""
            lines.append(
                f"| {scale:g} | {edges / 1e6:.0f} | {stage} | {cost['wall']:.0f} | {cost['cpu']:.0f}"
                f" | {cost['cpu'] / edges * 1e6:.2f} | {cost['anonymous'] / 1e9:.2f}"
                f" | {cost['anonymous'] / edges:.1f} | {cost['peak'] / 1e9:.2f} | {cut} |"
            )
    lines += [
        "",
        "| scale | nodes | input GB | prepared graph GB | bytes an edge of it |",
        "|---:|---:|---:|---:|---:|",
    ]
    for scale, found in _sorted(results):
        lines.append(
            f"| {scale:g} | {found['nodes'] / 1e6:.1f} M | {found['input_bytes'] / 1e9:.2f}"
            f" | {found['graph_bytes'] / 1e9:.2f} | {found['graph_bytes'] / found['edges']:.1f} |"
        )
    return "\n".join([*lines, "", *_projection(results)]) + "\n"


def _sorted(results: dict[str, Any]) -> list[tuple[float, dict[str, Any]]]:
    return sorted((float(scale), found) for scale, found in results["scales"].items())


def _projection(results: dict[str, Any]) -> list[str]:
    """Return a table of what `PROJECTED` edges would need, in proportion to the largest graph."""
    _, most = _sorted(results)[-1]
    lines = [
        f"In proportion to the graph with {most['edges'] / 1e6:.0f} million edges:",
        "",
        "| edges | " + " | ".join(f"{edges / 1e9:g} billion" for edges in PROJECTED) + " |",
        "|---|" + "---:|" * len(PROJECTED),
    ]
    figures = {
        f"{stage}, {title}": most[stage][name] / unit
        for stage in ("prepare", "partition")
        for title, name, unit in (("CPU minutes", "cpu", 60.0), ("anonymous GB", "anonymous", 1e9))
    }
    for title, value in {**figures, "prepared graph, GB": most["graph_bytes"] / 1e9}.items():
        values = (value * edges / most["edges"] for edges in PROJECTED)
        lines.append(f"| {title} | " + " | ".join(f"{one:.1f}" for one in values) + " |")
    return lines


def chart(results: dict[str, Any], path: Path) -> None:
    """Draw seconds of processor time an edge and bytes of memory an edge against the number of edges."""
    titles = ("processor time, µs an edge", "anonymous memory, bytes an edge")
    edges = [found["edges"] for _, found in _sorted(results)]
    with panels(path, dict.fromkeys(titles, "edges"), (9, 3.2)) as axes:
        for stage, colour in (("prepare", "#9aa5b1"), ("partition", "#1f6feb")):
            for axis, figure, factor in ((axes[0], "cpu", 1e6), (axes[1], "anonymous", 1.0)):
                values = [found[stage][figure] / found["edges"] * factor for _, found in _sorted(results)]
                axis.plot(edges, values, marker="o", color=colour, label=stage)
        for axis in axes:
            axis.set_xscale("log")
            axis.set_ylim(bottom=0)
        axes[0].legend(frameon=False)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scales", default="1,3,10,52")
    parser.add_argument("--folder", type=Path, default=Path(".local/bench"), help="folder of all large files")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--chart", type=Path, default=CHART)
    args = parser.parse_args()
    args.folder.mkdir(parents=True, exist_ok=True)
    args.output.mkdir(parents=True, exist_ok=True)
    file = args.output / "billion.json"
    before = json.loads(file.read_text())["scales"] if file.exists() else {}
    results = {"command": "python -m benchmarks.billion", "machine": machine(), "scales": before}
    for scale in args.scales.split(","):
        check_room(args.folder, float(scale))
        with tempfile.TemporaryDirectory(dir=args.folder) as folder:
            results["scales"][scale] = at_scale(Path(folder), float(scale))
        file.write_text(json.dumps(results, indent=1) + "\n")
        (args.output / "billion.md").write_text(page(results))
        chart(results, args.chart)
        print(page(results), end="")


if __name__ == "__main__":
    main()
