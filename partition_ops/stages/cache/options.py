"""Options of ``cache``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.options.declare import option
from partition_ops.traffic.options import SECTION, SampledConfig


@dataclass(frozen=True, kw_only=True)
class CacheConfig(SampledConfig):
    """Options of ``cache``."""

    cache_share: float = option(
        0.0,
        help="Rows of other partitions whose features are stored with each partition, as a share of its own"
        " rows, such as 0.1: those that its trainer is expected to read most. 0: none.",
        title="Share of cached rows",
        section=SECTION,
        metavar="X",
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.cache_share <= 1:
            raise UsageError(
                "--cache-share is out of range", found=f"{self.cache_share}", expected="between 0 and 1"
            )
