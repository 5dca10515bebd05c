"""Partition the graph of a Python environment before and after packages are installed.

    python -m benchmarks.growing_environment [--parts 4] [--without NAME,NAME,…]

The first graph is this interpreter's environment without some distributions. The second is the whole
environment, with the node IDs of the first. The whole job runs on the first, and on the second with
``--previous`` and ``--compare-full``. Both outputs must pass ``partition-ops verify``. Results go to
``benchmarks/results/growing_environment.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.processes import machine, measure
from examples.python_environment.discover import installation_folders

WITHOUT = "duckdb,great_expectations,kaminpar,matplotlib,networkx,pytest"
CLI = [sys.executable, "-m", "partition_ops.cli"]
EXAMPLE = [sys.executable, "-m", "examples.python_environment"]


def without(folder: Path, names: set[str]) -> list[Path]:
    """Create folders like those of this interpreter, without some distributions."""
    found = []
    for number, original in enumerate(installation_folders()):
        copy = folder / str(number)
        copy.mkdir(parents=True)
        for entry in original.iterdir():
            installed = entry.name.endswith(".dist-info") and entry.name.split("-")[0].lower() in names
            if not installed:
                (copy / entry.name).symlink_to(entry)
        found.append(copy)
    return found


def compare(folder: Path, names: set[str], parts: int) -> dict[str, Any]:
    """Run both jobs, and return the content of migration.json."""
    graphs = [folder / "graph-before", folder / "graph-after"]
    sites = [str(site) for site in without(folder / "sites", names)]
    measure([*EXAMPLE, str(graphs[0]), "--site-packages", *sites])
    measure([*EXAMPLE, str(graphs[1]), "--previous", str(graphs[0])])
    outputs = [folder / "before", folder / "after"]
    follow = ["--previous", str(outputs[0]), "--compare-full"]
    for graph, output, more in zip(graphs, outputs, ([], follow), strict=True):
        options = ["--num-parts", str(parts), "--on-defect", "warn", *more]
        measure([*CLI, "run", str(graph), str(output), *options])
        measure([*CLI, "verify", str(graph), str(output)])
    found: dict[str, Any] = json.loads((outputs[1] / "assignment/migration.json").read_text())
    return {key: found[key] for key in ("mode", "reason", "node_types", "edge_cut", "imbalance")}


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    found = results["migration"]
    reason = f" ({found['reason']})" if found["reason"] else ""
    lines = [
        f"`python -m benchmarks.growing_environment`: {results['parts']} partitions, before and after"
        f" {', '.join(results['without'])} were installed. The run was {found['mode']}{reason}.",
        "",
        "| node type | old | new | growth | moved | share moved | imbalance before | now |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for name, one in found["node_types"].items():
        growth, moved = one["new"] / one["old"], one["moved"] / one["old"]
        before, now = (found["imbalance"][when][name] for when in ("before", "now"))
        lines.append(
            f"| {name} | {one['old']:,} | {one['new']:,} | {growth:.2%} | {one['moved']:,} | {moved:.2%}"
            f" | {before:.3f} | {now:.3f} |"
        )
    cuts = found["edge_cut"]
    lines += ["", "| cut before | cut now | of a full run now |", "|---:|---:|---:|"]
    lines.append(f"| {cuts['before']:.2%} | {cuts['now']:.2%} | {cuts['full']:.2%} |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--parts", type=int, default=4)
    parser.add_argument("--without", default=WITHOUT)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    names = args.without.split(",")
    with tempfile.TemporaryDirectory() as folder:
        migration = compare(Path(folder), set(names), args.parts)
    results = {"machine": machine(), "parts": args.parts, "without": names, "migration": migration}
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "growing_environment.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.output / "growing_environment.md").write_text(page(results))
    print(page(results), end="")


if __name__ == "__main__":
    main()
