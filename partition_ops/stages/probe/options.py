"""Options of ``probe``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from partition_ops.options.declare import StageConfig, option, option_group, own_options
from partition_ops.traffic.options import BatchOptions


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
    sampling: BatchOptions = option_group(BatchOptions)
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

    def options(self) -> dict[str, Any]:
        """Return the options as JSON; those of the group are among the others."""
        options, own = asdict(self), [one.name for one in own_options(BatchOptions)]
        sampling = options.pop("sampling")
        return {**{name: sampling[name] for name in own}, **options}
