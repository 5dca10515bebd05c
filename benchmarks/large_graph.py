"""The graph of `benchmarks.mag_graph` without features, at scales at which its edges do not fit in memory.

    python -m benchmarks.large_graph OUTPUT --scale 52

Edges are drawn block by block and written as Parquet files of 32-bit integers, 8 bytes an edge. Unlike
`benchmarks.mag_graph`, it does not remove duplicates and self-loops; ``prepare`` does. The same arguments
give the same files.
"""

from __future__ import annotations

import argparse
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.mag_graph import COMMUNITIES, EDGES, INSIDE, NODES, Shape
from partition_ops.system.compilation import compiled
from partition_ops.system.parallel import map_in_threads

FILE_EDGES, BLOCK_EDGES = 1 << 24, 1 << 20
GOLDEN_RATIO = 0.6180339887

Ids = npt.NDArray[np.int64]
Labels = npt.NDArray[np.int32]


def write_large_graph(folder: Path, scale: float, seed: int = 0) -> int:
    """Write the graph and return its number of edges; peak memory: 12 bytes a node of the largest types."""
    shape = Shape(scale=scale, seed=seed)
    rng = np.random.default_rng(seed)
    shares = rng.pareto(2, COMMUNITIES) + 0.05
    shares = np.cumsum(shares) / shares.sum()
    ends = {name: np.floor(shares * shape.nodes(name)).astype(np.int64) for name in NODES}
    for name in NODES:
        ends[name][-1] = shape.nodes(name)
    (folder / "edges").mkdir(parents=True)
    files: dict[str, list[str]] = {}
    counts: list[list[int]] = []
    for number, edge_type in enumerate(EDGES):
        src, _, dst = edge_type.split(":")
        labels = tuple(_labels(seed, name, shape.nodes(name)) for name in (src, dst))
        sizes = _sizes(shape.edges(edge_type))
        files[edge_type] = [f"edges/{number}-{index}.parquet" for index in range(len(sizes))]
        counts.append(sizes)

        def write(
            index: int,
            edge_type: str = edge_type,
            sizes: list[int] = sizes,
            labels: tuple[Labels, ...] = labels,
            ends: tuple[Ids, Ids] = (ends[src], ends[dst]),
            number: int = number,
        ) -> None:
            start = np.uint64((seed * len(EDGES) + number) * 1_000_003 + index) << np.uint64(32)
            _write_file(folder / files[edge_type][index], sizes[index], start, labels, ends)

        for _ in map_in_threads(write, range(len(sizes))):
            pass
    document: dict[str, Any] = {
        "graph_name": "mag",
        "node_type": list(NODES),
        "num_nodes_per_chunk": [[shape.nodes(name)] for name in NODES],
        "edge_type": list(EDGES),
        "num_edges_per_chunk": counts,
        "edges": {name: {"format": {"name": "parquet"}, "data": some} for name, some in files.items()},
        "node_data": {},
        "edge_data": {},
    }
    (folder / "metadata.json").write_text(json.dumps(document, indent=1))
    return sum(map(sum, counts))


def _labels(seed: int, node_type: str, count: int) -> Labels:
    """Return the ID of each node, which has nothing to do with its community."""
    labels = np.arange(count, dtype=np.int32)
    np.random.default_rng([seed, list(NODES).index(node_type)]).shuffle(labels)
    return labels


def _sizes(edges: int) -> list[int]:
    """Return the number of edges of each file."""
    count = -(-edges // FILE_EDGES)
    return [edges * (i + 1) // count - edges * i // count for i in range(count)]


def _write_file(
    path: Path, edges: int, start: np.uint64, labels: tuple[Labels, ...], ends: tuple[Ids, Ids]
) -> None:
    schema = pa.schema([("src", pa.int32()), ("dst", pa.int32())])
    with pq.ParquetWriter(path, schema, compression="none", use_dictionary=False) as writer:
        for first in range(0, edges, BLOCK_EDGES):
            src, dst = (np.empty(min(BLOCK_EDGES, edges - first), np.int32) for _ in range(2))
            steps = [_coprime(len(one)) for one in labels]
            draw_edges(start + np.uint64(4 * first), *labels, *ends, *steps, INSIDE, src, dst)
            writer.write_table(pa.table([src, dst], schema=schema))


def _coprime(count: int) -> int:
    """Return a number without common divisors; its multiples are spread over the numbers below ``count``."""
    step = int(count * GOLDEN_RATIO) | 1
    while math.gcd(step, count) != 1:
        step += 2
    return step


@compiled
def _uniform(number: np.uint64) -> float:
    """Return a pseudo-random number from 0 up to 1 by splitmix64."""
    x = (number + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return float((x ^ (x >> np.uint64(31))) >> np.uint64(11)) / 2.0**53


@compiled
def draw_edges(
    start: np.uint64,
    src_labels: Labels,
    dst_labels: Labels,
    src_ends: Ids,
    dst_ends: Ids,
    src_step: int,
    dst_step: int,
    inside: float,
    src: Labels,
    dst: Labels,
) -> None:
    """Draw skewed sources over all communities, and destinations mostly in the source's community.

    Args:
        start: Number of the first random number.
        src_labels: (sources,) int32, the ID of each node by its place among the communities.
        dst_labels: (destinations,) the same.
        src_ends: (communities,) int64, end of each community among the places of the sources.
        dst_ends: (communities,) the same for the destinations.
        src_step: A number without common divisors with the number of sources.
        dst_step: The same for the destinations.
        inside: Share of edges inside a community.
        src: (n,) int32, output.
        dst: (n,) int32, output.
    """
    for i in range(len(src)):
        at = start + np.uint64(4 * i)
        u, v = _uniform(at), _uniform(at + np.uint64(1))
        place = np.int64(u * math.sqrt(u) * len(src_labels)) * src_step % len(src_labels)
        community = np.searchsorted(src_ends, place, side="right")
        begin = dst_ends[community - 1] if community else 0
        size = dst_ends[community] - begin
        skewed = v * v * math.sqrt(v)
        if _uniform(at + np.uint64(2)) < inside and size > 0:
            other = begin + np.int64(skewed * size)
        else:
            other = np.int64(skewed * len(dst_labels)) * dst_step % len(dst_labels)
        src[i], dst[i] = src_labels[place], dst_labels[other]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    print(write_large_graph(args.output, args.scale, args.seed), "edges")


if __name__ == "__main__":
    main()
