"""Compare the validate stage with pyarrow reading the same files.

    python -m benchmarks.validation GRAPH [--larger GRAPH10] [--rounds 3]

GRAPH is written by ``python -m benchmarks.mag_graph GRAPH --duplicates 1000``. Both run in a process of their
own, in several rounds, so that other load affects both; the figures are medians. With
``--larger``, a graph with ten times the edges is validated as often, within the memory that ``--memory``
allows for the search for duplicates. The results go to ``benchmarks/results``.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.processes import Cost, machine, measure, median

TASKS = {
    "pyarrow": "read and convert the edges, on all cores",
    "partition-ops": "the whole validate stage",
}
READ_TIMES, START_UP = 1.5, 3.0  # the target: a multiple of the time of reading, plus seconds
MOST_TIMES = 12.0  # the target for ten times the edges


@dataclass(frozen=True)
class Validation:
    """Run ``partition-ops validate`` once, without Great Expectations."""

    cost: Cost
    duplicates: list[int]
    edges: list[int]


def validate(graph: Path, memory: str | None = None) -> Validation:
    """Validate a graph in its own process."""
    with tempfile.TemporaryDirectory() as output:
        options = ["--no-data-docs", "--on-defect", "warn", *(("--memory", memory) if memory else ())]
        command = [sys.executable, "-m", "partition_ops.cli", "validate", str(graph), "--output", output]
        cost = measure([*command, *options])
        report = json.loads((Path(output) / "validation/report.json").read_text())
    rows = report["metrics"]["edge_types"]
    return Validation(cost, [row["duplicate_edges"] for row in rows], [row["edges"] for row in rows])


def read_with_pyarrow(graph: Path) -> dict[str, Any]:
    """Read and convert the edges, on all cores; return the seconds without imports and the edges of types."""
    import pyarrow as pa
    from pyarrow import csv, parquet

    columns = ["src", "dst"]

    def read(path: str, form: dict[str, str]) -> int:
        if form["name"] == "parquet":
            return int(parquet.read_table(path).num_rows)
        table = csv.read_csv(
            path,
            read_options=csv.ReadOptions(column_names=columns),
            parse_options=csv.ParseOptions(delimiter=form.get("delimiter", " ")),
            convert_options=csv.ConvertOptions(column_types=dict.fromkeys(columns, pa.int64())),
        )
        return int(table.num_rows)

    began = time.monotonic()
    edges = []
    with ThreadPoolExecutor() as pool:
        for one in json.loads((graph / "metadata.json").read_text())["edges"].values():
            paths = [str(graph / key) for key in one["data"]]
            edges.append(sum(pool.map(read, paths, [one["format"]] * len(paths))))
    return {"seconds": time.monotonic() - began, "edges": edges}


def one_round(graph: Path, costs: dict[str, list[Cost]]) -> None:
    """Run both once, and check that they read the same edges."""
    ours = validate(graph)
    costs["partition-ops"].append(ours.cost)
    cost = measure([sys.executable, "-m", "benchmarks.validation", str(graph), "--read"])
    costs["pyarrow"].append(cost)
    edges = json.loads(cost.output)["edges"]
    if edges != ours.edges:
        raise RuntimeError(f"pyarrow reads {edges} edges, partition-ops {ours.edges}")


def compare(graph: Path, rounds: int) -> dict[str, Any]:
    """Return medians of both, and ours relative to the target."""
    costs: dict[str, list[Cost]] = {name: [] for name in TASKS}
    for number in range(rounds):
        print(f"round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        one_round(graph, costs)
    reading = sorted(json.loads(cost.output)["seconds"] for cost in costs["pyarrow"])[rounds // 2]
    medians = {name: median(found) for name, found in costs.items()}
    return {
        "contestants": {name: cost.to_json() for name, cost in medians.items()},
        "reading_seconds": reading,
        "limit_seconds": READ_TIMES * reading + START_UP,
        "rounds": {name: [cost.to_json() for cost in found] for name, found in costs.items()},
    }


def grow(small: Path, large: Path, rounds: int, memory: str | None) -> dict[str, Any]:
    """Measure ten times the edges: ratio of the times, and memory."""
    found: dict[Path, list[Validation]] = {small: [], large: []}
    for number in range(rounds):
        print(f"larger graph, round {number + 1} of {rounds}", file=sys.stderr, flush=True)
        for graph, validations in found.items():
            validations.append(validate(graph, memory))
    little, much = (median([one.cost for one in validations]) for validations in found.values())
    return {
        "edges": [sum(validations[0].edges) for validations in found.values()],
        "memory": memory or "a quarter of the machine's",
        "cost": [little.to_json(), much.to_json()],
        "times": much.wall / little.wall,
        "times_cpu": much.cpu / little.cpu,
        "duplicates": [validations[0].duplicates for validations in found.values()],
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    compared = results["compared"]
    ours = compared["contestants"]["partition-ops"]
    lines = [
        f"`{results['command']}`, {results['machine']['cores']} cores, medians of {results['rounds']} rounds",
        "",
        "| | what | wall s | CPU s | peak GB | wall against partition-ops |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for name, cost in compared["contestants"].items():
        figures = f"{cost['wall']:.2f} | {cost['cpu']:.2f} | {cost['peak'] / 1e9:.2f}"
        lines.append(f"| {name} | {TASKS[name]} | {figures} | {cost['wall'] / ours['wall']:.2f} |")
    limit = compared["limit_seconds"]
    reading = compared["reading_seconds"]
    verdict = "met" if ours["wall"] <= limit else "missed"
    target = f"Target {READ_TIMES} times {reading:.2f} s (pyarrow without its start) + {START_UP:.0f} s"
    lines += ["", f"{target} = {limit:.2f} s: {verdict} with {ours['wall']:.2f} s."]
    return "\n".join([*lines, *(_growth(one) for one in results["larger"])]) + "\n"


def _growth(larger: dict[str, Any]) -> str:
    small, large = larger["cost"]
    verdict = "met" if larger["times"] <= MOST_TIMES else "missed"
    return (
        f"\nFrom {larger['edges'][0]:,} to {larger['edges'][1]:,} edges, duplicates within"
        f" {larger['memory']}: {small['wall']:.1f} s → {large['wall']:.1f} s, {larger['times']:.1f} times"
        f" ({larger['times_cpu']:.1f} in CPU time; target at most {MOST_TIMES:.0f}: {verdict}),"
        f" peak {small['peak'] / 1e9:.2f} GB → {large['peak'] / 1e9:.2f} GB, mapped feature files included."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("--read", action="store_true", help="only read GRAPH with pyarrow, in this process")
    parser.add_argument("--larger", type=Path)
    parser.add_argument("--memory", action="append", help="for --larger; may be repeated")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    if args.read:
        print(json.dumps(read_with_pyarrow(args.graph)))
        return
    results: dict[str, Any] = {
        "command": "python -m benchmarks.validation GRAPH --larger GRAPH10 --memory 6G --memory 1G",
        "machine": machine(),
        "rounds": args.rounds,
        "compared": compare(args.graph, args.rounds),
        "larger": [],
    }
    if args.larger:
        memories = args.memory or [None]
        results["larger"] = [grow(args.graph, args.larger, args.rounds, memory) for memory in memories]
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "validation.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.output / "validation.md").write_text(page(results))
    print(page(results), end="")


if __name__ == "__main__":
    main()
