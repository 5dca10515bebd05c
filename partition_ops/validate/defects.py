"""Duplicate and self-loop edges."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ids = npt.NDArray[np.int64]
EXAMPLES = 10


@dataclass(frozen=True)
class Defect:
    """Edges of one type that fail one check.

    Attributes:
        check: ``duplicate_edges`` or ``self_loop_edges``.
        type_name: The edge type as ``src:rel:dst``.
        count: Edges that are too many.
        examples: The first ones: type-wise edge ID, source and destination (type-wise IDs).
    """

    check: str
    type_name: str
    count: int
    examples: list[dict[str, int]]

    def sentence(self) -> str:
        """One line for a message."""
        first = ", ".join(f"{e['src']} -> {e['dst']} (edge {e['edge_id']})" for e in self.examples[:3])
        return f"{self.count} {self.check.replace('_', ' ')} of type {self.type_name!r}, first {first}"


def find_self_loops(type_name: str, src: Ids, dst: Ids) -> list[Defect]:
    """Edges from a node to itself; the types of both ends must be the same."""
    loops = np.flatnonzero(src == dst)
    return [_defect("self_loop_edges", type_name, loops, src, dst)] if len(loops) else []


def find_duplicates(type_name: str, src: Ids, dst: Ids) -> list[Defect]:
    """Edges whose two ends an earlier edge of the type has already.

    Peak memory: 24 bytes an edge.
    """
    order = np.lexsort((dst, src))  # stable, so that the first of equal edges stays the first
    again = np.zeros(len(src), bool)
    again[order[1:]] = (np.diff(src[order]) == 0) & (np.diff(dst[order]) == 0)
    duplicates = np.flatnonzero(again)
    return [_defect("duplicate_edges", type_name, duplicates, src, dst)] if len(duplicates) else []


def _defect(check: str, type_name: str, edges: Ids, src: Ids, dst: Ids) -> Defect:
    examples = [{"edge_id": int(e), "src": int(src[e]), "dst": int(dst[e])} for e in edges[:EXAMPLES]]
    return Defect(check, type_name, len(edges), examples)
