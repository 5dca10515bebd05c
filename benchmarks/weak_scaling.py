"""Measure the engine ``two-level`` over MPI on 1, 2 and 4 machines, with a graph that grows with them.

    python -m benchmarks.weak_scaling [--scale 1] [--ranks 1 2 4] [--parts 8] [--folder DIR] [--output PATH]

It needs what `benchmarks.spread_job` needs. With N ranks, the graph of `benchmarks.mag_graph` has N times the
scale. Each rank is on a machine of its own, without a limit of memory; the graph is prepared on the S3 server
outside. *Sent* is what the machines have sent: what the ranks exchange, and the assignment. The last columns
are what grows with the number of machines for each half-edge.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.jobs import graph_at, say
from benchmarks.machines import Network, network
from benchmarks.processes import machine, report
from benchmarks.s3_jobs import BUCKET, s3_copy
from benchmarks.spread_job import StageWork, machines, options
from partition_ops.artifacts.layout import PREPARED_STATS

UNLIMITED = -1


def measured(made: Network, ranks: int, args: argparse.Namespace) -> dict[str, Any]:
    """Partition over ranks on as many machines, and return the figures."""
    graph = graph_at(args.folder, args.scale * ranks, "parquet")
    with (
        tempfile.TemporaryDirectory(prefix="weak-", dir=args.folder) as name,
        s3_copy(graph, Path(name), address=made.outside) as variables,
        machines(made, UNLIMITED, Path(name).absolute()) as where,
    ):
        os.environ |= variables
        output = f"s3://{BUCKET}/out"
        chosen = options(args.parts, ranks, where) | {"validation_tasks": 1, "prepare_tasks": 1}
        for stage in ("validate", "prepare"):
            say(f"{ranks} ranks: {stage}")
            StageWork(where, chosen, output, stage).do_last()
        say(f"{ranks} ranks: partition")
        work = StageWork(where, chosen, output, "partition")
        work.do_last()
        stats = json.loads(Path(name, "data", BUCKET, "out", PREPARED_STATS).read_text())
    return {"ranks": ranks, "half_edges": stats["num_half_edges"], **vars(work.figures)}


def text_of(found: list[dict[str, Any]]) -> str:
    """Return the figures as Markdown."""
    lines = [
        "| ranks | half-edges, million | wall s | processor s | largest rank, MiB | sent, MiB"
        " | processor ns a half-edge | sent, bytes a half-edge |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for one in found:
        count = one["half_edges"]
        lines.append(
            f"| {one['ranks']} | {count / 1e6:.1f} | {one['wall']:.1f} | {one['processor']:.1f}"
            f" | {one['peak'] >> 20} | {one['sent'] >> 20} | {one['processor'] / count * 1e9:.0f}"
            f" | {one['sent'] / count:.2f} |"
        )
    return "\n".join([*lines, "", f"Machine: {machine()}.", ""])


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=1, help="of the graph of one rank")
    parser.add_argument("--ranks", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--folder", type=Path, default=Path(".local/bench"), help="folder of the graphs")
    parser.add_argument("--output", type=Path, help="path of the results, without .json and .md")
    parser.add_argument("--network", help=argparse.SUPPRESS)  # of the process on the switch
    args = parser.parse_args()
    if args.network is not None:
        (ranks,) = args.ranks
        print(json.dumps(measured(Network(args.network, ranks), ranks, args)))
        return 0
    args.folder.mkdir(parents=True, exist_ok=True)
    found = []
    for ranks in args.ranks:
        graph_at(args.folder, args.scale * ranks, "parquet")
        with network(ranks) as made:
            words = ["--scale", str(args.scale), "--ranks", str(ranks), "--parts", str(args.parts)]
            words += ["--folder", str(args.folder), "--network", made.name]
            command = made.on_switch([sys.executable, "-m", "benchmarks.weak_scaling", *words])
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
            found.append(json.loads(done.stdout.splitlines()[-1]))
    report({"scale": args.scale, "rows": found}, text_of(found), args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
