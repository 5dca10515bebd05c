"""Base classes of the operators."""

from __future__ import annotations

import inspect
import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.sdk import BaseOperator
from airflow.sdk.exceptions import AirflowSkipException

from graph_partitioning.hooks.storage import GraphStorageHook
from graph_partitioning.links import ArtifactsLink
from graph_partitioning.metrics import report_metrics
from graph_partitioning.operators.task_messages import explain_failures, task_progress
from graph_partitioning.options import COMMON, is_true
from graph_partitioning.runs import (
    XCOM_KEY,
    GraphRun,
    lock_holder,
    run_root,
)
from partition_ops.artifacts.stage import find_stage
from partition_ops.options.declare import REQUIRED, options_of
from partition_ops.options.values import build, parse_settings
from partition_ops.stages.ingest.options import IngestConfig, is_graph_file
from partition_ops.stages.partition.options import PreviousOptions
from partition_ops.stages.publish.options import Replacement
from partition_ops.stages.validate.options import ExpectationSuites

if TYPE_CHECKING:
    from airflow.sdk import BaseOperatorLink, Context

    from partition_ops.artifacts.tasks import StageResult
    from partition_ops.storage import Store
    from partition_ops.system.progress import Progress

LATEST_RUN = "latest"
Config = TypeVar("Config")


class OptionsOperator(BaseOperator):
    """Takes declared options as arguments.

    A subclass names the dataclasses of its options: ``class MyOperator(GraphStageOperator,
    options=(PartitionConfig,))``. Every declared option becomes an argument, an attribute and a template
    field; `config` makes the configuration from them.
    """

    template_fields: Sequence[str] = ()
    ui_color = "#e3eef9"
    declared: ClassVar[Mapping[str, Any]] = {}
    """The arguments that are declared options, with their defaults."""

    def __init_subclass__(
        cls, *, options: tuple[type, ...] = (), defaults: Mapping[str, Any] | None = None, **kwargs: Any
    ) -> None:
        super().__init_subclass__(**kwargs)
        taken = {one.form_name: one.default for one in options_of(*options) if one.name not in COMMON}
        taken |= defaults or {}
        cls.declared = {**cls.declared, **taken}
        cls.template_fields = (*cls.template_fields, *taken)
        if taken:
            _take_arguments(cls, taken)

    def __init__(self, **kwargs: Any) -> None:
        declared = {name: kwargs.pop(name, default) for name, default in self.declared.items()}
        super().__init__(**kwargs)
        for name, value in declared.items():
            setattr(self, name, value)

    def config(self, cls: type[Config], **more: Any) -> Config:
        """Make a configuration from the arguments of the operator.

        Args:
            cls: Class of the configuration.
            more: Values of fields that are not arguments of the operator.

        Raises:
            UsageError: A value is wrong.
        """
        return build(cls, {**parse_settings(cls, vars(self)), **more})


class GraphRunOperator(OptionsOperator):
    """Works on one run of one graph.

    Args:
        input_uri: Root of the graph, where its ``metadata.json`` or ParMETIS's text is, a ``graph.yaml``
            that names tables, or a ``graph.bin`` that DGL saved: a local path or ``s3://…``.
        output_uri: Where the artifacts go. With a ``run_id`` they go to
            ``<output_uri>/<graph>/runs/<run>``, without one into this folder itself.
        graph_name: Used instead of the name in ``metadata.json``; ``""`` means the same as None.
        run_id: Usually ``"{{ run_id }}"``.
        storage_conn_id: Airflow connection of type ``aws`` that reaches S3; None or ``""`` leaves it to
            boto3's own chain.
        reverse_edges: Add reverse edges to each edge type that has none, as ``--reverse-edges`` of ``run``
            does; all tasks of a run must agree. It may be text such as ``"true"``.
    """

    template_fields: Sequence[str] = (
        *("input_uri", "output_uri", "graph_name", "run_id", "storage_conn_id"),
        "reverse_edges",
    )
    before_lock: ClassVar[bool] = False
    """Whether the task comes before the one that takes the lock of the graph."""

    def __init__(
        self,
        *,
        input_uri: str,
        output_uri: str,
        graph_name: str | None = None,
        run_id: str | None = None,
        storage_conn_id: str | None = GraphStorageHook.default_conn_name,
        reverse_edges: bool | str = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.reverse_edges = reverse_edges
        self.input_uri = input_uri
        self.output_uri = output_uri
        self.graph_name = graph_name
        self.run_id = run_id
        self.storage_conn_id = storage_conn_id

    @contextmanager
    def opened(self, progress: Progress | None = None) -> Iterator[tuple[Store, Store]]:
        """Open the input and the root of the run, and explain failures inside the block."""
        from partition_ops.storage.local_store import check_folder
        from partition_ops.system.temporary_folders import check_tmpdir

        hook = GraphStorageHook(self.storage_conn_id)
        with explain_failures(self.log):
            check_tmpdir()
        with (
            explain_failures(self.log),
            self._source(hook, progress) as source,
            hook.open(self._root(source), progress=progress) as destination,
        ):
            check_folder(destination)
            yield source, destination

    @contextmanager
    def fenced(self, context: Context, destination: Store) -> Iterator[None]:
        """Let the block change the run only while its DAG run holds the lock of the graph.

        This does nothing in a DAG that takes no lock.

        Raises:
            ConflictError: The DAG run does not hold the lock, or loses it.
        """
        from partition_ops.artifacts.layout import BEGINNING
        from partition_ops.artifacts.lock import check_same_run, holding

        if not self.run_id or not destination.exists(BEGINNING):
            yield
            return
        with self.graph_of(destination) as root:
            holder = lock_holder(context)
            if self.before_lock:
                check_same_run(root, holder)
                yield
                return
            with holding(root, holder, destination):
                yield

    @contextmanager
    def _source(self, hook: GraphStorageHook, progress: Progress | None) -> Iterator[Store]:
        """Open the graph: chunks, ParMETIS's text, or what ``ingest`` has made in this run."""
        from partition_ops.artifacts.layout import INGEST
        from partition_ops.chunked.reversed_graph import with_reverses
        from partition_ops.jobs.open_graph import open_graph

        wanted = is_true(self.reverse_edges)
        if is_graph_file(self.input_uri):
            with (
                self.graph_file(hook) as (folder, name),
                hook.open(self._table_root(folder, name)) as root,
                with_reverses(root.child(INGEST), wanted=wanted) as source,
            ):
                yield source
            return
        opened, config = partial(hook.open_store, progress=progress), IngestConfig(reverse_edges=wanted)
        with open_graph(self.input_uri, opened, config=config, progress=progress) as source:
            yield source

    @contextmanager
    def graph_file(self, hook: GraphStorageHook) -> Iterator[tuple[Store, str]]:
        """Open the folder of a file that is ingested, and return it and the name of the file."""
        from partition_ops.storage.uris import split_uri

        folder, name = split_uri(self.input_uri)
        with hook.open(folder) as store:
            yield store, name

    def _table_root(self, folder: Store, name: str) -> str:
        """Return the root of a run whose input is a file that is ingested."""
        from partition_ops.stages.ingest.graph_file import graph_name_of

        if not self.run_id:
            return self.output_uri
        graph_name = self.graph_name or graph_name_of(folder, name)
        return run_root(self.output_uri, graph_name, self.run_id)

    def graph_of(self, destination: Store) -> AbstractContextManager[Store]:
        """Open the root of the graph's runs, above that of a run with a ``run_id``."""
        return GraphStorageHook(self.storage_conn_id).open(destination.uri.rpartition("/runs/")[0])

    def check_same_input(self, destination: Store) -> None:
        """Reject an input if published runs of the graph are of another one and may not be replaced."""
        from partition_ops.artifacts.latest import check_same_input

        if self.run_id and not self.config(Replacement).replace_input:
            with self.graph_of(destination) as root:
                check_same_input(root, self.input_uri)

    def _root(self, source: Store) -> str:
        from partition_ops.chunked.metadata import load_metadata

        if not self.run_id:
            return self.output_uri
        metadata = load_metadata(source, graph_name=self.graph_name or None)
        return run_root(self.output_uri, metadata.graph_name, self.run_id)


class FinishedRunOperator(OptionsOperator):
    """Reads a finished run, and writes nothing to it.

    Args:
        output_uri: Root of the run, or of a graph's runs, whose newest published run is taken: a local path
            or ``s3://…``.
        storage_conn_id: As for `GraphRunOperator`.
    """

    template_fields: Sequence[str] = ("output_uri", "storage_conn_id")

    def __init__(
        self,
        *,
        output_uri: str,
        storage_conn_id: str | None = GraphStorageHook.default_conn_name,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.output_uri = output_uri
        self.storage_conn_id = storage_conn_id

    @contextmanager
    def opened(self) -> Iterator[Store]:
        """Open the run, and explain failures inside the block."""
        from partition_ops.artifacts.latest import open_run
        from partition_ops.system.temporary_folders import check_tmpdir

        with explain_failures(self.log):
            check_tmpdir()
            with open_run(self.output_uri, GraphStorageHook(self.storage_conn_id).open_store) as store:
                yield store


class GraphStageOperator(GraphRunOperator):
    """Runs one stage of the library on one graph.

    A subclass names the stage: ``class MyOperator(GraphStageOperator, stage="schema")``. It then has the
    options of the stage's declaration, and those of the classes that it names. With ``task``, it runs only
    this kind of task of the stage. If the stage has several tasks of the kind, the operator has the argument
    that the declaration names, ``group``, ``range`` or ``part``: a number, a list of them, or text that a
    template makes of these.

    A stage writes every file whole or not at all, and skips what an earlier attempt has finished. A task that
    was killed or cleared can therefore run again, and there is no ``on_kill``.

    Args: As for `GraphRunOperator`.

    Returns:
        What the task did, as a small dict: ``task``, ``output`` (URI of the run's root), ``record``,
        ``seconds``, ``skipped``, ``counters``.
    """

    operator_extra_links: Collection[BaseOperatorLink] = (ArtifactsLink(),)

    stage: ClassVar[str] = ""
    task_kind: ClassVar[str] = ""
    each: ClassVar[str] = ""
    """The argument with the numbers of the tasks of the kind; ``""`` for a single task."""

    def __init_subclass__(
        cls,
        *,
        stage: str = "",
        task: str = "",
        options: tuple[type, ...] = (),
        defaults: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> None:
        numbers: dict[str, Any] = {}
        if stage:
            cls.stage = stage
            options = (find_stage(stage).config, *options)
        if task:
            cls.task_kind = task
            cls.each = next(one.each for one in find_stage(cls.stage).tasks if one.name == task)
            numbers = {cls.each: REQUIRED} if cls.each else {}
        super().__init_subclass__(options=options, defaults={**numbers, **(defaults or {})}, **kwargs)

    def run_stage(self, source: Store, destination: Store, progress: Progress) -> StageResult:
        """Run the stage, with what its function takes further."""
        from partition_ops.jobs.one_stage import run_stage

        stage = find_stage(self.stage)
        with ExitStack() as stack:
            more = self.open_arguments(destination, stack)
            return run_stage(stage, self.stage_config(), source, destination, progress=progress, **more)

    def open_arguments(self, destination: Store, stack: ExitStack) -> dict[str, Any]:
        """Return what the function of the stage takes further (see `Stage.takes`), as ``run`` gives it.

        Args:
            destination: Root of the run.
            stack: Closes it.
        """
        from partition_ops.jobs.open_graph import rows_finder

        hook, takes = GraphStorageHook(self.storage_conn_id), find_stage(self.stage).takes
        found: dict[str, Any] = {"find_rows": rows_finder(hook.open_store)}
        if "previous" in takes:
            previous = self.config(PreviousOptions).previous or ""
            found["previous"] = stack.enter_context(self.open_previous(destination, previous))
        if "expectations" in takes:
            suites = self.config(ExpectationSuites).expectations
            found["expectations"] = stack.enter_context(hook.open(suites)) if suites else None
        return found

    def run_tasks(self, source: Store, destination: Store, progress: Progress) -> list[StageResult]:
        """Run the stage or the task, and return the result of each task of the library that was run."""
        if not self.task_kind:
            return [self.run_stage(source, destination, progress)]
        from partition_ops.jobs.one_stage import run_task

        stage, config, numbers = find_stage(self.stage), self.stage_config(), self.numbers
        return run_task(
            stage, self.task_kind, config, source, destination, numbers=numbers, progress=progress
        )

    @property
    def numbers(self) -> list[int]:
        """The numbers of the tasks to run, if there are several of the kind."""
        if not self.each:
            return []
        value: int | str | Sequence[int] = getattr(self, self.each)
        given = json.loads(value) if isinstance(value, str) else value
        return [int(number) for number in (given if isinstance(given, Sequence) else [given])]

    @property
    def label(self) -> str:
        """Name of a mapped task: ``group 0`` or ``groups 0-3``."""
        first, *_ = numbers = self.numbers
        return f"{self.each} {first}" if len(numbers) == 1 else f"{self.each}s {first}-{numbers[-1]}"

    def stage_config(self) -> Any:
        """Return the options of the stage."""
        return self.config(find_stage(self.stage).config)

    def execute(self, context: Context) -> Any:
        from partition_ops.artifacts.marker import claimed
        from partition_ops.artifacts.write_access import check_root
        from partition_ops.system.memory import keep_freed_memory

        keep_freed_memory()  # a worker runs each task in a process of its own
        progress = task_progress(context, self.log)
        with self.opened(progress) as (source, destination), source.snapshot():
            check_root("stage", destination)
            with self.fenced(context, destination), claimed(destination):
                self._push_run(context, destination.uri)
                results = self.run_tasks(source, destination, progress)
                self._push_run(context, destination.uri, *(result.record for result in results))
                for result in results:
                    report_metrics(result, destination)
                return self.finish(context, sum_of(results), destination)

    def finish(self, context: Context, result: StageResult, destination: Store) -> Any:
        """Return the result of the task, after the stage has succeeded."""
        return result.to_json()

    @contextmanager
    def open_previous(self, destination: Store, previous: str) -> Iterator[Store | None]:
        """Open an earlier run.

        Args:
            destination: Root of the run.
            previous: Its URI, or that of the root of a graph's runs, which means the newest published one;
                ``latest`` for the one that was published last when this run started; ``""`` for none.
        """
        from partition_ops.artifacts.latest import open_run, previous_of

        uri = previous_of(destination) if previous == LATEST_RUN else previous
        if not uri:
            yield None
            return
        with open_run(uri, GraphStorageHook(self.storage_conn_id).open_store) as store:
            yield store

    def _push_run(self, context: Context, root: str, *records: str) -> None:
        """Write to XCom what the page with the artifacts needs, even if the stage fails after this."""
        first, *others = records or (None,)
        run = GraphRun(
            root=root, record=first, storage_conn_id=self.storage_conn_id or None, others=[*map(str, others)]
        )
        context["ti"].xcom_push(key=XCOM_KEY, value=run.to_json())


class OptionalStageOperator(GraphStageOperator):
    """Runs a stage that an option switches on.

    Args:
        enabled: If this is false, the task is skipped; may be text such as ``"true"``.
        kwargs: As for `GraphStageOperator`.
    """

    template_fields: Sequence[str] = (*GraphStageOperator.template_fields, "enabled")

    def __init__(self, *, enabled: bool | str = True, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.enabled = enabled

    def is_wanted(self) -> bool:
        """Return whether the option is set."""
        return is_true(self.enabled)

    def execute(self, context: Context) -> Any:
        if not self.is_wanted():
            option = find_stage(self.stage).optional
            raise AirflowSkipException(f"Skipped because the param {option!r} is false")
        return super().execute(context)


def _take_arguments(cls: type[OptionsOperator], taken: Mapping[str, Any]) -> None:
    """Give the constructor a signature with the declared options.

    Airflow leaves no other way: it reads the signature to apply ``default_args``, to require arguments, and
    to check those of ``partial`` and ``expand``. Without it, each operator would have to write the options of
    its stage, which are declared, a second time. This runs before Airflow wraps the constructor, and only
    that of the class itself is wrapped.
    """
    own = cls.__dict__.get("__init__")

    def __init__(self: OptionsOperator, **kwargs: Any) -> None:
        (own.__get__(self) if own is not None else super(cls, self).__init__)(**kwargs)

    written = inspect.signature(own or __init__).parameters.values()
    *first, last = written
    keyword = inspect.Parameter.KEYWORD_ONLY
    added = [
        inspect.Parameter(name, keyword, default=inspect.Parameter.empty if default is REQUIRED else default)
        for name, default in taken.items()
    ]
    __init__.__signature__ = inspect.Signature([*first, *added, last])  # type: ignore[attr-defined]
    cls.__init__ = __init__  # type: ignore[method-assign]


def sum_of(results: Sequence[StageResult]) -> StageResult:
    """Return the results of tasks of one kind as one: names of the first, and sums of seconds and counts."""
    if len(results) == 1:
        return results[0]
    counters: dict[str, Any] = {}
    for name, value in (item for result in results for item in result.counters.items()):
        counters[name] = counters[name] + value if name in counters else value
    seconds = round(sum(result.seconds for result in results), 3)
    return replace(
        results[0], seconds=seconds, skipped=all(one.skipped for one in results), counters=counters
    )
