"""The output of ``pm_dglpart`` for a known assignment, written independently of the library."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.graphs import SmallGraph, Values

Row = tuple[object, ...]


@dataclass
class ParmetisOutput:
    """Rows of the files, to be changed by a test and written.

    Attributes:
        nodes: Rows of each partition's node file.
        edges: Rows of each partition's edge file.
        removed: Rows of the removed edges.
        new_ids: New ID by homogeneous ID.
        parts: Partition by homogeneous ID.
    """

    graph: SmallGraph
    nodes: list[list[Row]]
    edges: list[list[Row]]
    removed: list[Row]
    new_ids: np.ndarray
    parts: np.ndarray
    digits: str = ""

    def write(self, folder: Path) -> Path:
        folder.mkdir(parents=True, exist_ok=True)
        name = self.graph.name
        for kind, parts in (("nodes", self.nodes), ("edges", self.edges)):
            for part, rows in enumerate(parts):
                (folder / f"p{part:{self.digits}}-{name}_{kind}.txt").write_text(text(rows))
        if self.removed:
            (folder / f"{name}_removed_edges.txt").write_text(text(self.removed))
        return folder


def text(rows: list[Row]) -> str:
    return "".join(" ".join(map(str, row)) + "\n" for row in rows)


def offsets(graph: SmallGraph) -> dict[str, int]:
    """First homogeneous ID of each node type."""
    return dict(zip(graph.nodes, np.cumsum([0, *graph.nodes.values()]).tolist(), strict=False))


def schema(graph: SmallGraph, *, plain: bool = False) -> dict[str, dict[str, list[int]]]:
    ends = np.cumsum([0, *(len(edges.src) for edges in graph.edges.values())]).tolist()
    names = [name.split(":")[1] if plain else name for name in graph.edges]
    return {
        "nid": {name: [begin, begin + graph.nodes[name]] for name, begin in offsets(graph).items()},
        "eid": {name: [ends[i], ends[i + 1]] for i, name in enumerate(names)},
    }


def parmetis_output(
    graph: SmallGraph, num_parts: int, *, seed: int = 0, attributes: int = 0, keep_all: bool = False
) -> ParmetisOutput:
    """A random assignment; inside a type and partition the new IDs are shuffled, as ParMETIS may do."""
    rng = np.random.default_rng(seed)
    begins = offsets(graph)
    total = sum(graph.nodes.values())
    parts = rng.integers(0, num_parts, total)
    types = np.repeat(np.arange(len(graph.nodes)), list(graph.nodes.values()))
    order = np.lexsort([rng.random(total), types, parts])
    new_ids = np.empty(total, np.int64)
    new_ids[order] = np.arange(total)
    output = ParmetisOutput(
        graph, [[] for _ in range(num_parts)], [[] for _ in range(num_parts)], [], new_ids, parts
    )
    for old in range(total):
        type_id = int(types[old])
        weights = [int(other == type_id) for other in range(len(graph.nodes))]
        orig = old - list(begins.values())[type_id]
        row = (new_ids[old], type_id, *weights, orig, *(old + i / 4 for i in range(attributes)))
        output.nodes[parts[old]].append(row)
    seen = set()
    for type_id, (name, edges) in enumerate(graph.edges.items()):
        src_type, _, dst_type = name.split(":")
        for edge, (a, b) in enumerate(zip(edges.src, edges.dst, strict=True)):
            src, dst = a + begins[src_type], b + begins[dst_type]
            more = [edge * 10 + type_id + i for i in range(attributes)]
            if not keep_all and (src == dst or (src, dst, type_id) in seen):
                output.removed.append((src, dst, edge, type_id, *more))
                continue
            seen.add((src, dst, type_id))
            row = (new_ids[src], new_ids[dst], src, dst, edge, type_id, *more)
            output.edges[parts[dst]].append(row)
    for rows in (*output.nodes, *output.edges):
        rng.shuffle(rows)
    return output


def pm_dglpart(folder: Path, name: str, num_parts: int, *, seed: int = 0) -> ParmetisOutput:
    """Partition the three files in a folder at random, and write what ParmetisOutput describes there."""
    nodes = [line.split() for line in (folder / f"{name}_nodes.txt").read_text().splitlines()]
    edges = [line.split() for line in (folder / f"{name}_edges.txt").read_text().splitlines()]
    stats = (folder / f"{name}_stats.txt").read_text().split()
    if list(map(int, stats))[:2] != [len(nodes), len(edges)] or int(stats[2]) > len(nodes[0]) - 2:
        raise ValueError(f"{stats} do not describe the files")
    rng = np.random.default_rng(seed)
    parts = rng.integers(0, num_parts, len(nodes))
    order = np.lexsort([[int(node[0]) for node in nodes], parts])
    new_ids = np.empty(len(nodes), np.int64)
    new_ids[order] = np.arange(len(nodes))
    graph = SmallGraph({}, {}, name=name)
    output = ParmetisOutput(
        graph, [[] for _ in range(num_parts)], [[] for _ in range(num_parts)], [], new_ids, parts, "03d"
    )
    for old, node in enumerate(nodes):
        output.nodes[parts[old]].append((new_ids[old], *node))
    for edge in edges:
        src, dst = int(edge[0]), int(edge[1])
        output.edges[parts[dst]].append((new_ids[src], new_ids[dst], *edge))
    output.write(folder)
    return output


def attribute_table(
    values: Sequence[Values], types: Mapping[str, int], names: Sequence[str]
) -> dict[str, np.ndarray]:
    """(rows, columns) float64 by type: the attributes that the text must have, feature by feature.

    Args:
        values: Features of the nodes, or of the edges.
        types: Rows of each type.
        names: Of the features, in the order of their columns.
    """
    widths = {
        name: max(
            int(np.prod(value.array.shape[1:])) if len(value.array) else 0
            for value in values
            if value.name == name
        )
        for name in names
    }
    tables = {}
    for kind, rows in types.items():
        table = np.zeros((rows, sum(widths.values())))
        begin = 0
        for name, width in widths.items():
            for value in values:
                if (value.type_name, value.name) == (kind, name) and rows:
                    flat = value.array.reshape(rows, int(np.prod(value.array.shape[1:])))
                    table[:, begin : begin + flat.shape[1]] = as_text(flat)
            begin += width
        tables[kind] = table
    return tables


def as_text(values: np.ndarray) -> np.ndarray:
    """Return the values of the shortest texts of numbers; in their own dtype, these are the same numbers."""
    if values.dtype.kind != "f":
        return values
    written = values.astype(np.float32) if values.itemsize == 2 else values  # in either byte order
    text = written.astype(str)
    np.testing.assert_array_equal(text.astype(np.float64).astype(values.dtype), values)
    return text.astype(np.float64)
