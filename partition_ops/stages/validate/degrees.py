"""Figures of the degrees of the nodes of each type, which can be added up over ranges of nodes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.validate.connectivity import Connectivity, full_degrees

NODES_AT_ONCE = 1 << 20
DEGREE_BINS = (0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def _no_nodes() -> list[int]:
    return [0] * len(DEGREE_BINS)


@dataclass(frozen=True)
class DegreeFigures:
    """Figures of the degrees of some nodes of one type.

    Attributes:
        isolated: Number of nodes without any edge.
        max_in: Largest in-degree.
        max_out: Largest out-degree.
        total: Sum of all in- and out-degrees.
        in_bins: Number of nodes with an in-degree from each of `DEGREE_BINS` up to the next.
        out_bins: The same for out-degrees.
    """

    isolated: int = 0
    max_in: int = 0
    max_out: int = 0
    total: int = 0
    in_bins: list[int] = field(default_factory=_no_nodes)
    out_bins: list[int] = field(default_factory=_no_nodes)

    def __add__(self, other: DegreeFigures) -> DegreeFigures:
        """Return the figures of the nodes of both."""
        return DegreeFigures(
            self.isolated + other.isolated,
            max(self.max_in, other.max_in),
            max(self.max_out, other.max_out),
            self.total + other.total,
            [a + b for a, b in zip(self.in_bins, other.in_bins, strict=True)],
            [a + b for a, b in zip(self.out_bins, other.out_bins, strict=True)],
        )


def degree_figures(
    metadata: GraphMetadata,
    in_degrees: npt.NDArray[np.integer[Any]],
    out_degrees: npt.NDArray[np.integer[Any]],
    first: int = 0,
) -> list[DegreeFigures]:
    """Return the figures of a range of nodes, by node type ID.

    Args:
        metadata: The graph's metadata.
        in_degrees: (n,) integers, in-degrees by homogeneous ID.
        out_degrees: (n,) the same for out-degrees.
        first: Homogeneous ID of the first node.
    """
    found = []
    for type_id in range(len(metadata.node_types)):
        begin, end = (max(at - first, 0) for at in metadata.node_offsets[type_id : type_id + 2])
        ins, outs = in_degrees[begin:end], out_degrees[begin:end]
        found.append(
            DegreeFigures(
                int(((ins == 0) & (outs == 0)).sum()),
                int(ins.max(initial=0)),
                int(outs.max(initial=0)),
                int(ins.sum() + outs.sum()),
                _binned(ins),
                _binned(outs),
            )
        )
    return found


def degrees_of(metadata: GraphMetadata, connectivity: Connectivity) -> list[DegreeFigures]:
    """Return the figures of all nodes by node type ID. Peak memory: 50 MiB."""
    nodes = sum(metadata.num_nodes)
    spans = [slice(at, min(at + NODES_AT_ONCE, nodes)) for at in range(0, max(nodes, 1), NODES_AT_ONCE)]
    ins, outs = connectivity.in_degrees, connectivity.out_degrees
    return sum_of_figures(
        degree_figures(metadata, full_degrees(*ins.of(span)), full_degrees(*outs.of(span)), span.start)
        for span in spans
    )


def sum_of_figures(found: Iterable[Sequence[DegreeFigures]]) -> list[DegreeFigures]:
    """Return the figures of all nodes by node type ID, from those of several ranges."""
    return [sum(of_type, DegreeFigures()) for of_type in zip(*found, strict=True)]


def _binned(degrees: npt.NDArray[np.integer[Any]]) -> list[int]:
    counts = np.bincount(np.minimum(degrees, DEGREE_BINS[-1]), minlength=DEGREE_BINS[-1] + 1)
    return [int(count) for count in np.add.reduceat(counts, DEGREE_BINS)]
