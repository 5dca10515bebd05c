"""What a run must not be worse than to be published."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite

from partition_ops.errors import UsageError


@dataclass(frozen=True, kw_only=True)
class Gate:
    """What partitions may be at most; None allows anything.

    Attributes:
        max_edge_cut: Share of the edges that are cut, such as 0.2.
        max_imbalance: Largest imbalance of a node type: its nodes in one partition over its ideal share.
        max_moved: Share of the old nodes, those of the previous run, that are in another partition now.
    """

    max_edge_cut: float | None = None
    max_imbalance: float | None = None
    max_moved: float | None = None

    def __post_init__(self) -> None:
        for name, least, most in (("edge_cut", 0, 1), ("imbalance", 1, float("inf")), ("moved", 0, 1)):
            value = getattr(self, f"max_{name}")
            if value is not None and not (least <= value <= most and isfinite(value)):
                raise UsageError(
                    f"--max-{name.replace('_', '-')} is out of range",
                    found=value,
                    expected=f"{least} to {most}" if most == 1 else f"a number, {least} or more",
                )
