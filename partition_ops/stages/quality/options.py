"""Options of ``quality``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.options.declare import Options, option
from partition_ops.traffic.options import SampledConfig


@dataclass(frozen=True, kw_only=True)
class QualityConfig(SampledConfig):
    """Options of ``quality``."""


@dataclass(frozen=True, kw_only=True)
class EarlierReport(Options):
    """The run whose history the report continues."""

    previous: str | None = option(
        None,
        help="The finished previous run: the report continues its history.",
        metavar="RUN",
        empty="the history begins with this run",
        form=None,
    )
