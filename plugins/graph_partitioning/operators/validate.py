"""The stage ``validate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.links import DataDocsLink
from graph_partitioning.operators.base import LATEST_RUN, GraphStageOperator
from graph_partitioning.settings import is_true, run_config

if TYPE_CHECKING:
    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ValidateGraphOperator(GraphStageOperator):
    """Checks a graph before anything is computed from it.

    Example::

        ValidateGraphOperator(
            task_id="validate",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        on_defect: What to do about duplicate and self-loop edges: ``fail``, ``exclude``, ``drop`` or
            ``warn``; or a dict with the action of each check of `partition_ops.stages.validate.checks`.
        expectations_uri: Folder with expectation suites of your own, local or ``s3://…``; None or ``""``
            for none.
        data_docs: Whether to write Data Docs where there are no expectations of your own.
        planned: Options of the whole job, as of `RunConfig`, of which memory and disk of this worker are
            looked at first: ``num_parts`` and what else there is. A job for which they are estimated not to
            suffice is refused, and so are options that do not fit the graph. None refuses nothing. The other
            tasks are taken to run on workers like it.
        ignore_estimate: Do not refuse for memory and disk; text such as ``"true"`` means it too.
        previous: The earlier run that ``partition`` is to follow, as there; one that is not finished is
            refused here, unless it is ``latest``, which is not known before the graph is locked.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (
        *GraphStageOperator.template_fields,
        "on_defect",
        "expectations_uri",
        "planned",
        "ignore_estimate",
        "previous",
    )
    operator_extra_links = (*GraphStageOperator.operator_extra_links, DataDocsLink())

    def __init__(
        self,
        *,
        on_defect: str | Mapping[str, str] = "fail",
        expectations_uri: str | None = None,
        data_docs: bool = True,
        planned: Mapping[str, Any] | None = None,
        ignore_estimate: bool | str = False,
        previous: str = "",
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.on_defect = on_defect
        self.expectations_uri = expectations_uri
        self.data_docs = data_docs
        self.planned = planned
        self.ignore_estimate = ignore_estimate
        self.previous = previous

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        from partition_ops.stages.validate.options import ValidateConfig
        from partition_ops.stages.validate.validate import validate_graph

        self._check_plan(source, destination)
        self._check_previous(destination)
        config = ValidateConfig(**self.graph, on_defect=self.on_defect, data_docs=self.data_docs)
        with self._expectations() as suites:
            return validate_graph(config, source, destination, expectations=suites, progress=progress)

    def _check_plan(self, source: Store, destination: Store) -> None:
        """Refuse at the start what would be refused, or killed, later on."""
        from partition_ops.chunked.metadata import load_metadata
        from partition_ops.jobs.estimate import check_job
        from partition_ops.stages.partition.partition import check_options

        if self.planned is None:
            return
        planned = run_config({**self.planned, **self.graph, "data_docs": self.data_docs})
        check_options(planned.partition, load_metadata(source, graph_name=planned.graph_name), source)
        if not is_true(self.ignore_estimate):
            check_job(planned, source, destination)

    def _check_previous(self, destination: Store) -> None:
        """Refuse an earlier run that cannot be followed."""
        from partition_ops.stages.partition.incremental.previous_run import check_previous

        if self.previous != LATEST_RUN:
            with self.open_previous(destination, self.previous) as previous:
                if previous is not None:
                    check_previous(previous, destination)

    def _expectations(self) -> AbstractContextManager[Store | None]:
        """The folder with the user's suites."""
        if not self.expectations_uri:
            return nullcontext()
        return GraphStorageHook(self.storage_conn_id).open(self.expectations_uri)
