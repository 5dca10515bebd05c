"""Compare training from the artifacts with the same graph in memory: batches a second and memory.

    python -m benchmarks.training GRAPH OUTPUT [--batches 100] [--rounds 3]

GRAPH is a graph of `benchmarks.mag_graph`, OUTPUT its output of ``partition-ops run``. Both sides sample two
layers of ten neighbours around papers with `dgl.dataloading.NeighborSampler`, and prefetch the features of
the inputs and the labels. Each runs in its own process after a warm-up of as many batches; the sides
alternate. Memory is the growth of the process since before the graph was opened, between two batches, with
all resident pages; *own* excludes the pages of mapped files, which the kernel can reclaim. *limited* is with
``resident_bytes``: features are read by system calls, and pages of mapped edges are released above the limit.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import re
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import machine, measure

SIDES = ("memory", "mapped", "limited")
BATCH, FANOUTS = 1024, [10, 10]
RESIDENT = 48 << 20
KINDS = ("VmRSS", "RssAnon")
LEAST_SPEED, MOST_MEMORY = 0.5, 0.1  # targets, relative to the graph in memory


def resident(kind: str) -> int:
    """Return the resident bytes of this process: all (``VmRSS``), or without mapped files (``RssAnon``)."""
    found = re.search(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text())
    return int(found[1]) * 1024 if found else 0


def load(graph: Path) -> Any:
    """Load the input into memory, as a user of DGL would."""
    import numpy as np
    import pyarrow.parquet as pq
    import torch

    from partition_ops.system.dgl_import import import_dgl

    document = json.loads((graph / "metadata.json").read_text())
    counts = document.get("num_nodes_per_type") or [sum(n) for n in document["num_nodes_per_chunk"]]
    data = {}
    for name, spec in document["edges"].items():
        tables = [pq.read_table(graph / key) for key in spec["data"]]
        ends = [np.concatenate([table.column(i).to_numpy() for table in tables]) for i in range(2)]
        data[tuple(name.split(":"))] = tuple(torch.from_numpy(end.astype(np.int64)) for end in ends)
    made = import_dgl().heterograph(data, dict(zip(document["node_type"], counts, strict=True)))
    for ntype, features in document["node_data"].items():
        for name, spec in features.items():
            rows = np.concatenate([np.load(graph / key) for key in spec["data"]])
            made.nodes[ntype].data[name] = torch.from_numpy(rows)
    return made


def run_side(side: str, graph: Path, output: Path, cache: Path, batches: int) -> dict[str, Any]:
    """Measure one side in this process."""
    import torch

    from partition_ops.system.dgl_import import import_dgl
    from partition_ops.train import PartitionedGraph

    dgl = import_dgl()
    before = {kind: resident(kind) for kind in KINDS}
    began = time.perf_counter()
    if side == "memory":
        opened = load(graph)
    else:
        opened = PartitionedGraph(
            str(output), cache=cache, resident_bytes=RESIDENT if side == "limited" else None
        )
    opening = time.perf_counter() - began
    sampler = dgl.dataloading.NeighborSampler(
        FANOUTS, prefetch_node_feats={"paper": ["feat"]}, prefetch_labels={"paper": ["label"]}
    )
    torch.manual_seed(0)
    seeds = torch.randint(opened.num_nodes("paper"), (2 * batches * BATCH,)).unique()
    seeds = {"paper": seeds[torch.randperm(len(seeds))]}
    rows, grown, times, cpu = 0, dict.fromkeys(KINDS, 0), [], []
    for _, _, blocks in dgl.dataloading.DataLoader(opened, seeds, sampler, batch_size=BATCH):
        rows += len(blocks[0].srcnodes["paper"].data["feat"])
        del blocks, _
        times.append(time.perf_counter())
        cpu.append(time.process_time())
        if len(times) > batches // 2:
            gc.collect(0)
            grown = {kind: max(grown[kind], resident(kind) - before[kind]) for kind in KINDS}
    half = len(times) // 2
    speed = (len(times) - 1 - half) / (times[-1] - times[half])
    return {
        "batches_per_second": speed,
        "cpu_ms_per_batch": 1000 * (cpu[-1] - cpu[half]) / (len(cpu) - 1 - half),
        "grown_bytes": grown["VmRSS"],
        "own_bytes": grown["RssAnon"],
        "open_seconds": opening,
        "rows_per_batch": rows / len(times),
    }


def compare(args: argparse.Namespace) -> dict[str, Any]:
    found: dict[str, list[dict[str, Any]]] = {side: [] for side in SIDES}
    with tempfile.TemporaryDirectory() as cache:
        for number in range(args.rounds):
            for side in SIDES:
                print(f"round {number + 1} of {args.rounds}: {side}", file=sys.stderr, flush=True)
                command = [
                    sys.executable,
                    "-m",
                    "benchmarks.training",
                    str(args.graph),
                    str(args.output),
                ]
                command += ["--batches", str(args.batches), "--side", side, "--cache", cache]
                found[side].append(json.loads(measure(command).output.splitlines()[-1]))
    return {
        side: {key: statistics.median(one[key] for one in rounds) for key in rounds[0]}
        | {"first_open_seconds": rounds[0]["open_seconds"]}
        for side, rounds in found.items()
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    sides = results["sides"]
    base = sides["memory"]
    lines = [
        f"`{results['command']}`, {results['machine']['cores']} cores, medians of {results['rounds']} rounds,"
        f" {base['rows_per_batch']:,.0f} feature rows a batch",
        "",
        "| graph | batches a second | relative to memory | CPU ms a batch | MB resident | MB own"
        " | opened in s (at first) |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    names = {
        "memory": "in memory",
        "mapped": "artifacts, mapped",
        "limited": f"artifacts, edges mapped, at most {RESIDENT >> 20} MiB of them resident",
    }
    for side, one in sides.items():
        speed = one["batches_per_second"]
        lines.append(
            f"| {names[side]} | {speed:.1f} | {speed / base['batches_per_second']:.2f}"
            f" | {one['cpu_ms_per_batch']:.1f}"
            f" | {one['grown_bytes'] / 1e6:,.0f} | {one['own_bytes'] / 1e6:,.0f}"
            f" | {one['open_seconds']:.1f} ({one['first_open_seconds']:.1f}) |"
        )
    ours = sides["mapped"]
    speed = ours["batches_per_second"] / base["batches_per_second"]
    memory = ours["own_bytes"] / base["own_bytes"]
    lines += [
        "",
        f"Targets, mapped: at least {LEAST_SPEED} of the speed in memory: {speed:.2f},"
        f" {'met' if speed >= LEAST_SPEED else 'missed'}; at most {MOST_MEMORY} of its own memory:"
        f" {memory:.2f}, {'met' if memory <= MOST_MEMORY else 'missed'}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("output", type=Path)
    parser.add_argument("--batches", type=int, default=100)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--side", choices=SIDES, help=argparse.SUPPRESS)
    parser.add_argument("--cache", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.side:
        print(json.dumps(run_side(args.side, args.graph, args.output, args.cache, args.batches)))
        return
    threads = os.environ.get("OMP_NUM_THREADS")
    results = {
        "command": (f"OMP_NUM_THREADS={threads} " if threads else "")
        + f"python -m benchmarks.training GRAPH OUTPUT --batches {args.batches} --rounds {args.rounds}",
        "machine": machine(),
        "rounds": args.rounds,
        "sides": compare(args),
    }
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "training.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.results / "training.md").write_text(page(results))
    print(page(results), end="")


if __name__ == "__main__":
    main()
