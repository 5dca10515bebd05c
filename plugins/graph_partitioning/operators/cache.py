"""The stage ``cache``."""

from __future__ import annotations

from graph_partitioning.operators.base import OptionalStageOperator


class CacheRowsOperator(OptionalStageOperator, stage="cache"):
    """Stores with each partition the features of the remote nodes that its trainer reads most.

    It comes after ``convert`` and before the run is published. If it may be skipped, the task that publishes
    needs a trigger rule that accepts this.

    Args:
        enabled: If this is false, the task is skipped; may be text such as ``"true"``.
        kwargs: As for `GraphStageOperator`, and the options of `CacheConfig`, as values or as text from
            templates, such as ``cache_share="0.1"``.
    """
