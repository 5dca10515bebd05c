"""Options of ``publish``."""

from __future__ import annotations

from dataclasses import dataclass, field

from partition_ops.options.gate import Gate
from partition_ops.options.stage_config import StageConfig


@dataclass(frozen=True, kw_only=True)
class PublishConfig(StageConfig):
    """Options of ``publish``.

    Attributes:
        run_id: Name of the run; None outside Airflow, where there is no ``latest.json`` either.
        gate: What partitions must not be worse than to be published.
    """

    run_id: str | None = None
    gate: Gate = field(default_factory=Gate)
