"""The graph in memory, between the modules and the files."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.generic]
Ints = npt.NDArray[np.int64]


@dataclass
class Nodes:
    """All nodes of a type.

    Attributes:
        names: Unique names, by type-wise ID.
        features: Arrays with a row a node.
    """

    names: list[str]
    features: dict[str, Array] = field(default_factory=dict)


@dataclass
class Edges:
    """All edges of a type, by type-wise IDs of their ends, sorted, each pair once.

    Attributes:
        src: Sources.
        dst: Destinations.
        features: Arrays with a row an edge.
    """

    src: Ints
    dst: Ints
    features: dict[str, Array] = field(default_factory=dict)


@dataclass
class Graph:
    """The whole graph; edges by ``src:rel:dst``.

    Attributes:
        nodes: By node type.
        edges: By edge type.
        classes: The distributions that labels stand for, by label; empty for all the others.
        calls: Numbers of call sites by outcome.
    """

    nodes: dict[str, Nodes]
    edges: dict[str, Edges]
    classes: list[str]
    calls: dict[str, int]


def unique_edges(
    src: Ints, dst: Ints, sums: Ints, *, same_type: bool, feature: str = "", dtype: type = np.int32
) -> Edges:
    """Return edges sorted by source and destination, with equal ones merged.

    Args:
        src: Sources, with repetitions.
        dst: Destinations.
        sums: Values whose sum is the feature of a merged edge.
        same_type: Sources and destinations are of one type: self-loops are left out.
        feature: Name of the feature; default: no feature.
        dtype: Its dtype.
    """
    if same_type:
        keep = src != dst
        src, dst, sums = src[keep], dst[keep], sums[keep]
    order = np.lexsort((dst, src))
    src, dst, sums = src[order], dst[order], sums[order]
    first = np.ones(len(src), bool)
    first[1:] = (src[1:] != src[:-1]) | (dst[1:] != dst[:-1])
    begins = np.flatnonzero(first)
    merged = np.add.reduceat(sums, begins) if len(begins) else sums
    return Edges(src[begins], dst[begins], {feature: merged.astype(dtype)} if feature else {})


def edges_of_rows(
    rows: Iterable[tuple[int, int, int]], *, same_type: bool, feature: str = "", dtype: type = np.int32
) -> Edges:
    """Return the same from rows of source, destination and summand."""
    src, dst, sums = np.array(list(rows), np.int64).reshape(-1, 3).T
    return unique_edges(src, dst, sums, same_type=same_type, feature=feature, dtype=dtype)
