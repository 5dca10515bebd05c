"""The stage ``probe``."""

from __future__ import annotations

from graph_partitioning.operators.base import OptionalStageOperator


class ProbePartitionsOperator(OptionalStageOperator, stage="probe"):
    """Samples mini-batches as the trainer of each partition would, for the quality report.

    It comes after ``convert`` and before ``quality``, whose trigger rule must accept a skipped task. The
    worker needs dgl, and 32 bytes for each edge in its folder for temporary files.

    Example::

        ProbePartitionsOperator(
            task_id="probe",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        enabled: If this is false, the task is skipped; may be text such as ``"true"``.
        kwargs: As for `GraphStageOperator`, and the options of `ProbeConfig`, as values or as text from
            templates, such as ``fanouts="10,10"``.
    """
