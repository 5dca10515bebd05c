"""Options of ``quality``."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from partition_ops.options.declare import Options, StageConfig, option, option_group
from partition_ops.traffic.options import SamplingOptions


@dataclass(frozen=True, kw_only=True)
class QualityConfig(StageConfig):
    """Options of ``quality``."""

    sampling: SamplingOptions = option_group(SamplingOptions)

    def options(self) -> dict[str, Any]:
        """Return the options as JSON; those of the group are among the others."""
        options = asdict(self)
        return {**options.pop("sampling"), **options}


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
