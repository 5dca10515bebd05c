"""The stage ``prepare``."""

from __future__ import annotations

from graph_partitioning.operators.base import GraphStageOperator


class PrepareGraphOperator(GraphStageOperator, stage="prepare"):
    """Writes the graph as the partitioning engines read it. It comes after ``schema``.

    Example::

        PrepareGraphOperator(
            task_id="prepare",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`, and the options of `PrepareConfig`.
    """
