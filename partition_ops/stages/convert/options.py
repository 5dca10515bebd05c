"""Options of ``convert``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from partition_ops.errors import UsageError
from partition_ops.options.stage_config import StageConfig

MOST_HOPS = 255
GRAPH_FORMATS = ("coo", "csr", "csc")


@dataclass(frozen=True, kw_only=True)
class ConvertConfig(StageConfig):
    """Options of ``convert``.

    Attributes:
        memory: Bytes that it may take, which decides how many partitions are built at a time; three quarters
            of what there is if left out. The result does not depend on it.
        num_hops: How far the halo of a partition goes, as in ``dgl.distributed.partition_graph``.
        graph_formats: The sparse formats in ``graph.dgl``: some of ``coo``, ``csr`` and ``csc``.
    """

    memory: int | None = None
    num_hops: int = 1
    graph_formats: tuple[str, ...] = ("coo",)

    def __post_init__(self) -> None:
        if not 0 <= self.num_hops <= MOST_HOPS:
            raise UsageError("--num-hops is out of range", found=self.num_hops, expected=f"0 to {MOST_HOPS}")
        wrong = [name for name in self.graph_formats if name not in GRAPH_FORMATS]
        if wrong or not self.graph_formats:
            raise UsageError(
                "--graph-formats has a word that is no format",
                found=", ".join(wrong) or "nothing",
                expected="one or more of " + ", ".join(GRAPH_FORMATS),
            )
        ordered = tuple(name for name in GRAPH_FORMATS if name in self.graph_formats)
        object.__setattr__(self, "graph_formats", ordered)  # in whatever order they were named
        if self.memory is not None and self.memory < 1:
            raise UsageError("--memory is out of range", found=self.memory, expected="a number of bytes")

    def options(self) -> dict[str, Any]:
        """The options as JSON: what the partitions depend on."""
        options = asdict(self)
        del options["memory"]
        return {**options, "graph_formats": list(self.graph_formats)}
