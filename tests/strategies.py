"""Hypothesis strategies for small chunked graphs of every shape."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import strategies as st

from tests.graphs import Edges, Layout, SmallGraph, Values

NODE_NAMES = ("a", "paper", "B", "a.b", "two words", "знак", "x_1")
RELATIONS = ("r", "cites", "_E", "has-topic", "到", "r s")
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64"),
)
ROW_SHAPES = ((), (), (1,), (3,), (2, 2), (1, 2, 3))
DELIMITERS = (" ", ",", ";", "\t", "|")


@st.composite
def cuts(draw: st.DrawFn, rows: int) -> tuple[int, ...]:
    """Rows of one to four chunks, some of them perhaps empty."""
    marks = draw(st.lists(st.integers(0, rows), max_size=3))
    return tuple(end - start for start, end in pairwise(sorted([0, *marks, rows])))


@st.composite
def csv_layouts(draw: st.DrawFn, chunks: tuple[int, ...]) -> Layout:
    header = draw(st.booleans())
    return Layout("csv", chunks, draw(st.sampled_from(DELIMITERS)), header, draw(st.booleans()))


@st.composite
def edges(draw: st.DrawFn, sources: int, destinations: int) -> Edges:
    pairs: list[tuple[int, int]] = []
    if sources and destinations:
        ends = st.tuples(st.integers(0, sources - 1), st.integers(0, destinations - 1))
        pairs = draw(st.lists(ends, max_size=25))
    chunks = draw(cuts(len(pairs)))
    layout = draw(st.just(Layout("parquet", chunks)) | csv_layouts(chunks))
    return Edges([src for src, _ in pairs], [dst for _, dst in pairs], layout)


@st.composite
def values(draw: st.DrawFn, type_name: str, name: str, chunks: tuple[int, ...]) -> Values:
    """A feature with arbitrary bits, NaN of every kind among them, where the format carries bits.

    It has the chunks of its type, or a single file.
    """
    rows = sum(chunks)
    chunks = draw(st.sampled_from((chunks, (rows,))))
    dtype, shape = np.dtype(draw(st.sampled_from(DTYPES))), draw(st.sampled_from(ROW_SHAPES))
    rng = np.random.default_rng(draw(st.integers(0, 2**16)))
    kind = draw(st.sampled_from(("numpy", "parquet", "csv")))
    if kind == "csv":
        return _csv_values(type_name, name, rows, rng, draw(csv_layouts(chunks)))
    array = np.frombuffer(rng.bytes(rows * int(np.prod(shape)) * dtype.itemsize), dtype="u1")
    array = (array & 1).astype(np.bool_) if dtype == np.bool_ else array.view(dtype)
    array = array.reshape(rows, *shape)
    if kind == "numpy" and draw(st.booleans()):
        array = np.asfortranarray(array)
    if kind == "numpy" and dtype != np.bool_ and draw(st.booleans()):
        array = array.astype(dtype.newbyteorder(">"))
    return Values(type_name, name, array, Layout(kind, chunks))


def _csv_values(type_name: str, name: str, rows: int, rng: np.random.Generator, layout: Layout) -> Values:
    """Text has no dtypes: what it can say is int64, float64 and bool, in one or several columns."""
    shape = (rows,) if rng.random() < 0.5 else (rows, 3)
    kinds = (rng.normal(size=shape), rng.integers(-(2**62), 2**62, shape), rng.random(shape) < 0.5)
    return Values(type_name, name, kinds[rng.integers(0, 3)], layout)


@st.composite
def graphs(draw: st.DrawFn) -> SmallGraph:
    """Any graph of up to four node types with up to a dozen nodes each."""
    names = draw(st.lists(st.sampled_from(NODE_NAMES), min_size=1, max_size=4, unique=True))
    nodes = {name: draw(st.integers(0, 12)) for name in names}
    nodes[names[0]] += not any(nodes.values())
    end = st.sampled_from(names)
    types = draw(
        st.lists(st.tuples(end, st.sampled_from(RELATIONS), end), min_size=1, max_size=4, unique=True)
    )
    edge_types = {":".join(triple): draw(edges(nodes[triple[0]], nodes[triple[2]])) for triple in types}
    chunks = {name: draw(cuts(count)) for name, count in nodes.items()}
    node_values = [
        draw(values(name, f"f{index}", chunks[name]))
        for name in names
        for index in range(draw(st.integers(0, 2)))
    ]
    edge_values = [
        draw(values(name, f"f{index}", ends.layout.chunks or ()))
        for name, ends in edge_types.items()
        for index in range(draw(st.integers(0, 1)))
    ]
    counts = draw(st.sampled_from(("chunk", "type", "both")))
    return SmallGraph(nodes, edge_types, node_values, edge_values, chunks, counts)
