"""Compare the whole job with DGL's over sizes of a graph: time, memory and share of edges cut.

    make bench
    python -m benchmarks.jobs [--cases 0.03/4,0.2/64] [--rounds 3] [--tenfold] [--s3] [--folder DIR]
    python -m benchmarks.jobs_page        renew README, the pages and the pictures from the results

Ours is ``partition-ops run`` from and to a local folder, validation included, by default and with ``--effort
fast``; theirs is loading the same files and `dgl.distributed.partition_graph`, see
`benchmarks.partition_graph`. Each runs in its own process, cold start included, one after the other in
every round, so that other load affects all of them; figures are medians. In the first round, every output of
ours must pass ``partition-ops verify``, and the cut of theirs is counted. The graphs are those of
`benchmarks.mag_graph`; a case is a scale and a number of partitions, with one constraint a node type.

``--tenfold`` adds ours alone at scale 10, 4 parts, in one round, and ``--s3`` the job of scale 1
from S3 to S3 on a local server. Results go to ``benchmarks/results/jobs.json`` after every case; what a call
does not measure stays there. At the end, the call does what `benchmarks.jobs_page` does, if it wrote there.
"""

from __future__ import annotations

import argparse
import json
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from benchmarks import jobs_page
from benchmarks.processes import Cost, machine, measure, median
from benchmarks.s3_jobs import BUCKET, SOURCE, s3_copy

CASES = "0.03/4,0.1/4,0.3/4,0.45/4,1/4,0.2/16,0.2/64"
CLI = [sys.executable, "-m", "partition_ops.cli"]
Result = dict[str, Any]
Contestants = dict[str, Callable[[bool], Result]]


def graph_at(folder: Path, scale: float, file_format: str = "csv") -> Path:
    """Return the benchmark graph, and create it if it does not exist."""
    path = folder / f"mag-{scale:g}-{file_format}"
    if not (path / "metadata.json").exists():
        say(f"making the graph of scale {scale:g}")
        shutil.rmtree(path, ignore_errors=True)
        # in a process of its own: a process that is measured begins with the peak of the one that starts it
        words = [str(path), "--scale", str(scale), "--format", file_format]
        subprocess.run([sys.executable, "-m", "benchmarks.mag_graph", *words], check=True)
    return path


def cases_of(text: str) -> list[tuple[float, int]]:
    """Return scales and numbers of partitions, such as those of ``0.03/4,0.2/64``."""
    split = (case.split("/") for case in text.split(",") if case)
    return [(float(scale), int(parts)) for scale, parts in split]


def say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


def our_job(graph: Path, num_parts: int, first: bool, *more: str) -> Result:
    """Run ``partition-ops run``; the first output is verified."""
    with tempfile.TemporaryDirectory() as folder:
        output = Path(folder) / "out"
        result = run(str(graph), str(output), num_parts, *more)
        if first:  # all rounds write the same bytes
            verify(graph, output)
        return {**result, **quality(output)}


def run(graph: str, output: str, num_parts: int, *more: str, environment: Any = None) -> Result:
    options = ["--num-parts", str(num_parts), "--json", *more]
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


def their_job(graph: Path, num_parts: int, first: bool) -> Result:
    """Run `benchmarks.partition_graph`; the cut of the first output is counted."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "benchmarks.partition_graph", str(graph), folder]
        cost = measure([*command, "--num-parts", str(num_parts)])
        seen = json.loads(measure([*command, "--look"]).output.splitlines()[-1]) if first else {}
        return {"cost": cost, **seen}


def s3_job(graph: Path, num_parts: int, first: bool) -> Result:
    """Run the job from S3 to S3 on a server of this machine; the upload of the graph is not timed."""
    with tempfile.TemporaryDirectory() as name, s3_copy(graph, Path(name)) as environment:
        result = run(SOURCE, f"s3://{BUCKET}/out", num_parts, environment=environment)
        output = Path(name) / "data" / BUCKET / "out"
        if first:
            verify(graph, output)
        return {**result, **quality(output)}


def repeat(contestants: Contestants, rounds: int) -> dict[str, Result]:
    """Run every contestant once a round; return the last result of each with the medians of its costs."""
    found: dict[str, list[Result]] = {name: [] for name in contestants}
    for number in range(rounds):
        for name, contestant in contestants.items():
            found[name].append(contestant(number == 0))
            cost: Cost = found[name][-1]["cost"]
            say(f"  round {number + 1} of {rounds}, {name}: {cost.wall:.1f} s, {cost.peak / 1e9:.2f} GB")
    return {name: summary(results) for name, results in found.items()}


def summary(results: list[Result]) -> Result:
    costs: list[Cost] = [result["cost"] for result in results]
    rounds = [cost.to_json() for cost in costs]
    return {**results[-1], **results[0], "cost": median(costs).to_json(), "rounds": rounds}


def contestants_at(graph: Path, num_parts: int, *, s3: bool) -> Contestants:
    more: Contestants = {jobs_page.S3: lambda first: s3_job(graph, num_parts, first)} if s3 else {}
    return {
        jobs_page.THEIRS: lambda first: their_job(graph, num_parts, first),
        jobs_page.OURS: lambda first: our_job(graph, num_parts, first),
        jobs_page.FAST: lambda first: our_job(graph, num_parts, first, "--effort", "fast"),
        **more,
    }


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--cases", default=CASES, help=f"scales and numbers of partitions (default: {CASES})")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--tenfold", action="store_true")
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--note", default="", help="what to say about the machine")
    parser.add_argument("--folder", type=Path, default=Path(".local/bench"), help="folder of the graphs")
    parser.add_argument("--output", type=Path, default=jobs_page.RESULTS)
    args = parser.parse_args()
    cases = cases_of(args.cases)
    [(ten, of_ten)] = cases_of(jobs_page.TENFOLD)
    graphs = {scale: graph_at(args.folder, scale) for scale, _ in cases}
    tenfold = graph_at(args.folder, ten) if args.tenfold else None
    measure([*CLI, "compile"])  # as `make install` does
    args.output.mkdir(parents=True, exist_ok=True)
    file = args.output / jobs_page.FILE
    results = json.loads(file.read_text()) if file.exists() else {"cases": {}}
    measured = {
        "command": shlex.join(["python", "-m", "benchmarks.jobs", *sys.argv[1:]]),
        "machine": machine(),
        "note": args.note,
    }

    def keep(graph: Path, scale: float, parts: int, jobs: dict[str, Result]) -> None:
        edges = sum(map(sum, json.loads((graph / "metadata.json").read_text())["num_edges_per_chunk"]))
        found = {"scale": scale, "parts": parts, "edges": edges, **measured, "jobs": jobs}
        results["cases"][f"{scale:g}/{parts}"] = found
        file.write_text(json.dumps(results, indent=1, default=str) + "\n")

    for scale, parts in cases:
        say(f"scale {scale:g}, {parts} parts")
        graph = graphs[scale]
        jobs = repeat(contestants_at(graph, parts, s3=args.s3 and scale == 1), args.rounds)
        keep(graph, scale, parts, jobs)
    if tenfold:
        say(f"scale {ten:g}, {of_ten} parts")
        alone: Contestants = {jobs_page.OURS: lambda first: our_job(tenfold, of_ten, first)}
        keep(tenfold, ten, of_ten, repeat(alone, 1))
    if args.output == jobs_page.RESULTS:
        jobs_page.renew(results)
    print(jobs_page.page(results), end="")


if __name__ == "__main__":
    main()
