"""The input graphs of `tests.golden.make_same_bytes`, built from fixed seeds without the library.

A change to a graph changes the digests of its cases in ``same_bytes.json``.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np

from tests.graphs import Edges, Layout, SmallGraph, Values

COMMUNITIES = 12
PARQUET = Layout()
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
NAN = float("nan")


def random_pairs(rng: np.random.Generator, src: np.ndarray, dst: np.ndarray, count: int) -> np.ndarray:
    """Return (n, 2) distinct pairs of different IDs; about four in five stay inside a community.

    Args:
        rng: The source of randomness.
        src: Community of every source node.
        dst: Community of every destination node.
        count: Number of pairs before duplicates and self-loops are removed.
    """
    order = np.argsort(dst, kind="stable")
    starts = np.searchsorted(dst[order], np.arange(COMMUNITIES + 1))
    sources = rng.integers(0, len(src), count)
    begins, sizes = starts[src[sources]], np.diff(starts)[src[sources]]
    inside = order[begins + rng.integers(0, 1 << 30, count) % np.maximum(sizes, 1)]
    anywhere = rng.integers(0, len(dst), count)
    found = np.stack([sources, np.where(rng.random(count) < 0.8, inside, anywhere)], axis=1)
    found = np.unique(found[found[:, 0] != found[:, 1]], axis=0)
    return found[rng.permutation(len(found))]


def edges(found: np.ndarray, layout: Layout = PARQUET) -> Edges:
    return Edges(found[:, 0].tolist(), found[:, 1].tolist(), layout)


def chunks(rows: int, count: int) -> tuple[int, ...]:
    return tuple(len(piece) for piece in np.array_split(np.arange(rows), count))


def random_values(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    """Return integers over the whole range of a dtype, or eighths with NaN and infinity."""
    if dtype == "bool":
        return rng.random(shape) < 0.5
    if dtype.startswith("float"):
        found = (rng.integers(-4000, 4000, shape) / 8).astype(dtype)
        found.flat[1:3] = NAN, np.inf
        return found
    limits = np.iinfo(dtype)
    return rng.integers(limits.min, limits.max, shape, dtype=dtype, endpoint=True)


def library(papers: int = 300, seed: int = 1) -> SmallGraph:
    """Return three node types and four edge types in several chunks, with features and a train mask."""
    rng = np.random.default_rng(seed)
    nodes = {"author": papers // 2, "paper": papers, "venue": 13}
    community = {name: rng.integers(0, COMMUNITIES, count) for name, count in nodes.items()}
    counts = {"author:writes:paper": 3, "paper:cites:paper": 5, "paper:cites:author": 1, "paper:in:venue": 1}
    found = {}
    for name, factor in counts.items():
        src, _, dst = name.split(":")
        ends = random_pairs(rng, community[src], community[dst], factor * papers)
        found[name] = edges(ends, Layout("parquet", chunks(len(ends), 2)))
    cites = len(found["paper:cites:paper"].src)
    return SmallGraph(
        nodes,
        found,
        node_values=[
            Values("paper", "feat", (rng.integers(-99, 99, (papers, 8)) / 4).astype(np.float32)),
            Values("paper", "label", rng.integers(0, 4, papers)),
            Values("paper", "train_mask", rng.random(papers) < 0.4),
            Values("author", "grid", rng.integers(-9, 9, (papers // 2, 2, 3)) / 8),
            Values("venue", "train_mask", rng.random(13) < 0.4),
        ],
        edge_values=[Values("paper:cites:paper", "year", rng.integers(1990, 2030, cites).astype(np.int16))],
        name="library",
    )


def grown_graph(graph: SmallGraph, seed: int = 2) -> SmallGraph:
    """Return a graph with a tenth more nodes and edges of every type; old ones keep their IDs."""
    rng = np.random.default_rng(seed)
    nodes = {name: count + count // 10 for name, count in graph.nodes.items()}
    more = {}
    for name, old in graph.edges.items():
        src, _, dst = name.split(":")
        new = rng.integers(0, (nodes[src], nodes[dst]), (len(old.src) // 10, 2))
        new = new[(new[:, 0] != new[:, 1]) | (src != dst)]
        known = set(zip(old.src, old.dst, strict=True))
        fresh = sorted({(a, b) for a, b in new.tolist()} - known)
        ends = np.array([*zip(old.src, old.dst, strict=True), *fresh])
        more[name] = edges(ends, replace(old.layout, chunks=None))
    rows = nodes | {name: len(found.src) for name, found in more.items()}

    def longer(one: Values) -> Values:
        extra = one.array[rng.integers(0, len(one.array), rows[one.type_name] - len(one.array))]
        return replace(one, array=np.concatenate([one.array, extra]))

    return replace(
        graph,
        nodes=nodes,
        edges=more,
        node_values=[longer(one) for one in graph.node_values],
        edge_values=[longer(one) for one in graph.edge_values],
    )


def large(nodes: int = 22_000) -> SmallGraph:
    """Return a graph with communities, large enough for the engine two-level to contract it."""
    rng = np.random.default_rng(4)
    count = 50
    ends = rng.integers(0, nodes, (6 * nodes, 2))
    inside = rng.random(len(ends)) < 0.95
    ends[inside, 1] = ends[inside, 0] // count * count + ends[inside, 1] % count
    ends[:, 1] = np.minimum(ends[:, 1], nodes - 1)
    ends = np.unique(ends[ends[:, 0] != ends[:, 1]], axis=0)
    return SmallGraph({"_N": nodes}, {"_N:_E:_N": edges(ends)}, name="large")


def defects() -> SmallGraph:
    """Return a graph with duplicates, self-loops, duplicate self-loops, parallel and reversed edges."""
    rng = np.random.default_rng(5)
    community = {"a": rng.integers(0, COMMUNITIES, 150), "b": rng.integers(0, COMMUNITIES, 80)}

    def damaged(name: str, count: int) -> np.ndarray:
        src, _, dst = name.split(":")
        good = random_pairs(rng, community[src], community[dst], count)
        loops = np.repeat(rng.integers(0, 80, 9), 2).reshape(9, 2) if src == dst else good[:0]
        bad = np.concatenate([good, good[rng.integers(0, len(good), 25)], loops, loops[:4]])
        return bad[rng.permutation(len(bad))]

    names = {"a:r:a": 600, "a:s:a": 300, "a:t:b": 400, "b:u:b": 200}
    found = {name: damaged(name, count) for name, count in names.items()}
    return SmallGraph(
        {"a": 150, "b": 80},
        {name: edges(ends, Layout("parquet", chunks(len(ends), 3))) for name, ends in found.items()},
        node_values=[Values("a", "f", np.arange(300, dtype=np.float32).reshape(150, 2))],
        edge_values=[
            Values(name, "w", np.arange(len(ends)), Layout("parquet", chunks(len(ends), 3)))
            for name, ends in found.items()
        ],
        name="defects",
    )


def dtypes() -> SmallGraph:
    """Return features of every dtype and format on nodes and edges, of rank 1 to 4."""
    rng = np.random.default_rng(6)
    nodes = {"a": 90, "b": 70}
    community = {name: rng.integers(0, COMMUNITIES, count) for name, count in nodes.items()}
    found = {
        name: random_pairs(rng, community[name[0]], community[name[-1]], 260)
        for name in ("a:r:b", "b:s:a", "a:t:a")
    }
    rows = {**nodes, **{name: len(ends) for name, ends in found.items()}}
    shapes = ((), (3,), (2, 2), (1, 2, 3), (1,))
    node_values, edge_values = [], []
    for index, dtype in enumerate(DTYPES):
        for offset, kind in enumerate(("numpy", "parquet")):
            shape = shapes[(index + offset) % len(shapes)]
            for into, types in ((node_values, ("a", "b")), (edge_values, ("a:r:b", "b:s:a"))):
                type_name = types[(index + offset) % 2]
                array = random_values(rng, dtype, (rows[type_name], *shape))
                pieces = chunks(len(array), 3) if index % 2 else None
                into.append(Values(type_name, f"{dtype}_{kind}", array, Layout(kind, pieces)))
    big_endian = random_values(rng, "float64", (90, 2)).astype(">f8")
    fortran = np.asfortranarray(random_values(rng, "int32", (70, 5)))
    node_values += [
        Values("a", "big_endian", big_endian),
        Values("b", "fortran", fortran, Layout("numpy", chunks(70, 3))),
    ]
    for index, (dtype, width) in enumerate((d, w) for d in ("bool", "int64", "float64") for w in (1, 3)):
        delimiter = " ,;\t|:"[index]
        for into, type_name in ((node_values, "b"), (edge_values, "a:t:a")):
            array = random_values(rng, dtype, (rows[type_name], width)[: 1 if width == 1 else 2])
            layout = Layout("csv", chunks(len(array), 3), delimiter, header=index % 2 == 1, flagged=index > 2)
            into.append(Values(type_name, f"{dtype}_csv{width}", array, layout))
    return SmallGraph(
        nodes,
        {name: edges(ends, Layout("parquet", chunks(len(ends), 3))) for name, ends in found.items()},
        node_values=node_values,
        edge_values=edge_values,
        node_chunks={name: chunks(count, 3) for name, count in nodes.items()},
        counts="both",
        name="dtypes",
    )


def tiny_graph() -> SmallGraph:
    """Return the input of ``old_output``."""
    rng = np.random.default_rng(11)
    ids = rng.integers(0, 3, 24)
    cites = random_pairs(rng, ids, ids, 50)
    written = np.stack([np.arange(24) % 5, np.arange(24)], axis=1)
    return SmallGraph(
        {"author": 5, "paper": 24},
        {"author:writes:paper": edges(written, Layout("csv")), "paper:cites:paper": edges(cites)},
        node_values=[Values("paper", "feat", np.arange(48, dtype=np.float32).reshape(24, 2))],
        edge_values=[Values("paper:cites:paper", "year", np.arange(len(cites), dtype=np.int16))],
        name="tiny",
    )


def write_pm_dglpart_output(folder: Path, name: str, num_parts: int) -> None:
    """Write the output of ``pm_dglpart`` for a random assignment beside its input.

    New IDs are contiguous by partition and type, and random inside a type.
    """
    rng = np.random.default_rng(12)
    nodes, links = (
        [line.split() for line in (folder / f"{name}_{kind}.txt").read_text().splitlines()]
        for kind in ("nodes", "edges")
    )
    parts = rng.integers(0, num_parts, len(nodes))
    order = np.lexsort([rng.random(len(nodes)), [int(node[0]) for node in nodes], parts])
    new_ids = np.argsort(order)
    rows = {(part, kind): [] for part in range(num_parts) for kind in ("nodes", "edges")}
    for node, part, new_id in zip(nodes, parts.tolist(), new_ids.tolist(), strict=True):
        rows[part, "nodes"].append([new_id, *node])
    for link in links:
        ends = int(link[0]), int(link[1])
        rows[int(parts[ends[1]]), "edges"].append([*new_ids[[*ends]].tolist(), *link])
    for (part, kind), found in rows.items():
        text = "".join(" ".join(map(str, row)) + "\n" for row in found)
        (folder / f"p{part:03d}-{name}_{kind}.txt").write_text(text)


@cache
def graphs() -> dict[str, SmallGraph]:
    """Return each graph, by its name in the cases."""
    old = library()
    return {
        "library": old,
        "grown": grown_graph(old),
        "large": large(),
        "defects": defects(),
        "dtypes": dtypes(),
        "csv": replace(tiny_graph(), name="csv"),
    }
