"""The stage ``schema``."""

from __future__ import annotations

from graph_partitioning.operators.base import GraphStageOperator


class WriteSchemaOperator(GraphStageOperator, stage="schema"):
    """Writes the homogeneous ID range of every type. It comes after ``validate``.

    Example::

        WriteSchemaOperator(
            task_id="schema",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args: As for `GraphStageOperator`.
    """
