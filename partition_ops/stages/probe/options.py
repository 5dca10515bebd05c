"""Options of ``probe``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.options.declare import StageConfig, option


@dataclass(frozen=True, kw_only=True)
class ProbeConfig(StageConfig):
    """Options of ``probe``."""

    node_type: str | None = option(
        None,
        help="Node type of the seeds.",
        metavar="T",
        empty="the first with the feature train_mask, otherwise the one with the most nodes",
        form=None,
    )
    fanouts: tuple[int, ...] = option(
        (10, 10),
        flag="fanout",
        help="Number of edges of each type that are sampled for a node, layer by layer; -1 means all.",
        metavar="N",
        several="words",
        form=None,
    )
    batch_size: int = option(1024, help="Number of seeds of a batch.", metavar="N", minimum=1, form=None)
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

    def __post_init__(self) -> None:
        super().__post_init__()
        if any(fanout < -1 or fanout == 0 for fanout in self.fanouts):
            raise UsageError(
                "A fanout is out of range",
                found=" ".join(map(str, self.fanouts)),
                expected="for each layer a number of edges, or -1 for all",
            )
