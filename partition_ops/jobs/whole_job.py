"""The whole job in one process, without Airflow."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import partial
from typing import Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.records import Record, read_record
from partition_ops.artifacts.tasks import StageResult, Task, check_apart
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.format import output_formats
from partition_ops.jobs.estimate import check_job
from partition_ops.jobs.options import RunConfig
from partition_ops.options.declare import StageConfig
from partition_ops.stages.convert.context import Conversion
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
from partition_ops.stages.publish.publish import PublishTask
from partition_ops.stages.quality.history import earlier_entries
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.quality.quality import report_quality
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.stages.schema.schema import write_schema
from partition_ops.stages.validate.expectations.suites import all_suites, read_suites
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import Store
from partition_ops.storage.store import REQUESTS
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress

logger = logging.getLogger("partition_ops")

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
    """Run all stages, from the chunks of a graph to published partitions.

    Tasks that are done (see `partition_ops.artifacts.tasks.Task.status`) are skipped, and a published run is
    not changed. By default only the size of an artifact is checked; ``config.check_artifacts`` also compares
    its content.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the output.
        expectations: Folder with the user's own expectation suites.
        previous: Root of an earlier finished run over the same graph, which has grown since.
        progress: Shows the steps of each stage.
        report: Called with the result of each task as it ends.

    Returns:
        The results of the tasks, done or skipped, in their order.

    Raises:
        UsageError: Before any work: the options contradict one another, or do not fit the graph.
        InvalidInputError: Before any work: the earlier run is not finished, or was changed since.
        NotEnoughRoomError: Before any work: memory or disk are estimated to be too small.
        ConflictError: Another call works on the output.
        PartitionOpsError: A stage failed; finished stages stay, and there is no manifest.

    Peak memory: that of the stage that needs most, as its docstring says.
    """
    return _Job(config, source, destination, expectations, previous, progress or NoProgress(), report).run()


class _Job:
    """The chain of stages over one graph.

    Each stage builds its task when its turn comes, because the task depends on results of the stages before
    it, and runs it. Tasks that are done are skipped.
    """

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
        check_apart(self.source, self.destination, metadata)
        check_options(self.config.partition, metadata, self.source)
        output_formats(self.config.formats, self.config.num_hops)
        self._check_previous()
        if self.expectations is not None:
            all_suites(read_suites(self.expectations))
        if not self.config.ignore_estimate:
            check_job(self.config, self.source, self.destination)
        with locked(self.destination):
            forget_unrecorded(self.destination)
            if self.config.check_artifacts:
                remove_damaged(self.destination, self.progress)
            self._stages()
        return self.results

    def _check_previous(self) -> None:
        """Reject an unusable earlier run before any work."""
        if self.previous is not None:
            self.previous = check_previous(self.previous, self.destination)
            PreviousRun(self.previous).check_assignment()
            earlier_entries(self.previous)
        elif self.config.gate.max_moved is not None:
            raise no_old_nodes(self.destination)

    def _stages(self) -> None:
        name = self.config.graph_name
        self._run(validate_graph, self.config.validate, expectations=self.expectations)
        self._run(write_schema, SchemaConfig(graph_name=name))
        if find_engine(self.config.engine).needs_graph:
            self._run(prepare_graph, PrepareConfig(graph_name=name))
        self._run(partition_nodes, self.config.partition, previous=self.previous)
        published = self._is_published()
        if not published:
            self._convert()
        if self.config.probe:
            self._probe()
        if self.config.probe or not published:
            self._report()
        self._show(self._publish_task().run())

    def _is_published(self) -> bool:
        """Return whether the run is published with these options, so that only ``probe`` may be left to do.

        ID maps that were exported with other options since are kept.
        """
        for task in (self._publish_task(), self._last_conversion_task()):
            status = task.status()
            if not status.done:
                logger.info("%s: to be done, because %s", task.name, status.reason)
                return False
        return True

    def _publish_task(self) -> PublishTask:
        config = PublishConfig(graph_name=self.config.graph_name, gate=self.config.gate)
        return PublishTask(config, self.source, self.destination)

    def _last_conversion_task(self) -> Task:
        return Conversion(self.config.convert, self.source, self.destination).book_task()

    def _run(self, stage: Callable[..., StageResult], config: StageConfig, **more: Any) -> None:
        self._show(stage(config, self.source, self.destination, progress=self.progress, **more))

    def _show(self, result: StageResult) -> None:
        self.results.append(result)
        self.report(result)

    def _convert(self) -> None:
        config = self.config.convert
        convert_graph(config, self.source, self.destination, progress=self.progress, report=self._show)

    def _probe(self) -> None:
        from partition_ops.stages.probe.options import ProbeConfig
        from partition_ops.stages.probe.probe import probe_run  # imports dgl and torch

        self._run(probe_run, ProbeConfig(graph_name=self.config.graph_name))

    def _report(self) -> None:
        """Run two stages that do not depend on each other side by side, as in the DAG."""
        name, stores = self.config.graph_name, (self.source, self.destination)
        stages: list[Callable[..., StageResult]] = [
            partial(export_id_maps, IdMapConfig(graph_name=name), *stores),
            partial(report_quality, QualityConfig(graph_name=name), *stores, previous=self.previous),
        ]
        for result in map_in_threads(lambda stage: stage(progress=self.progress), stages, workers=2):
            self._show(result)


def forget_unrecorded(destination: Store) -> list[str]:
    """Forget tasks whose record is broken, or was removed after the run was published.

    The manifest is removed first, then the artifacts that only it lists, because the
    tasks may not write them again.

    Args:
        destination: Root of a run, which nobody else may write to meanwhile.

    Returns:
        The names of the tasks.
    """
    records = _records(destination)
    try:
        manifest = read_manifest(destination)
    except InvalidInputError:
        manifest = {"options": {}, "artifacts": []}
    forgotten = [name for name, record in records.items() if record is None]
    forgotten += [name for name in manifest["options"] if name not in records]
    if forgotten:
        known = {entry["key"] for record in records.values() if record for entry in record["artifacts"]}
        destination.delete([layout.MANIFEST])
        destination.delete(entry["key"] for entry in manifest["artifacts"] if entry["key"] not in known)
        destination.delete(layout.record(name) for name in forgotten)
    return forgotten


def remove_damaged(destination: Store, progress: Progress) -> list[str]:
    """Read every artifact, and remove those whose content has changed, so that their tasks run again.

    The manifest is removed before the first of them.

    Args:
        destination: Root of a run, which nobody else may write to meanwhile.
        progress: Shows the bytes read.

    Returns:
        The keys of the artifacts that are missing or were removed, without scratch.

    Peak memory: 48 MiB a core.
    """
    records = [record for record in _records(destination).values() if record]
    total = sum(entry["size"] for record in records for entry in record["artifacts"])
    damaged: list[str] = []
    with progress.step("Checking artifacts", total, "bytes") as advance:
        for record in records:
            status = Task.from_record(destination, record).status(check="content", advance=advance)
            damaged += status.damaged
    destination.delete(key for key in damaged if key.startswith(f"{layout.SCRATCH}/"))  # gone once published
    damaged = [key for key in damaged if not key.startswith(f"{layout.SCRATCH}/")]
    for key in damaged:
        logger.warning("%s is missing or damaged, and will be rebuilt", destination.uri_of(key))
    if damaged:
        destination.delete([layout.MANIFEST])
        destination.delete(damaged)
    return damaged


def _records(destination: Store) -> dict[str, Record | None]:
    """Return the record of every task that left one; None if it is broken."""

    def read(name: str) -> Record | None:
        try:
            return read_record(destination, name)
        except InvalidInputError as error:
            logger.warning("%s", error.problem)
            return None

    keys = [entry.key for entry in destination.list(f"{layout.RECORDS}/")]
    tasks = [key.removeprefix(f"{layout.RECORDS}/").removesuffix(".json") for key in keys]
    tasks = [task for task, key in zip(tasks, keys, strict=True) if key == layout.record(task)]
    return dict(zip(tasks, map_in_threads(read, tasks, workers=REQUESTS), strict=True))
