"""Compare the whole job with DGL's, and the partitioning alone with METIS and KaMinPar.

    make bench
    python -m benchmarks.jobs [--scales 0.1,1] [--tenfold] [--s3] [--rounds 1] [--folder DIR]

Ours is ``partition-ops run`` on a local folder, validation included; theirs is loading the same files and
`dgl.distributed.partition_graph`, see `benchmarks.partition_graph`. Each runs in its own process, cold start
included, one after the other in every round, so that other load affects all of them; figures are medians.
Every output of ours must pass ``partition-ops verify``. The graphs are those of `benchmarks.mag_graph`, 4
parts, one constraint a node type; ``--tenfold`` adds ours alone at scale 10, Parquet, 8 and 4 parts, and
``--s3`` the job from S3 to S3 on a local server. Results go to ``benchmarks/results/jobs.json`` and ``.md``.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks.jobs_page import chart, page
from benchmarks.mag_graph import Shape, write_graph
from benchmarks.processes import Cost, machine, measure, median
from benchmarks.s3_jobs import BUCKET, SOURCE, s3_copy

ENGINES = ("auto", "metis", "random")
PARTS, TENFOLD, TENFOLD_PARTS = 4, 10.0, 8
ALONE = ("two-level", "metis", "kaminpar fast 1", "kaminpar fast 2", "kaminpar default 2")
CLI = [sys.executable, "-m", "partition_ops.cli"]


def graph_at(folder: Path, scale: float, file_format: str) -> Path:
    """Return the benchmark graph, and create it if it does not exist."""
    path = folder / f"mag-{scale:g}-{file_format}"
    if not (path / "metadata.json").exists():
        say(f"making the graph of scale {scale:g}")
        shutil.rmtree(path, ignore_errors=True)
        write_graph(path, Shape(scale=scale, format=file_format))
    return path


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


def ours(graph: str, output: str, engine: str, num_parts: int, environment: Any = None) -> dict[str, Any]:
    """Run ``partition-ops run``; return its stages and the quality."""
    options = ["--num-parts", str(num_parts), "--engine", engine, "--json"]
    cost = measure([*CLI, "run", graph, output, *options], environment)
    return {"cost": cost, "stages": stages(json.loads(cost.output)["tasks"])}


def stages(tasks: list[dict[str, Any]]) -> dict[str, float]:
    """Return seconds by stage; parallel partitions count as the longest sum of a worker."""
    found: dict[str, float] = {}
    for task in tasks:
        name = "gather" if task["task"].startswith("convert-part") else task["task"].removeprefix("convert-")
        found[name] = found.get(name, 0.0) + task["seconds"]
    found["gather"] /= min(machine()["cores"], sum(t["task"].startswith("convert-part") for t in tasks))
    return found


def quality(output: Path) -> dict[str, float]:
    """Return edge cut and worst imbalance of a node type from the quality report."""
    report = json.loads((output / "quality/report.json").read_text())
    worst = max(one["imbalance"] for one in report["node_types"].values())
    return {"edge_cut": report["edge_cut"]["fraction"], "imbalance": worst}


def verify(graph: Path, output: Path) -> None:
    """Run ``partition-ops verify`` on an output, and fail if it fails."""
    measure([*CLI, "verify", str(graph), str(output)])


verified: set[tuple[Path, str, int]] = set()


def our_job(graph: Path, engine: str, num_parts: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        result = ours(str(graph), str(output), engine, num_parts)
        if (graph, engine, num_parts) not in verified:  # all rounds write the same bytes
            verify(graph, output)
            verified.add((graph, engine, num_parts))
        return {**result, **quality(output)}


def their_job(graph: Path, num_parts: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.partition_graph", str(graph), folder]
        cost = measure([*command, "--num-parts", str(num_parts)])
        looked = json.loads(measure([*command, "--look"]).output.splitlines()[-1])
        return {"cost": cost, **looked}


def s3_job(graph: Path, num_parts: int) -> dict[str, Any]:
    """Run the job from S3 to S3 on a server of this machine; the upload of the graph is not timed."""
    with tempfile.TemporaryDirectory() as name, s3_copy(graph, Path(name)) as environment:
        result = ours(SOURCE, f"s3://{BUCKET}/out", "auto", num_parts, environment)
        output = Path(name) / "data" / BUCKET / "out"
        verify(graph, output)
        return {**result, **quality(output)}


def alone(graph: Path, num_parts: int) -> dict[str, Callable[[], dict[str, Any]]]:
    """Run the partitioning alone, each in its own process, on the prepared graph."""

    def run(name: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "benchmarks.partitioning", str(graph), name, str(num_parts)]
        cost = measure(command)
        return {"cost": cost, **json.loads(cost.output.splitlines()[-1])}

    return {name: (lambda name=name: run(name)) for name in ALONE}  # type: ignore[misc]


def repeat(contestants: dict[str, Callable[[], dict[str, Any]]], rounds: int) -> dict[str, dict[str, Any]]:
    """Run every contestant once a round; return the last result of each with the medians of its costs."""
    found: dict[str, list[dict[str, Any]]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, run in contestants.items():
            say(f"round {number + 1} of {rounds}: {name}")
            found[name].append(run())
    return {name: summary(results) for name, results in found.items()}


def summary(results: list[dict[str, Any]]) -> dict[str, Any]:
    costs: list[Cost] = [result["cost"] for result in results]
    rounds = [cost.to_json() for cost in costs]
    seconds = [result["seconds"] for result in results if "seconds" in result]
    more = {"seconds": sorted(seconds)[len(seconds) // 2]} if seconds else {}
    return {**results[-1], **more, "cost": median(costs).to_json(), "rounds": rounds}


def at_scale(args: argparse.Namespace, scale: float) -> dict[str, Any]:
    graph = graph_at(args.folder, scale, "csv")
    jobs: dict[str, Callable[[], dict[str, Any]]] = {
        "dgl partition_graph": lambda: their_job(graph, PARTS),
        **{f"partition-ops {name}": (lambda name=name: our_job(graph, name, PARTS)) for name in ENGINES},  # type: ignore[misc]
    }
    if args.s3 and scale == 1:
        jobs["partition-ops auto, S3 to S3"] = lambda: s3_job(graph, PARTS)
    found: dict[str, Any] = {"parts": PARTS, "jobs": repeat(jobs, args.rounds)}
    with tempfile.TemporaryDirectory() as folder:
        measure([*CLI, "prepare", str(graph), "--output", folder])
        shutil.copy(graph / "metadata.json", folder)
        found["partitioning"] = repeat(alone(Path(folder), PARTS), args.rounds)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scales", default="0.1,1")
    parser.add_argument("--tenfold", action="store_true")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--rounds", type=int, default=1)
    parser.add_argument("--folder", type=Path, default=Path(".local/bench"), help="folder of the graphs")
    parser.add_argument("--output", type=Path, default=Path(__file__).parent / "results")
    args = parser.parse_args()
    results: dict[str, Any] = {
        "command": "python -m benchmarks.jobs " + " ".join(argument for argument in sys.argv[1:]),
        "machine": machine(),
        "rounds": args.rounds,
        "scales": {scale: at_scale(args, float(scale)) for scale in args.scales.split(",") if scale},
    }
    if args.tenfold:
        graph = graph_at(args.folder, TENFOLD, "parquet")
        jobs = {
            "partition-ops auto": lambda: our_job(graph, "auto", TENFOLD_PARTS),
            f"partition-ops auto, {PARTS} parts": lambda: our_job(graph, "auto", PARTS),
        }
        results["scales"]["10"] = {"parts": TENFOLD_PARTS, "jobs": repeat(jobs, args.rounds)}
    args.output.mkdir(parents=True, exist_ok=True)
    (args.output / "jobs.json").write_text(json.dumps(results, indent=1, default=str) + "\n")
    (args.output / "jobs.md").write_text(page(results))
    chart(results, args.output / "jobs.svg")
    print(page(results), end="")


if __name__ == "__main__":
    main()
