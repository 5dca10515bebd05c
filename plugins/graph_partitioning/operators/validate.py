"""The stage ``validate``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.links import DataDocsLink
from graph_partitioning.operators.base import LATEST_RUN, GraphStageOperator
from graph_partitioning.operators.ingest import ingest_tables, must_ingest_again
from graph_partitioning.operators.task_messages import explain_failures, push, task_progress
from graph_partitioning.options import is_true, run_config
from graph_partitioning.runs import ESTIMATE_KEY
from partition_ops.artifacts.layout import VALIDATE_GATHER, VALIDATE_SCATTER
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file
from partition_ops.stages.partition.options import PreviousOptions
from partition_ops.stages.publish.options import Replacement
from partition_ops.stages.validate.options import ExpectationSuites, ValidateConfig
from partition_ops.system.extras import is_installed

if TYPE_CHECKING:
    from airflow.sdk import Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress


class ValidateGraphOperator(
    GraphStageOperator,
    stage="validate",
    options=(ExpectationSuites, PreviousOptions, Replacement),
    defaults={"data_docs": is_installed("great_expectations")},
):
    """Checks a graph before anything is computed from it.

    Example::

        ValidateGraphOperator(
            task_id="validate",
            input_uri="s3://graphs/citations",
            output_uri="s3://partitioned",
            run_id="{{ run_id }}",
        )

    Args:
        planned: Options of the whole job, by the names of the params of `partition_graph`. A job for which
            memory or disk of this worker are estimated to be too small is rejected, and so are options that
            do not fit the graph. None skips both. The other tasks are expected to run on similar workers.
        ignore_estimate: Do not reject a job because of memory and disk; may be text such as ``"true"``.
        kwargs: As for `GraphStageOperator`, and the options of `ValidateConfig`, with Data Docs by default,
            as values or as text from templates. ``on_defect`` may be a dict with the action of each check.
            ``expectations_uri`` is a folder with suites of your own. ``previous`` is the earlier run that
            ``partition`` is to continue; one that is not finished is rejected, except ``latest``, which
            is not known before the graph is locked. An input is rejected if the newest published run of the
            graph is of another one, unless ``replace_input`` is true.
    """

    before_lock = True
    template_fields: Sequence[str] = (*GraphStageOperator.template_fields, "planned", "ignore_estimate")
    operator_extra_links = (*GraphStageOperator.operator_extra_links, DataDocsLink())

    def __init__(
        self,
        *,
        planned: Mapping[str, Any] | None = None,
        ignore_estimate: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.planned = planned
        self.ignore_estimate = ignore_estimate

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        self.check_before(source, destination)
        return super().run_stage(source, destination, progress)

    def check_before(self, source: Store, destination: Store) -> None:
        """Reject what is known to fail before the graph is read."""
        self.check_same_input(destination)
        if self.planned is not None:
            from partition_ops.jobs.checks import check_before

            planned = run_config({**self.planned, "graph_name": self.graph_name})
            docs, ignore = self.config(ValidateConfig).data_docs, is_true(self.ignore_estimate)
            config = replace(planned, data_docs=docs, ignore_estimate=ignore)
            estimate = check_before(config, source, destination)
            if estimate is not None:
                push(ESTIMATE_KEY, {one.stage: round(one.seconds, 1) for one in estimate.stages})
        self._check_previous(destination)

    def _check_previous(self, destination: Store) -> None:
        """Reject an earlier run that cannot be continued."""
        from partition_ops.jobs.checks import check_earlier

        uri = self.config(PreviousOptions).previous or ""
        if uri != LATEST_RUN:
            with self.open_previous(destination, uri) as previous:
                if previous is not None:
                    check_earlier(previous, destination)


class PlanValidationOperator(ValidateGraphOperator):
    """Returns the numbers of the tasks of ``validate``, to map scatter and gather over; none for one task.

    Each mapped task gets a list of numbers. If the graph is small, a process does several, because it takes
    long to start.

    It rejects what `ValidateGraphOperator` rejects before it reads the graph.

    Example::

        where = {
            "input_uri": "s3://graphs/citations",
            "output_uri": "s3://partitioned",
            "run_id": "{{ run_id }}",
            "validation_tasks": 4,
        }
        plan = PlanValidationOperator(task_id="plan_validation", **where)
        scatter = ScatterValidationOperator.partial(task_id="scatter_validation", **where)
        gather = GatherValidationOperator.partial(task_id="gather_validation", **where)
        validate = ValidateGraphOperator(task_id="validate", trigger_rule="none_failed", **where)
        scatter.expand(group=plan.output) >> gather.expand(range=plan.output) >> validate

    Args: As for `ValidateGraphOperator`, with the same values.
    """

    operator_extra_links = ()

    def execute(self, context: Context) -> list[list[int]]:
        config = self.config(ValidateConfig)
        if config.validation_tasks == 1:
            return []
        from partition_ops.stages.validate.spread import Spread

        with self.opened() as (source, destination), source.snapshot():
            self.check_before(source, destination)
            return Spread(config, source, destination).shares


class ScatterValidationOperator(GraphStageOperator, stage="validate", task=VALIDATE_SCATTER):
    """Reads groups of the graph's files once, and writes what it finds by range.

    Args:
        group: Number of the group, from 0, or a list of numbers.
        kwargs: As for `GraphStageOperator`, and the options of `ValidateConfig`.
    """

    before_lock = True


class GatherValidationOperator(GraphStageOperator, stage="validate", task=VALIDATE_GATHER):
    """Finds duplicates and counts degrees in ranges. It comes after every scatter.

    Args:
        range: Number of the range, from 0, or a list of numbers.
        kwargs: As for `GraphStageOperator`, and the options of `ValidateConfig`.
    """

    before_lock = True


class RevalidateGraphOperator(ValidateGraphOperator, options=(IngestConfig,)):
    """Checks a graph again if it has changed since `ValidateGraphOperator`. It comes after the lock.

    A run may wait for the lock of its graph for a day, and the input may change in this time. If it has not,
    the task does nothing. Tables that have changed are ingested again. So are tables whose nodes must keep
    the IDs of a run that was published meanwhile.

    Args: As for `ValidateGraphOperator` and `IngestTablesOperator`, with the same values.
    """

    before_lock = False

    def execute(self, context: Context) -> Any:
        if is_graph_file(self.input_uri):
            self._ingest_again(context)
        return super().execute(context)

    def _ingest_again(self, context: Context) -> None:
        from partition_ops.artifacts.layout import INGEST

        hook = GraphStorageHook(self.storage_conn_id)
        with (
            explain_failures(self.log),
            self.graph_file(hook) as (folder, name),
            hook.open(self._table_root(folder, name)) as root,
            self.fenced(context, root),
        ):
            graph = root.child(INGEST)
            if must_ingest_again(self, graph):
                self.log.info("ingest: done again, because tables or the run to be continued have changed")
                ingest_tables(self, graph, task_progress(context, self.log))
