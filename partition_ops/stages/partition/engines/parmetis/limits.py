"""What fits the library's integers, found out before it is called: ParMETIS itself overflows silently."""

from __future__ import annotations

from collections.abc import Sequence

from partition_ops.errors import EngineError


def check_fits(index_bits: int, *, nodes: int, half_edges: int, weight_sums: Sequence[int]) -> None:
    """Refuse a graph that the library cannot count.

    Args:
        index_bits: Width of the library's ``idx_t``.
        nodes: Number of nodes of the whole graph.
        half_edges: Twice the number of its distinct edges.
        weight_sums: Sum of each weight over all nodes.

    Raises:
        EngineError: A number is too large; names it.
    """
    most = 2 ** (index_bits - 1) - 1
    numbers = {
        "nodes": nodes,
        "half-edges (every distinct edge in both directions)": half_edges,
        "entries of the node weights": nodes * len(weight_sums),
        **{f"in the sum of node weight {i + 1}": total for i, total in enumerate(weight_sums)},
    }
    for what, number in numbers.items():
        if number > most:
            raise EngineError(
                f"The graph is too large for a ParMETIS of {index_bits}-bit integers",
                found=f"{number} {what}",
                expected=f"at most {most}",
                remedy="Name a library built with 64-bit integers by --parmetis-library and"
                " --parmetis-index-bits 64, or use --engine metis.",
            )
