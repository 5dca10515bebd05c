"""The whole job in one process, without Airflow."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.tasks import CONFIG_TASK, StageResult, all_there
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.estimate import check_job
from partition_ops.jobs.import_ahead import import_ahead
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.rebuild import forget_unrecorded, remove_damaged
from partition_ops.options.stage_config import StageConfig
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.idmap.export import export_id_maps
from partition_ops.stages.idmap.options import IdMapConfig
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.incremental.previous_run import PreviousRun, check_previous
from partition_ops.stages.partition.partition import check_options, partition_nodes
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.stages.publish.gate import no_old_nodes
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.stages.quality.history import earlier_entries
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.quality import report_quality
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.stages.schema.schema import write_schema
from partition_ops.stages.validate.expectations.suites import all_suites, read_suites
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress

Report = Callable[[StageResult], None]


def run_job(
    config: RunConfig,
    source: Store,
    destination: Store,
    *,
    expectations: Store | None = None,
    previous: Store | None = None,
    progress: Progress | None = None,
    report: Report = lambda result: None,
) -> list[StageResult]:
    """Take a graph from its chunks to published partitions, stage by stage.

    A stage that an earlier call has finished, and whose inputs and options have not changed, is not done
    again; a job that was published already is left as it is. Artifacts are there if they have the size that
    they were written with; ``config.check_artifacts`` compares their content too.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the output.
        expectations: Folder with the user's own expectation suites.
        previous: Root of an earlier finished run over the same graph, since when it has grown.
        progress: Shows the steps of each stage.
        report: Called with the result of each task as it ends.

    Returns:
        The results of the tasks that were looked at, in their order.

    Raises:
        UsageError: Before anything is done: the options do not fit one another, or the graph.
        InvalidInputError: Likewise: the earlier run is not finished, or not as it was written.
        NotEnoughRoomError: Before anything is done: memory or disk are estimated not to suffice.
        ConflictError: Another call works on the output.
        PartitionOpsError: A stage failed; what was finished stays, and there is no manifest.

    Peak memory: that of the stage which needs most, as its docstring says.
    """
    return _Job(config, source, destination, expectations, previous, progress or NoProgress(), report).run()


class _Job:
    """The chain of stages over one graph."""

    def __init__(
        self,
        config: RunConfig,
        source: Store,
        destination: Store,
        expectations: Store | None,
        previous: Store | None,
        progress: Progress,
        report: Report,
    ) -> None:
        self.config = config
        self.source = source
        self.destination = destination
        self.expectations = expectations
        self.previous = previous
        self.progress = progress
        self.report = report
        self.results: list[StageResult] = []

    def run(self) -> list[StageResult]:
        metadata = load_metadata(self.source, graph_name=self.config.graph_name)
        check_options(self.config.partition, metadata, self.source)
        self._check_previous()
        if self.expectations is not None:
            all_suites(read_suites(self.expectations))
        if not self.config.ignore_estimate:
            check_job(self.config, self.source, self.destination)
        if not self.destination.exists(layout.MANIFEST):
            import_ahead()  # while it takes the lock, too
        with locked(self.destination):
            forget_unrecorded(self.destination)
            if self.config.check_artifacts:
                remove_damaged(self.destination, self.progress)
            self._stages()
        return self.results

    def _check_previous(self) -> None:
        """Refuse an earlier run that cannot be followed before hours go into this one."""
        if self.previous is not None:
            self.previous = check_previous(self.previous, self.destination)
            PreviousRun(self.previous).prove()
            earlier_entries(self.previous)
        elif self.config.gate.max_moved is not None:
            raise no_old_nodes(self.destination)

    def _stages(self) -> None:
        name = self.config.graph_name
        self._do(partial(validate_graph, expectations=self.expectations), self.config.validate)
        self._do(write_schema, SchemaConfig(graph_name=name))
        if find_engine(self.config.engine).needs_graph:
            self._do(prepare_graph, PrepareConfig(graph_name=name))
        self._do(partial(partition_nodes, previous=self.previous), self.config.partition)
        published = self._published()
        if not published:
            self._convert()
        if self.config.probe:
            self._probe()
        if self.config.probe or not published:
            self._report()
        self._do(publish_run, PublishConfig(graph_name=name, gate=self.config.gate))

    def _do(self, stage: Callable[..., StageResult], config: StageConfig) -> None:
        self._show(stage(config, self.source, self.destination, progress=self.progress))

    def _show(self, result: StageResult) -> None:
        self.results.append(result)
        self.report(result)

    def _convert(self) -> None:
        config = self.config.convert
        convert_graph(config, self.source, self.destination, progress=self.progress, report=self._show)

    def _probe(self) -> None:
        from partition_ops.stages.probe.options import ProbeConfig
        from partition_ops.stages.probe.probe import probe_run  # brings dgl and torch

        self._do(probe_run, ProbeConfig(graph_name=self.config.graph_name))

    def _report(self) -> None:
        """The two stages that need nothing of each other, side by side as in the DAG."""
        name = self.config.graph_name
        stages: list[Callable[..., StageResult]] = [
            partial(export_id_maps, IdMapConfig(graph_name=name), self.source, self.destination),
            partial(
                report_quality,
                QualityConfig(graph_name=name),
                self.source,
                self.destination,
                previous=self.previous,
            ),
        ]
        for result in map_in_threads(lambda stage: stage(progress=self.progress), stages, workers=2):
            self._show(result)

    def _published(self) -> bool:
        """Whether the manifest has outlived the stages before conversion, which was done with the options of
        now, and all it lists is there."""
        try:
            manifest = read_manifest(self.destination)
        except InvalidInputError:
            return False
        if manifest["options"].get(CONFIG_TASK) != self.config.convert.options():
            return False
        return all_there(self.destination, manifest["artifacts"])
