"""The benchmark graph with growth: new nodes and edges are appended.

Every growth adds the same share of nodes to each type and of edges to each edge type. New nodes are spread
over the communities in proportion to their sizes. A third of the new edges begin at new nodes, a third end at
them, and a third are between any nodes. The files of the old graph do not change: each growth adds a chunk to
every type and feature.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.mag_graph import EDGES, FEATURES, INSIDE, NODES, Drawn, Ids, Shape, distinct, draw_graph

GRAPH_NAME = "mag"
SPARE = 1.4


@dataclass
class GrowingGraph:
    """A graph in memory, and the numbers of nodes and edges of each chunk."""

    rng: np.random.Generator
    communities: dict[str, Ids]
    edges: dict[str, list[Ids]]
    node_chunks: dict[str, list[int]]

    @classmethod
    def drawn(cls, scale: float, seed: int = 0) -> GrowingGraph:
        rng = np.random.default_rng(seed)
        drawn: Drawn = draw_graph(rng, Shape(scale=scale))
        return cls(
            rng,
            drawn.communities,
            {name: [pairs] for name, pairs in drawn.edges.items()},
            {name: [len(found)] for name, found in drawn.communities.items()},
        )

    def grow(self, share: float) -> None:
        """Add a share of nodes and edges."""
        for name in NODES:
            old = self.communities[name]
            new = old[self.rng.integers(0, len(old), round(share * len(old)))]
            self.communities[name] = np.concatenate([old, new])
            self.node_chunks[name].append(len(new))
        for name in EDGES:
            self.edges[name].append(self._new_edges(name, share))

    def _new_edges(self, name: str, share: float) -> Ids:
        src_type, _, dst_type = name.split(":")
        old = np.concatenate(self.edges[name])
        wanted = round(share * len(old))
        count = round(SPARE * wanted)  # some exist already
        begin, end = count // 3, count // 3 * 2
        src, dst = np.empty((2, count), np.int64)
        src[:begin] = self._new_nodes(src_type, begin)
        dst[:begin] = self._beside(src[:begin], src_type, dst_type)
        dst[begin:end] = self._new_nodes(dst_type, end - begin)
        src[begin:end] = self._beside(dst[begin:end], dst_type, src_type)
        src[end:] = self.rng.integers(0, len(self.communities[src_type]), count - end)
        dst[end:] = self._beside(src[end:], src_type, dst_type)
        pairs = distinct(src, dst, same_type=src_type == dst_type)
        width = len(self.communities[dst_type])
        there = np.isin(pairs[:, 0] * width + pairs[:, 1], old[:, 0] * width + old[:, 1])
        return self.rng.permutation(pairs[~there], axis=0)[:wanted]

    def _new_nodes(self, node_type: str, count: int) -> Ids:
        total = len(self.communities[node_type])
        first = total - max(self.node_chunks[node_type][-1], 1)
        return self.rng.integers(first, total, count)

    def _beside(self, nodes: Ids, node_type: str, other_type: str) -> Ids:
        """Draw a node of another type for each: mostly of its community, with the skew of the old graph."""
        others = self.communities[other_type]
        order = np.argsort(others, kind="stable")
        ends = np.searchsorted(others[order], np.arange(others.max() + 2))
        theirs = np.minimum(self.communities[node_type][nodes], others.max())
        begin, size = ends[theirs], ends[theirs + 1] - ends[theirs]
        skewed = self.rng.random(len(nodes)) ** 2.5
        inside = (self.rng.random(len(nodes)) < INSIDE) & (size > 0)
        local = order[np.minimum(begin + (skewed * size).astype(np.int64), len(order) - 1)]
        return np.where(inside, local, (skewed * len(others)).astype(np.int64))

    def write(self, folder: Path, *, before: Path | None = None) -> Path:
        """Write the graph as Parquet; chunks of the folder ``before`` are linked, not written again."""
        document: dict[str, Any] = {
            "graph_name": GRAPH_NAME,
            "node_type": list(NODES),
            "num_nodes_per_chunk": [self.node_chunks[name] for name in NODES],
            "edge_type": list(EDGES),
            "num_edges_per_chunk": [[len(pairs) for pairs in self.edges[name]] for name in EDGES],
            "edges": {},
            "node_data": {"paper": {}},
            "edge_data": {},
        }
        for index, name in enumerate(EDGES):
            keys = [f"edges/{index}-{chunk}.parquet" for chunk in range(len(self.edges[name]))]
            for key, pairs in zip(keys, self.edges[name], strict=True):
                if _missing(folder / key, before and before / key):
                    pq.write_table(pa.table({"src": pairs[:, 0], "dst": pairs[:, 1]}), folder / key)
            document["edges"][name] = {"format": {"name": "parquet"}, "data": keys}
        counts = self.node_chunks["paper"]
        keys = [f"node_data/feat-{chunk}.npy" for chunk in range(len(counts))]
        for chunk, (key, count) in enumerate(zip(keys, counts, strict=True)):
            if _missing(folder / key, before and before / key):
                values = np.random.default_rng(chunk).standard_normal((count, FEATURES), np.float32)
                np.save(folder / key, values)
        document["node_data"]["paper"]["feat"] = {"format": {"name": "numpy"}, "data": keys}
        (folder / "metadata.json").write_text(json.dumps(document, indent=1))
        return folder


def _missing(path: Path, before: Path | None) -> bool:
    """Return whether a file must be written because it could not be linked."""
    path.parent.mkdir(parents=True, exist_ok=True)
    if before is not None and before.exists() and not path.exists():
        os.link(before, path)
    return not path.exists()
