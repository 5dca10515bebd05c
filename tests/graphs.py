"""Small graphs in memory, and how they are written as chunked graphs on disk."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq


@dataclass(frozen=True)
class Layout:
    """How the values of one edge type or feature are spread over files.

    Attributes:
        format: ``csv``, ``parquet`` or ``numpy``.
        chunks: Rows of each file; one file with everything where it is None.
        delimiter: For CSV.
        header: Whether a CSV has a line with names.
        flagged: Whether the metadata says so.
    """

    format: str = "parquet"
    chunks: tuple[int, ...] | None = None
    delimiter: str = ","
    header: bool = False
    flagged: bool = False

    def spec(self, files: list[str]) -> dict[str, Any]:
        described: dict[str, Any] = {"name": self.format}
        if self.format == "csv":
            described["delimiter"] = self.delimiter
            if self.flagged:
                described["header"] = self.header
        return {"format": described, "data": files}


@dataclass(frozen=True)
class Edges:
    """Edges of one canonical type; (n,) int64 type-wise IDs."""

    src: Sequence[int]
    dst: Sequence[int]
    layout: Layout = Layout()


@dataclass(frozen=True)
class Values:
    """One feature: (rows, ...) of its type."""

    type_name: str
    name: str
    array: np.ndarray
    layout: Layout = Layout("numpy")


@dataclass(frozen=True)
class SmallGraph:
    """A graph in memory.

    Attributes:
        nodes: Number of nodes, by type name, in type ID order.
        edges: By ``src:rel:dst``, in type ID order.
        counts: ``chunk``, ``type`` or ``both``: which counts the metadata has.
    """

    nodes: dict[str, int]
    edges: dict[str, Edges]
    node_values: list[Values] = field(default_factory=list)
    edge_values: list[Values] = field(default_factory=list)
    node_chunks: dict[str, tuple[int, ...]] = field(default_factory=dict)
    counts: str = "chunk"
    name: str = "small"

    def __repr__(self) -> str:
        values = [
            f"{v.type_name}/{v.name} {v.array.dtype} {v.array.shape} {v.layout}"
            for v in (*self.node_values, *self.edge_values)
        ]
        return f"SmallGraph(nodes={self.nodes}, edges={self.edges}, values={values}, counts={self.counts})"

    def parts(self, wanted: int) -> int:
        """So many partitions, or as many as there are nodes: more are refused."""
        return min(wanted, sum(self.nodes.values()))

    def write(self, folder: Path) -> Path:
        """Write the chunked graph into a folder."""
        document: dict[str, Any] = {
            "graph_name": self.name,
            "node_type": list(self.nodes),
            "edge_type": list(self.edges),
            **self._counts(),
            "edges": {},
            "node_data": {},
            "edge_data": {},
        }
        for index, (edge_type, edges) in enumerate(self.edges.items()):
            pairs = np.array([edges.src, edges.dst], np.int64).reshape(2, -1).T
            document["edges"][edge_type] = _write(
                folder, f"edges/{index}", pairs, edges.layout, ("src", "dst")
            )
        for key, values in (("node_data", self.node_values), ("edge_data", self.edge_values)):
            for index, value in enumerate(values):
                spec = _write(folder, f"{key}/{index}", value.array, value.layout)
                document[key].setdefault(value.type_name, {})[value.name] = spec
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "metadata.json").write_text(json.dumps(document, ensure_ascii=False))
        return folder

    def _counts(self) -> dict[str, Any]:
        counts: dict[str, Any] = {}
        if self.counts in ("chunk", "both"):
            nodes = [list(self.node_chunks.get(t, (n,))) for t, n in self.nodes.items()]
            edges = [list(e.layout.chunks or (len(e.src),)) for e in self.edges.values()]
            counts |= {"num_nodes_per_chunk": nodes, "num_edges_per_chunk": edges}
        if self.counts in ("type", "both"):
            counts |= {
                "num_nodes_per_type": list(self.nodes.values()),
                "num_edges_per_type": [len(e.src) for e in self.edges.values()],
            }
        return counts


def _write(
    folder: Path, stem: str, rows: np.ndarray, layout: Layout, names: tuple[str, ...] | None = None
) -> dict[str, Any]:
    files = []
    for index, chunk in enumerate(_chunks(rows, layout.chunks)):
        key = f"{stem}-{index}.{ {'numpy': 'npy'}.get(layout.format, layout.format) }"
        path = folder / key
        path.parent.mkdir(parents=True, exist_ok=True)
        if layout.format == "numpy":
            np.save(path, chunk, allow_pickle=False)
        elif layout.format == "parquet":
            pq.write_table(_table(chunk, names), path)
        else:
            path.write_text(_csv(chunk, layout, names))
        files.append(key)
    return layout.spec(files)


def _chunks(rows: np.ndarray, chunks: tuple[int, ...] | None) -> Iterator[np.ndarray]:
    start = 0
    for count in chunks or (len(rows),):
        yield rows[start : start + count]
        start += count


def _table(rows: np.ndarray, names: tuple[str, ...] | None) -> pa.Table:
    """Named scalar columns, or one column of scalars or fixed-size lists."""
    if names is not None:
        return pa.table({name: rows[:, index] for index, name in enumerate(names)})
    column = pa.array(rows.reshape(-1))
    for width in reversed(rows.shape[1:]):
        column = pa.FixedSizeListArray.from_arrays(column, width)
    return pa.table({"value": column})


def _csv(rows: np.ndarray, layout: Layout, names: tuple[str, ...] | None) -> str:
    table = rows if rows.ndim == 2 else rows.reshape(-1, 1)
    names = names or tuple(f"column{index}" for index in range(table.shape[1]))
    lines = [layout.delimiter.join(names)] if layout.header else []
    lines += [layout.delimiter.join(_text(value) for value in row) for row in table.tolist()]
    return "".join(f"{line}\n" for line in lines)


def _text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def library(*, papers: int = 40, seed: int = 0, layout: Layout = Layout()) -> SmallGraph:
    """A heterogeneous graph with skewed random edges and features of several dtypes and shapes."""
    rng = np.random.default_rng(seed)
    nodes = {"author": papers // 2, "paper": papers, "venue": 5}

    def edges(src: str, dst: str, count: int) -> Edges:
        pairs = {
            (int(a), int(b))
            for a, b in zip(
                rng.integers(0, nodes[src], count),
                (rng.random(count) ** 2 * nodes[dst]).astype(int),
                strict=True,
            )
            if src != dst or a != b
        }
        ordered = sorted(pairs)
        rng.shuffle(ordered)
        return Edges([a for a, _ in ordered], [b for _, b in ordered], layout)

    edge_types = {
        "author:writes:paper": edges("author", "paper", 3 * papers),
        "paper:cites:paper": edges("paper", "paper", 4 * papers),
        "paper:in:venue": edges("paper", "venue", papers),
    }
    feat = rng.normal(size=(papers, 8)).astype(np.float32)
    feat[:, 6:] = np.nan, 0.0  # what a comparison of values, instead of bits, gets wrong
    year = rng.integers(1990, 2030, len(edge_types["paper:cites:paper"].src))
    return SmallGraph(
        nodes,
        edge_types,
        node_values=[
            Values("paper", "feat", feat),
            Values("paper", "label", rng.integers(0, 9, papers)),
            Values("paper", "train_mask", rng.random(papers) < 0.5),
            Values("author", "grid", rng.normal(size=(papers // 2, 2, 3))),
        ],
        edge_values=[Values("paper:cites:paper", "year", year.astype(np.int16))],
    )


def social(*, people: int = 60, seed: int = 0) -> SmallGraph:
    """A homogeneous graph: one node type and one edge type."""
    rng = np.random.default_rng(seed)
    pairs = np.unique(rng.integers(0, people, (4 * people, 2)), axis=0)
    pairs = rng.permutation(pairs[pairs[:, 0] != pairs[:, 1]])
    return SmallGraph(
        {"_N": people},
        {"_N:_E:_N": Edges(pairs[:, 0].tolist(), pairs[:, 1].tolist())},
        node_values=[Values("_N", "feat", rng.normal(size=(people, 3)).astype(np.float32))],
        edge_values=[Values("_N:_E:_N", "weight", rng.random(len(pairs)))],
    )


def _shape(nodes: dict[str, int], edges: dict[str, tuple[list[int], list[int]]]) -> SmallGraph:
    """A graph with a feature on every type."""
    graph = SmallGraph(nodes, {name: Edges(*ends) for name, ends in edges.items()})
    node_values = [
        Values(name, "feat", np.arange(2 * count, dtype=np.float32).reshape(count, 2))
        for name, count in nodes.items()
    ]
    edge_values = [Values(name, "w", np.arange(len(ends[0]))) for name, ends in edges.items()]
    return replace(graph, node_values=node_values, edge_values=edge_values)


SHAPES = {
    "one node": _shape({"a": 1}, {"a:r:a": ([], [])}),
    "one self-loop": _shape({"a": 1}, {"a:r:a": ([0], [0])}),
    "isolated nodes": _shape({"a": 9}, {"a:r:a": ([0], [1])}),
    "no edges at all": _shape({"a": 4, "b": 3}, {"a:r:b": ([], [])}),
    "a type without nodes first": _shape(
        {"none": 0, "b": 5}, {"b:r:b": ([0, 1], [1, 2]), "none:r:b": ([], [])}
    ),
    "a type without nodes last": _shape(
        {"b": 5, "none": 0}, {"b:r:b": ([0, 1], [1, 2]), "b:r:none": ([], [])}
    ),
    "an edge type without edges": _shape({"a": 6}, {"a:r:a": ([0, 2], [1, 3]), "a:s:a": ([], [])}),
    "fewer nodes of a type than partitions": _shape(
        {"many": 12, "few": 2}, {"many:r:few": (list(range(12)), [0, 1] * 6)}
    ),
    "duplicates and self-loops": _shape({"a": 4}, {"a:r:a": ([0, 0, 0, 1, 2, 2], [1, 1, 1, 1, 3, 3])}),
    "self-loops that are there twice": _shape(
        {"a": 4, "b": 2},
        {"a:r:a": ([1, 1, 0, 0, 2, 1], [1, 1, 1, 1, 3, 1]), "a:s:b": ([1, 1], [1, 1]), "b:t:b": ([0], [0])},
    ),
    "a star": _shape({"hub": 1, "leaf": 20}, {"leaf:r:hub": (list(range(20)), [0] * 20)}),
    "the same relation between other types": _shape(
        {"a": 5, "b": 5}, {"a:r:b": ([0, 1], [1, 2]), "b:r:a": ([4, 3], [0, 0]), "a:r:a": ([0], [1])}
    ),
    "odd names": _shape({"a b.c": 4, "знак": 3}, {"a b.c:to-é:знак": ([0, 1, 3], [2, 1, 0])}),
    "only homogeneous": _shape({"_N": 8}, {"_N:_E:_N": ([0, 1, 2, 3, 4], [1, 2, 3, 4, 5])}),
}


def in_chunks(graph: SmallGraph, chunks: int) -> SmallGraph:
    """The same graph in several files of every kind and format."""

    def layout(rows: int, name: str) -> Layout:
        return Layout(name, tuple(len(piece) for piece in np.array_split(np.arange(rows), chunks)))

    edges = {name: replace(e, layout=layout(len(e.src), "parquet")) for name, e in graph.edges.items()}
    formats = ("parquet", "numpy", "csv", "numpy")
    return replace(
        graph,
        edges=edges,
        node_chunks={name: layout(count, "numpy").chunks or () for name, count in graph.nodes.items()},
        node_values=[
            replace(value, layout=layout(len(value.array), name))
            for value, name in zip(graph.node_values, formats, strict=True)
        ],
        edge_values=[replace(v, layout=layout(len(v.array), "parquet")) for v in graph.edge_values],
    )
