"""A synthetic graph shaped like ogbn-mag, in the chunked format, at any scale.

    python -m benchmarks.mag_graph OUTPUT [--scale 1] [--format csv|parquet] [--duplicates N]

Counts of nodes and edges are those of ogbn-mag without reverse edges, times the scale. Nodes of all types
share communities of Pareto-distributed sizes; degrees are skewed; IDs are independent of communities. It is
generated because the real graph is not available everywhere. The same arguments give the same files.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

NODES = {"author": 1_134_649, "field_of_study": 59_965, "institution": 8_740, "paper": 736_389}
EDGES = {
    "author:affiliated_with:institution": 1_043_998,
    "author:writes:paper": 7_145_660,
    "paper:cites:paper": 5_416_271,
    "paper:has_topic:field_of_study": 7_505_078,
}
COMMUNITIES = 2_000
INSIDE = 0.8  # share of edges inside a community
CHUNKS = 4
FEATURES = 128

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Shape:
    """The arguments that the graph depends on."""

    scale: float = 1.0
    format: str = "csv"
    duplicates: int = 0
    seed: int = 0

    def nodes(self, node_type: str) -> int:
        return max(int(NODES[node_type] * self.scale), 10)

    def edges(self, edge_type: str) -> int:
        return int(EDGES[edge_type] * self.scale)


@dataclass(frozen=True)
class Drawn:
    """A graph in memory.

    Attributes:
        communities: By node type, (nodes,) int64, the community of each node.
        edges: By edge type, (edges, 2) int64 type-wise IDs.
    """

    communities: dict[str, Ids]
    edges: dict[str, Ids]


def draw_graph(rng: np.random.Generator, shape: Shape) -> Drawn:
    """Draw nodes and edges; peak memory: 16 bytes an edge, and 60 bytes an edge of the largest edge type."""
    ends = draw_communities(rng, shape)
    labels = {name: rng.permutation(shape.nodes(name)) for name in NODES}
    edges = {}
    for edge_type in EDGES:
        src_type, _, dst_type = edge_type.split(":")
        draws = EdgeDraws(ends[src_type], ends[dst_type])
        src, dst = draws.draw(rng, shape.edges(edge_type))
        pairs = distinct(src, dst, same_type=src_type == dst_type)
        pairs = rng.permutation(pairs, axis=0)
        pairs = np.stack([labels[src_type][pairs[:, 0]], labels[dst_type][pairs[:, 1]]], axis=1)
        if shape.duplicates:
            pairs = np.concatenate([pairs, pairs[rng.integers(0, len(pairs), shape.duplicates)]])
        edges[edge_type] = pairs
    return Drawn({name: _communities(ends[name], labels[name]) for name in NODES}, edges)


def draw_communities(rng: np.random.Generator, shape: Shape) -> dict[str, Ids]:
    """Return, by node type, the end of each community among the nodes, which are in order of communities."""
    communities = max(int(COMMUNITIES * min(shape.scale, 1.0)), 4)
    shares = rng.pareto(2, communities) + 0.05
    return {name: _community_ends(shares, shape.nodes(name)) for name in NODES}


def write_graph(folder: Path, shape: Shape) -> None:
    """Write the graph; peak memory: that of `draw_graph`."""
    rng = np.random.default_rng(shape.seed)
    drawn = draw_graph(rng, shape)
    document = _metadata(shape)
    for index, (edge_type, pairs) in enumerate(drawn.edges.items()):
        _write_edges(folder, shape, document, edge_type, index, pairs)
    _write_features(folder, shape, document, rng)
    (folder / "metadata.json").write_text(json.dumps(document, indent=1))


def _communities(ends: Ids, labels: Ids) -> Ids:
    """Return the community of each node, after its ID has been permuted."""
    found = np.empty(len(labels), np.int64)
    found[labels] = np.searchsorted(ends, np.arange(len(labels)), side="right")
    return found


def _community_ends(shares: npt.NDArray[np.float64], nodes: int) -> Ids:
    """Return the end of each community among the nodes of a type, before their IDs are permuted."""
    ends = np.floor(np.cumsum(shares) / shares.sum() * nodes).astype(np.int64)
    ends[-1] = nodes
    return ends


@dataclass
class EdgeDraws:
    """Draws edges of one type: skewed sources over all communities, most destinations in the same one.

    Attributes:
        src_ends: (communities,) int64, the end of each community among the source nodes.
        dst_ends: The same of the destination nodes.
    """

    src_ends: Ids
    dst_ends: Ids
    _src_order: Ids | None = None
    _dst_order: Ids | None = None

    def draw(self, rng: np.random.Generator, count: int) -> tuple[Ids, Ids]:
        """Return (count,) sources and destinations, with duplicates; nodes are in order of communities."""
        src_ends, dst_ends = self.src_ends, self.dst_ends
        if self._src_order is None:
            self._src_order = rng.permutation(src_ends[-1])
        src = self._src_order[(rng.random(count) ** 1.5 * src_ends[-1]).astype(np.int64)]
        community = np.searchsorted(src_ends, src, side="right")
        begins = np.concatenate([np.zeros(1, np.int64), dst_ends[:-1]])
        size = (dst_ends - begins)[community]
        skewed = rng.random(count) ** 2.5
        local = begins[community] + (skewed * size).astype(np.int64)
        if self._dst_order is None:
            self._dst_order = rng.permutation(dst_ends[-1])
        anywhere = self._dst_order[(skewed * dst_ends[-1]).astype(np.int64)]
        inside = (rng.random(count) < INSIDE) & (size > 0)
        return src, np.where(inside, local, anywhere)


def distinct(src: Ids, dst: Ids, *, same_type: bool) -> Ids:
    """Return (n, 2) edges without duplicates, and without self-loops if both ends have one type."""
    width = int(dst.max()) + 1
    keys = np.unique(src * width + dst)
    pairs = np.stack([keys // width, keys % width], axis=1)
    return pairs[pairs[:, 0] != pairs[:, 1]] if same_type else pairs


def _metadata(shape: Shape) -> dict[str, Any]:
    return {
        "graph_name": "mag",
        "node_type": list(NODES),
        "num_nodes_per_chunk": [_split(shape.nodes(name)) for name in NODES],
        "edge_type": list(EDGES),
        "num_edges_per_chunk": [],
        "edges": {},
        "node_data": {},
        "edge_data": {},
    }


def _split(count: int) -> list[int]:
    return [len(chunk) for chunk in np.array_split(np.empty(count, np.int8), CHUNKS)]


def _write_edges(
    folder: Path, shape: Shape, document: dict[str, Any], edge_type: str, index: int, pairs: Ids
) -> None:
    files, counts = [], []
    (folder / "edges").mkdir(parents=True, exist_ok=True)
    for chunk, rows in enumerate(np.array_split(pairs, CHUNKS)):
        files.append(f"edges/{index}-{chunk}.{shape.format}")
        counts.append(len(rows))
        table = pa.table({"src": rows[:, 0], "dst": rows[:, 1]})
        if shape.format == "parquet":
            pq.write_table(table, folder / files[-1])
        else:
            options = pa_csv.WriteOptions(include_header=False, delimiter=" ")
            pa_csv.write_csv(table, folder / files[-1], options)
    described = {"name": shape.format, **({"delimiter": " "} if shape.format == "csv" else {})}
    document["edges"][edge_type] = {"format": described, "data": files}
    document["num_edges_per_chunk"].append(counts)


def _write_features(folder: Path, shape: Shape, document: dict[str, Any], rng: np.random.Generator) -> None:
    (folder / "node_data").mkdir(parents=True, exist_ok=True)
    specs: dict[str, Any] = {}
    for name in ("feat", "label", "train_mask"):
        files = []
        for chunk, rows in enumerate(_split(shape.nodes("paper"))):
            values = {
                "feat": lambda rows=rows: rng.standard_normal((rows, FEATURES), np.float32),
                "label": lambda rows=rows: rng.integers(0, 349, rows),
                "train_mask": lambda rows=rows: rng.random(rows) < 0.85,
            }[name]()
            files.append(f"node_data/{name}-{chunk}.npy")
            np.save(folder / files[-1], values)
        specs[name] = {"format": {"name": "numpy"}, "data": files}
    document["node_data"]["paper"] = specs


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--format", choices=["csv", "parquet"], default="csv")
    parser.add_argument(
        "--duplicates", type=int, default=0, help="number of duplicates to add to each edge type"
    )
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    write_graph(args.output, Shape(args.scale, args.format, args.duplicates, args.seed))


if __name__ == "__main__":
    main()
