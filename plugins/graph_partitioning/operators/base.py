"""What the operators of all stages have in common."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowFailException

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.links import ArtifactsLink
from graph_partitioning.runs import XCOM_KEY, GraphRun, run_root

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.progress import Progress
    from partition_ops.storage import Store
    from partition_ops.tasks import StageResult


class GraphStageOperator(BaseOperator):
    """Runs one stage of the library on one graph.

    A stage writes every file whole or not at all, and finds out itself what an earlier try has finished:
    a task that is killed or cleared can simply run again, so there is no ``on_kill``.

    Args:
        input_uri: Root of the graph, where its ``metadata.json`` is: a local path or ``s3://…``.
        output_uri: Where the artifacts go. With a ``run_id`` they go to
            ``<output_uri>/<graph>/runs/<run>``, without one into this folder itself.
        graph_name: Used instead of the name in ``metadata.json``; ``""`` means the same as None.
        run_id: Usually ``"{{ run_id }}"``.
        storage_conn_id: Airflow connection of type ``aws`` that reaches S3; None or ``""`` leaves it to
            boto3's own chain.

    Returns:
        What the task did, as a small dict: ``task``, ``output`` (URI of the run's root), ``record``,
        ``seconds``, ``skipped``, ``counters``.
    """

    template_fields: Sequence[str] = ("input_uri", "output_uri", "graph_name", "run_id", "storage_conn_id")
    operator_extra_links = (ArtifactsLink(),)
    ui_color = "#e3eef9"

    def __init__(
        self,
        *,
        input_uri: str,
        output_uri: str,
        graph_name: str | None = None,
        run_id: str | None = None,
        storage_conn_id: str | None = GraphStorageHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.input_uri = input_uri
        self.output_uri = output_uri
        self.graph_name = graph_name
        self.run_id = run_id
        self.storage_conn_id = storage_conn_id

    @abstractmethod
    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        """Call the stage's function of the library."""

    def execute(self, context: Context) -> Any:
        from partition_ops.progress import LineProgress

        hook = GraphStorageHook(self.storage_conn_id)
        progress = LineProgress(self.log.info)
        with self._failures_explained(), hook.open(self.input_uri, progress=progress) as source:
            root = self._root(source)
            self._leave(context, root)
            with hook.open(root, progress=progress) as destination:
                result = self.run_stage(source, destination, progress)
                self._leave(context, root, result.record)
                return self.finish(context, result, destination)

    def finish(self, context: Context, result: StageResult, destination: Store) -> Any:
        """What the task returns, after a stage that went well."""
        return result.to_json()

    @property
    def graph(self) -> dict[str, Any]:
        """The options that every stage takes."""
        return {"graph_name": self.graph_name or None}

    def _root(self, source: Store) -> str:
        from partition_ops.graph.metadata import load_metadata

        if not self.run_id:
            return self.output_uri
        metadata = load_metadata(source, graph_name=self.graph_name or None)
        return run_root(self.output_uri, metadata.graph_name, self.run_id)

    def _leave(self, context: Context, root: str, record: str | None = None) -> None:
        """Leave in XCom what the page with the artifacts needs, also when the stage fails after this."""
        run = GraphRun(root=root, record=record, storage_conn_id=self.storage_conn_id or None)
        context["ti"].xcom_push(key=XCOM_KEY, value=run.to_json())

    @contextmanager
    def _failures_explained(self) -> Iterator[None]:
        """Fail at once where a retry cannot help; everything else is left to Airflow's retries."""
        from partition_ops.errors import PartitionOpsError

        try:
            yield
        except PartitionOpsError as error:
            if error.transient:
                raise
            self.log.error("%s", error)
            raise AirflowFailException(str(error)) from None


def count_partitions(destination: Store) -> int:
    """Number of partitions of the run's assignment."""
    from partition_ops.artifacts import ASSIGNMENT, ASSIGNMENT_META

    num_parts: int = destination.read_json(f"{ASSIGNMENT}/{ASSIGNMENT_META}")["num_parts"]
    return num_parts


def whole_number(option: str, value: object) -> int:
    """A number that came through a template.

    Raises:
        UsageError: It is not one.
    """
    from partition_ops.errors import UsageError

    try:
        return int(str(value))
    except ValueError:
        raise UsageError(f"{option} is not a whole number", found=repr(value)) from None


def number(option: str, value: object) -> float:
    """A number that came through a template.

    Raises:
        UsageError: It is not one.
    """
    from partition_ops.errors import UsageError

    try:
        return float(str(value))
    except ValueError:
        raise UsageError(f"{option} is not a number", found=repr(value)) from None
