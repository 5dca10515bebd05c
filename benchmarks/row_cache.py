"""Measure the cache of feature blocks from S3 by its size.

    python -m benchmarks.row_cache OUTPUT [--node-type paper] [--feature feat] [--limits 64 256 512]

OUTPUT is a finished output, ``s3://…``; boto3's environment variables name the server. For each limit, in
MiB, a process of its own samples batches of 1024 random nodes with two layers of ten neighbours and
prefetches the feature of all inputs, by `partition_ops.train.block_cache.BlockCache`. The second half of the
batches is counted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from benchmarks.processes import machine, measure

BATCH, FANOUTS = 1024, [10, 10]
MIB = 1 << 20


def run_limit(args: argparse.Namespace, limit: int) -> dict[str, Any]:
    """Measure one size of the cache in this process."""
    import torch

    from partition_ops.system.dgl_import import import_dgl
    from partition_ops.train import PartitionedGraph

    dgl = import_dgl()
    ntype, name = args.node_type, args.feature
    with PartitionedGraph(
        args.output, cache=args.cache, features="ranges", row_cache_bytes=limit * MIB
    ) as graph:
        torch.manual_seed(0)
        seeds = {ntype: torch.randperm(graph.num_nodes(ntype))[: args.batches * BATCH]}
        sampler = dgl.dataloading.NeighborSampler(FANOUTS, prefetch_node_feats={ntype: [name]})
        marks, rows = [], []
        for _, _, blocks in dgl.dataloading.DataLoader(graph, seeds, sampler, batch_size=BATCH):
            rows.append(len(blocks[0].srcnodes[ntype].data[name]))
            counts = graph.blocks
            marks.append((time.perf_counter(), counts.requests, counts.fetched_bytes, counts.hits))
        feature_bytes = graph.num_nodes(ntype) * graph.node_rows(name, ntype).row_bytes
        block_bytes = graph.blocks.block_bytes
    half = len(marks) // 2
    seconds, requests, fetched, hits = (
        (last - first) / (len(marks) - half) for first, last in zip(marks[half - 1], marks[-1], strict=True)
    )
    return {
        "limit_mib": limit,
        "feature_bytes": feature_bytes,
        "rows_per_batch": sum(rows[half:]) / len(rows[half:]),
        "requests_per_batch": requests,
        "fetched_bytes_per_batch": fetched,
        "hit_share": hits / (hits + fetched / block_bytes) if hits or fetched else 0.0,
        "batches_per_second": 1 / seconds,
    }


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    rows = results["limits"]
    lines = [
        f"`{results['command']}`, {results['machine']['cores']} cores, features of"
        f" {rows[0]['feature_bytes'] / 1e6:,.0f} MB, {rows[0]['rows_per_batch']:,.0f} rows a batch",
        "",
        "| cache in MiB | cache hits (blocks) | requests a batch | MB fetched a batch | batches a second |",
        "|---:|---:|---:|---:|---:|",
    ]
    lines += [
        f"| {one['limit_mib']:,} | {one['hit_share']:.1%} | {one['requests_per_batch']:,.0f}"
        f" | {one['fetched_bytes_per_batch'] / 1e6:,.1f} | {one['batches_per_second']:.2f} |"
        for one in rows
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output")
    parser.add_argument("--node-type", default="paper")
    parser.add_argument("--feature", default="feat")
    parser.add_argument("--limits", metavar="MIB", type=int, nargs="+", default=[64, 256, 512])
    parser.add_argument("--batches", type=int, default=10)
    parser.add_argument("--cache", type=Path, required=True, help="folder for the edges")
    parser.add_argument("--results", type=Path, default=Path(__file__).parent / "results")
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.limit is not None:
        print(json.dumps(run_limit(args, args.limit)))
        return
    found = []
    for limit in args.limits:
        print(f"{limit} MiB", file=sys.stderr, flush=True)
        command = [sys.executable, "-m", "benchmarks.row_cache", *sys.argv[1:], "--limit", str(limit)]
        found.append(json.loads(measure(command).output.splitlines()[-1]))
    results = {
        "command": "python -m benchmarks.row_cache OUTPUT",
        "machine": machine(),
        "limits": found,
    }
    args.results.mkdir(parents=True, exist_ok=True)
    (args.results / "row_cache.json").write_text(json.dumps(results, indent=1) + "\n")
    (args.results / "row_cache.md").write_text(page(results))
    print(page(results), end="")


if __name__ == "__main__":
    main()
