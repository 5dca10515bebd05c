"""Download partitions to the machine that serves them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from graph_partitioning.operators.base import FinishedRunOperator

if TYPE_CHECKING:
    from airflow.sdk import Context


class FetchPartitionsOperator(FinishedRunOperator):
    """Copies partitions of a finished run to a local folder of the worker, as ``partition-ops fetch`` does.

    Give each machine of the training a worker with a queue of its own, and each task the queue of the machine
    that serves its partitions.

    Example::

        FetchPartitionsOperator(
            task_id="fetch",
            output_uri="s3://partitioned/citations",
            parts=[0],
            folder="/data/citations",
            queue="machine0",
        )

    Args:
        parts: The partitions: a number, several, or text from a template, such as ``"0,1"``.
        folder: The local folder.
        formats: Output formats to copy; all of them if it is empty. Text from a template separates them by
            commas.
        kwargs: As for `FinishedRunOperator`.

    Returns:
        ``partition_config``, the path of the file that the first format is loaded by; ``formats``, ``parts``
        and ``bytes``, the number of bytes that were fetched.
    """

    template_fields: Sequence[str] = (*FinishedRunOperator.template_fields, "parts", "folder", "formats")

    def __init__(
        self,
        *,
        parts: int | str | Sequence[int],
        folder: str,
        formats: str | Sequence[str] = (),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.parts = parts
        self.folder = folder
        self.formats = formats

    def execute(self, context: Context) -> Any:
        from partition_ops.jobs.fetch import fetch_partitions
        from partition_ops.storage.uris import local_folder
        from partition_ops.system.progress import LineProgress

        with self.opened() as run:
            return fetch_partitions(
                run,
                _numbers(self.parts),
                local_folder(self.folder, "folder"),
                formats=[word.strip() for word in _words(self.formats)],
                progress=LineProgress(self.log.info),
            )


def _words(value: str | Sequence[str]) -> Sequence[str]:
    return [word for word in value.split(",") if word.strip()] if isinstance(value, str) else value


def _numbers(value: int | str | Sequence[int]) -> list[int]:
    from partition_ops.errors import UsageError

    given = [value] if isinstance(value, int) else _words(value) if isinstance(value, str) else value
    try:
        return [int(number) for number in given]
    except ValueError:
        raise UsageError(
            "parts are not numbers of partitions", found=repr(value), expected="such as 0, [0, 1] or '0,1'"
        ) from None
