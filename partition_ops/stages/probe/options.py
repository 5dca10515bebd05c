"""Options of ``probe``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.options.declare import option
from partition_ops.traffic.options import SampledConfig


@dataclass(frozen=True, kw_only=True)
class ProbeConfig(SampledConfig):
    """Options of ``probe``."""

    node_type: str | None = option(
        None,
        help="Node type of the train nodes: the same as --train-nodes T.",
        metavar="T",
        empty="as --train-nodes says",
        form=None,
    )
    batches: int = option(
        20, help="Largest number of batches for each partition.", metavar="N", minimum=1, form=None
    )
    features: tuple[str, ...] | None = option(
        None,
        flag="feature",
        help="Node features that a batch fetches for its input nodes.",
        metavar="NAME",
        several="words",
        empty="all",
        form=None,
    )
    seed: int = option(
        0, help="The same seed gives the same figures, except the speed.", metavar="N", minimum=0, form=None
    )
    parts: tuple[int, ...] | None = option(
        None,
        flag="part",
        help="Partitions to probe.",
        metavar="I",
        several="words",
        empty="all",
        form=None,
    )

    @property
    def train_nodes(self) -> tuple[str, ...]:
        """``TYPE`` or ``TYPE:MASK`` for each type that was named."""
        return self.sampling.train_nodes or (() if self.node_type is None else (self.node_type,))

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.sampling.train_nodes and self.node_type is not None:
            raise UsageError(
                "The train nodes are named twice",
                found=f"--train-nodes and --node-type {self.node_type}",
                remedy=f"Use --train-nodes {self.node_type} alone, or in addition to the others.",
            )
