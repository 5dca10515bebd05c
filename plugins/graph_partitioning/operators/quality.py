"""The stage ``quality``."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import GraphStageOperator

if TYPE_CHECKING:
    from partition_ops.storage import Store


class ReportQualityOperator(GraphStageOperator, stage="quality"):
    """Measures the partitions and writes a report. It comes after ``convert``.

    After a `LockGraphOperator` the history of the run that was published last goes on in it.

    Example::

        ReportQualityOperator(
            task_id="quality",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
            fanouts="15,10",
        )

    Args: As for `GraphStageOperator`, and the options of `SamplingOptions`, as values or as text from
        templates.
    """

    def open_arguments(self, destination: Store, stack: ExitStack) -> dict[str, Any]:
        return {"previous": stack.enter_context(self.open_published(destination))}

    @contextmanager
    def open_published(self, destination: Store) -> Iterator[Store | None]:
        """Open the run that was published last when this one started, if its history can be continued.

        Yield None if there is no such run, or if it is damaged: no run depends on the figures of others.
        """
        from partition_ops.artifacts.latest import read_beginning
        from partition_ops.errors import InvalidInputError
        from partition_ops.stages.quality.history import earlier_entries

        beginning = read_beginning(destination)
        with self.open_previous(destination, (beginning and beginning["latest"]) or "") as store:
            try:
                known = store is not None and earlier_entries(store)
            except InvalidInputError as error:
                self.log.warning("The history of the graph's runs starts from scratch: %s", error)
                known = None
            yield store if known else None
