"""Compare whole jobs with further output formats with the job that writes only DGL's files.

    python -m benchmarks.mag_graph GRAPH --scale 1
    python -m benchmarks.formats GRAPH [--formats graphbolt pyg] [--rounds 3]

Each contestant is one process of ``partition-ops run``. In every round all of them run, one after the other.
The output of the last round stays beside the graph, for ``partition-ops verify``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import statistics
import sys
from pathlib import Path
from typing import Any

from benchmarks.processes import measure

BASE = "dgl"


def job(graph: Path, output: Path, formats: str, num_parts: int) -> dict[str, Any]:
    """Run a whole job into an empty output; seconds, peak bytes, and bytes of the output on the disk."""
    shutil.rmtree(output, ignore_errors=True)
    words = ["run", str(graph), str(output), "--num-parts", str(num_parts), "--formats", formats, "--json"]
    cost = measure([sys.executable, "-m", "partition_ops.cli", *words])
    tasks = {task["task"]: task["seconds"] for task in json.loads(cost.output)["tasks"]}
    convert = sum(seconds for name, seconds in tasks.items() if name.startswith("convert"))
    files = {path.stat().st_ino: path.stat().st_blocks * 512 for path in output.rglob("*") if path.is_file()}
    return {
        "seconds": cost.wall,
        "cpu_seconds": cost.cpu,
        "convert_seconds": convert,
        "peak_bytes": cost.peak,
        "disk_bytes": sum(files.values()),
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as a table."""
    base = results["jobs"][BASE]
    lines = [
        "# Output formats",
        "",
        f"Whole jobs over the graph of `benchmarks/mag_graph.py`, {results['num_parts']} partitions,",
        f"median of {results['rounds']} rounds, by",
        "[`python -m benchmarks.formats GRAPH`](../formats.py). Each format is written in addition to `dgl`.",
        "",
        "| `--formats` | seconds | relative | CPU seconds | relative | peak memory (GB) | on disk (GB) |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    for name, found in results["jobs"].items():
        cells = [
            f"`{name}`",
            f"{found['seconds']:.1f}",
            f"{found['seconds'] / base['seconds']:.2f}",
            f"{found['cpu_seconds']:.1f}",
            f"{found['cpu_seconds'] / base['cpu_seconds']:.2f}",
            f"{found['peak_bytes'] / 1e9:.2f}",
            f"{found['disk_bytes'] / 1e9:.2f}",
        ]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument(
        "--formats", nargs="+", default=["graphbolt", "pyg"], help="formats in addition to dgl"
    )
    parser.add_argument("--num-parts", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    contestants = [BASE, *(f"{BASE},{name}" for name in args.formats)]
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
    for number in range(args.rounds):
        for name in contestants:
            output = args.graph.parent / f"{args.graph.name}-{name.replace(',', '-')}"
            found[name].append(job(args.graph, output, name, args.num_parts))
            print(f"round {number + 1}, {name}: {found[name][-1]['seconds']:.1f} s", flush=True)
    jobs = {
        name: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        for name, rounds in found.items()
    }
    results = {"num_parts": args.num_parts, "rounds": args.rounds, "jobs": jobs}
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "formats.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.results / "formats.md").write_text(page(results))
    print(page(results))


if __name__ == "__main__":
    main()
