"""The whole job in one process, without Airflow."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, closing, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.latest import check_input_of_output, open_run
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.artifacts.records import Record, forget_task, read_record
from partition_ops.artifacts.stage import LAST, Stage, job_stages, other_stages, side_by_side
from partition_ops.artifacts.tasks import StageResult, Task, changed_option
from partition_ops.artifacts.write_access import check_root
from partition_ops.chunked.metadata import METADATA, load_metadata
from partition_ops.errors import InvalidInputError, PartitionOpsError
from partition_ops.formats.format import main_config
from partition_ops.jobs.checks import check_before, check_earlier, check_packages
from partition_ops.jobs.one_stage import run_stage
from partition_ops.jobs.open_graph import Opener, open_graph, rows_finder
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.convert import STAGE as CONVERT
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file
from partition_ops.stages.partition.engine import TRAIN, objective_of
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.publish.gate import no_old_nodes
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import PublishTask
from partition_ops.stages.quality.history import earlier_entries
from partition_ops.stages.quality.options import QualityConfig
from partition_ops.stages.validate.expectations.suites import all_suites, read_suites
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import check_folder
from partition_ops.system.compilation import set_up
from partition_ops.system.memory import give_back_freed_memory
from partition_ops.system.parallel import begin_in_thread, map_in_threads
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.traffic.kept_half_edges import KeptHalfEdges

if TYPE_CHECKING:
    from partition_ops.stages.ingest.memory.arrays import MemoryGraph
    from partition_ops.stages.validate.user_keys import FindRows

logger = logging.getLogger("partition_ops")
UNPUBLISHED = (
    "%s was a finished output, and is none any more: its manifest was removed before its files were replaced."
    " It is one again after a run that succeeds; with another output, it would have stayed"
)

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
        UsageError: Before any work: the options contradict one another, or do not fit the graph; or the
            output is finished and of another input, which ``config.replace_input`` does not allow to replace.
        InvalidInputError: Before any work: the earlier run is not finished, or was changed since.
        NotEnoughRoomError: Before any work: memory or disk are estimated to be too small.
        ConflictError: Another call works on the output.
        PartitionOpsError: A stage failed; finished stages stay, and there is no manifest.

    Peak memory: that of the stage that needs most, as its docstring says.
    """
    check_packages(config, expectations=expectations is not None)
    job = _Job(config, source, destination, expectations, previous, progress or NoProgress(), report)
    return [*job.run().tasks]


@dataclass(frozen=True)
class RunResult:
    """The result of `run_graph`.

    Attributes:
        output: URI of the output.
        partition_config: URI of the file that the first output format is loaded by: for ``dgl``,
            ``partitions/<graph>.json``.
        tasks: The result of each task, in the order in which they ended.
        quality: The content of ``quality/report.json``.
    """

    output: str
    partition_config: str
    tasks: tuple[StageResult, ...]
    quality: dict[str, Any]


def run_graph(
    config: RunConfig,
    input: str | MemoryGraph,
    output: str,
    *,
    settings: StorageSettings | None = None,
    opened: Opener | None = None,
    expectations: str | None = None,
    previous: str | None = None,
    progress: Progress | None = None,
    report: Report = lambda result: None,
) -> RunResult:
    """Open the input, which is ingested if it is not a graph in chunks, and run all stages: see `run_job`.

    Args:
        config: Options.
        input: As for `open_graph`.
        output: URI of the output.
        settings: How to reach S3.
        opened: Opens the stores of URIs instead of `open_store` with these settings.
        expectations: URI of the folder with the user's own expectation suites.
        previous: URI of an earlier run over the same graph, or of the root of a graph's runs, whose newest
            published run is taken.
        progress: As for `run_job`.
        report: As for `run_job`.

    Raises:
        PartitionOpsError: As for `open_graph` and `run_job`.
    """
    check_packages(config, expectations=expectations is not None)
    open_root = opened or partial(open_store, settings=settings)
    with ExitStack() as stack:
        destination = stack.enter_context(open_root(output))
        check_folder(destination)
        earlier = None if previous is None else stack.enter_context(open_run(previous, open_root))
        ingested = destination.child(layout.INGEST)
        if not isinstance(input, str) or is_graph_file(input):
            if not config.replace_input:  # before anything is written there
                given = input if isinstance(input, str) else "a graph in memory"
                check_input_of_output(destination, ingested.uri, given=given)
            if config.check_artifacts and ingested.exists(METADATA):
                check_root("run", destination)  # before the lock, which writes there
                with locked(ingested, "ingest", within=destination):
                    remove_damaged(ingested, progress or NoProgress())
        graph = open_graph(
            input,
            open_root,
            output=destination,
            previous=earlier,
            config=config.of(IngestConfig),
            data_docs=config.data_docs,
            progress=progress,
        )
        return _Job(
            config,
            stack.enter_context(graph),
            destination,
            None if expectations is None else stack.enter_context(open_root(expectations)),
            earlier,
            progress or NoProgress(),
            report,
            rows_finder(open_root),
        ).run()


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
        find_rows: FindRows | None = None,
    ) -> None:
        self.config = config
        self.source = source
        self.destination = destination
        self.expectations = expectations
        self.previous = previous
        self.progress = progress
        self.report = report
        self.find_rows = find_rows
        self.results: list[StageResult] = []
        self._ended: list[StageResult] = []  # and not reported yet
        self._reporting = threading.Lock()
        self._threads = ThreadPoolExecutor(1)
        self._beside: list[Future[None]] = []  # work of the stages before, which runs beside the next ones
        self._half_edges: KeptHalfEdges | None = None  # from prepare to partition

    def run(self) -> RunResult:
        begin_in_thread(set_up)  # before downloads begin, beside which it takes three times as long
        with self.source.snapshot():
            return self._run_all()

    def _run_all(self) -> RunResult:
        self._check_previous()
        if self.expectations is not None:
            all_suites(read_suites(self.expectations))
        with ThreadPoolExecutor(3) as threads:  # each check waits for several answers of S3
            writable = threads.submit(check_root, "run", self.destination)
            published = threads.submit(self.destination.exists, layout.MANIFEST)
            validated = threads.submit(self.destination.exists, layout.record("validate"))
            check_before(self.config, self.source, self.destination)
            writable.result()
            if published.result() and not self.config.replace_input:
                check_input_of_output(self.destination, self.source.uri)
        metadata = load_metadata(self.source, graph_name=self.config.graph_name)
        if not validated.result():
            self.source.fetch_ahead(metadata.files())  # taking a lock on S3 waits for answers
        trains = objective_of(self.config.of(PartitionConfig), metadata) == TRAIN
        self._half_edges = KeptHalfEdges(begin=True) if trains else None
        kept = nullcontext() if self._half_edges is None else closing(self._half_edges)
        with locked(self.destination, checked=True), kept, self._threads:
            forget_unrecorded(self.destination)
            if self.config.check_artifacts:
                remove_damaged(self.destination, self.progress)
            try:
                self._stages()
            except PartitionOpsError:
                if published.result() and not self.destination.exists(layout.MANIFEST):
                    logger.warning(UNPUBLISHED, self.destination.uri)
                raise
            finally:
                self._report(wait=True)
            quality = self.destination.read_json(layout.QUALITY_REPORT)
            config = self.destination.uri_of(main_config(read_book(self.destination)))
        return RunResult(self.destination.uri, config, tuple(self.results), quality)

    def _check_previous(self) -> None:
        """Reject an unusable earlier run before any work."""
        if self.previous is not None:
            self.previous = check_earlier(self.previous, self.destination)
            earlier_entries(self.previous)
        elif self.config.gate.max_moved is not None:
            raise no_old_nodes(self.destination)

    def _stages(self) -> None:
        """Run the stages; those that do not follow each other run side by side, as in the DAG.

        If the run is published with these options, `convert`, whose scratch is gone, is left out, and the
        stages after it unless one of them is optional, or the report was made with other options. ID maps
        that were exported with other options since are kept then. Stages of other packages are never left
        out.
        """
        *stages, last = self.config.stages()
        published, others = False, other_stages()
        for group in side_by_side(stages):
            converts = CONVERT in group
            if converts:
                published = self._is_published()
                optional = any(stage.optional for stage in stages[stages.index(CONVERT) :])
                optional = optional or (published and self._reports_otherwise())
            whole = not published or (optional and not converts)
            wanted = group if whole else [stage for stage in group if stage in others]
            if wanted:
                self._run(wanted)
        for stage in job_stages():
            if stage.optional and stage not in stages:
                self._forget_stale(stage)
        self._run([last])

    def _is_published(self) -> bool:
        config, stores = self.config, (self.source, self.destination)
        publish = PublishTask(config.of(PublishConfig), *stores)
        for task in (publish, Conversion(config.of(ConvertConfig), *stores).book_task()):
            status = task.status()
            if not status.done:
                logger.info("%s: to be done, because %s", task.name, status.reason)
                return False
        return True

    def _reports_otherwise(self) -> bool:
        """Return whether the report was made with other options."""
        report = Task.recorded(self.destination, "quality")
        return changed_option(report.options, self.config.of(QualityConfig).options()) is not None

    def _forget_stale(self, stage: Stage) -> None:
        """Forget a stage of an earlier call that is not part of this job, if its results no longer fit."""
        name, run = stage.first_record, self.destination
        if run.exists(layout.record(name)) and not Task.recorded(run, name).status().done:
            forget_task(run, name)

    def _run(self, stages: list[Stage]) -> None:
        """Run stages side by side, beside the work that those before them have left for now."""
        give_back_freed_memory()  # of the stages before
        beside, self._beside = self._beside, []
        if stages[-1].name == LAST:  # it publishes what is there
            self._wait_for(beside)
        if len(stages) > 1:
            results = map_in_threads(self._result, stages, workers=len(stages))
        else:
            results = iter([self._result(stages[0])])
        for stage, result in zip(stages, results, strict=True):
            if "report" not in stage.takes:
                self._show(result)
        self._wait_for(beside)

    @staticmethod
    def _wait_for(beside: list[Future[None]]) -> None:
        for work in beside:
            work.result()

    def _show(self, result: StageResult) -> None:
        self._ended.append(result)
        self._report()

    def _report(self, *, wait: bool = False) -> None:
        """Report tasks whose record is in storage, in their order: on S3, it is written in the background."""
        with self._reporting:
            while self._ended and self.destination.is_written(self._ended[0].record, wait=wait):
                self.results.append(self._ended.pop(0))
                self.report(self.results[-1])

    def _result(self, stage: Stage) -> StageResult:
        """Run a stage and return the result of its last task."""
        return run_stage(
            stage,
            self.config.of(stage.config),
            self.source,
            self.destination,
            progress=self.progress,
            previous=self.previous,
            expectations=self.expectations,
            find_rows=self.find_rows,
            report=self._show,
            beside=lambda work: self._beside.append(self._threads.submit(work)),
            half_edges=self._half_edges,
        )


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

    keys = (entry.key for entry in destination.list(f"{layout.RECORDS}/"))
    tasks = [task for task in map(layout.task_of, keys) if task is not None]
    return dict(zip(tasks, map_in_threads(read, tasks, workers=destination.requests), strict=True))
