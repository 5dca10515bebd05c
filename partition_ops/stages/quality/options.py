"""Options of ``quality``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.options.declare import Options, StageConfig, option


@dataclass(frozen=True, kw_only=True)
class QualityConfig(StageConfig):
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
