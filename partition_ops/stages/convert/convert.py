"""The whole stage in one process, and its tasks for workers that share it: each is a process of its own."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial

import pyarrow as pa

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import StageResult, Task
from partition_ops.artifacts.write_access import check_apart
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.gather import gather_memory, gather_part
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import make_plan, read_plan
from partition_ops.stages.convert.scatter import scatter_group, scatter_memory
from partition_ops.stages.convert.write_book import write_book
from partition_ops.storage import Store
from partition_ops.storage.split_store import keep_local
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress


def convert_graph(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    progress: Progress | None = None,
    report: Callable[[StageResult], None] = lambda result: None,
) -> StageResult:
    """Convert a graph whose assignment is there, several partitions at a time if memory allows it.

    If all partitions are done, nothing is planned or scattered, and the manifest stays. The buckets between
    scatter and gather are on the local disk, below ``TMPDIR`` if the run is on S3: a call that resumes a
    killed one scatters again.

    Args:
        config: Options; ``memory`` bounds how much is done at a time, and never less than one task.
        source: Root of the input graph.
        destination: Root of the run, where ``partition`` has been done.
        progress: Shows the steps.
        report: Called with the result of each task as it ends.

    Returns:
        The result of the last task, which wrote the book.

    Raises:
        InvalidInputError: The input or the assignment cannot be read.

    Peak memory: ``memory``, or what one scatter or gather takes if that is more; see `scatter_group` and
    `gather_part`.
    """
    with keep_local(destination, layout.BUCKETS) as store:
        conversion = Conversion(config, source, store, one_process=True)
        check_apart(source, destination, conversion.metadata)
        parts = range(conversion.num_parts)
        tasks = [conversion.gather_task(part) for part in parts]
        found = [*map_in_threads(Task.find_result, tasks, workers=destination.requests)]
        missing = [part for part in parts if found[part] is None]
        planned = None if missing else conversion.plan_task().find_result(check="record")
        report(planned or make_plan(conversion))
        if missing:
            store.delete([layout.MANIFEST])  # before hours go into what it lists
            report(_scatter_all(conversion, progress))
        for done in filter(None, found):
            report(done)
        for result in gather_partitions(conversion, missing, progress, checked=True):
            report(result)
        last = write_book(conversion)
    report(last)
    return last


def _scatter_all(conversion: Conversion, progress: Progress | None) -> StageResult:
    """Scatter all groups, and return their results as one."""
    groups = read_plan(conversion.destination).groups
    began = time.monotonic()
    done = scatter_groups(conversion, groups, progress)
    return StageResult(
        layout.SCATTER_TASK,
        conversion.destination.uri,
        layout.record(layout.PLAN_TASK),
        round(time.monotonic() - began, 3),
        all(result.skipped for result in done),
        {"groups": len(groups), "edges": sum(result.counters["edges"] for result in done)},
    )


def scatter_groups(
    conversion: Conversion, groups: Sequence[int], progress: Progress | None = None
) -> list[StageResult]:
    """Do `scatter_group` for several groups, some of them at a time; those that are done are skipped.

    Args:
        conversion: The conversion, which has been planned; its option ``memory`` bounds how many are done at
            a time.
        groups: Which groups of the plan.
        progress: Shows the groups done.

    Returns:
        The results of the groups, in their order.

    Raises:
        UsageError: There is no such group.
        InvalidInputError: As `scatter_group`.

    Peak memory: ``memory``, or what one group takes if that is more.
    """
    workers = conversion.workers(scatter_memory(conversion))
    done = []
    with (progress or NoProgress()).step("Scattering edges", len(groups), "groups of chunks") as advance:
        for result in map_in_threads(partial(scatter_group, conversion), groups, workers=workers):
            advance(1)
            done.append(result)
    pa.default_memory_pool().release_unused()  # memory that the readers keep for the next file
    return done


def gather_partitions(
    conversion: Conversion,
    parts: Sequence[int],
    progress: Progress | None = None,
    *,
    checked: bool = False,
) -> Iterator[StageResult]:
    """Do `gather_part` for several partitions, some of them at a time; those that are done are skipped.

    They share one reading of the assignment, and the copies of input files on S3.

    Args:
        conversion: The conversion, whose groups have been scattered; its option ``memory`` bounds how many
            are done at a time.
        parts: Which partitions.
        progress: Shows the partitions done.
        checked: Whether the groups are known to have been scattered from the current input.

    Yields:
        The results of the partitions, in their order.

    Raises:
        UsageError: There is no such partition, or a format is not installed.
        InvalidInputError: As `gather_part`.

    Peak memory: ``memory``, or what one partition takes if that is more.
    """
    if not parts:
        return
    plan = read_plan(conversion.destination) if checked else None
    workers = conversion.gathers(gather_memory(conversion))
    room = threading.Semaphore(workers)  # the next partition begins while files of the last still go up
    failed = threading.Event()

    def as_room_allows() -> Iterator[int]:
        for part in parts:
            room.acquire()
            if failed.is_set():
                return
            yield part

    def gather(part: int) -> StageResult:
        with ExitStack() as taken:
            taken.callback(room.release)
            try:
                return gather_part(conversion, part, plan=plan, made=taken.close)
            except BaseException:
                failed.set()  # before there is room for the next
                raise

    with (progress or NoProgress()).step("Building partitions", len(parts), "partitions") as advance:
        for result in map_in_threads(gather, as_room_allows(), workers=2 * workers):
            advance(1)
            yield result


def plan_alone(
    config: ConvertConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Do `make_plan` in a process of its own, which reads everything anew, as the next three do."""
    return make_plan(Conversion(config, source, destination))


def scatter_alone(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    groups: Sequence[int],
    progress: Progress | None = None,
) -> list[StageResult]:
    """Do `scatter_groups`."""
    return scatter_groups(Conversion(config, source, destination), groups, progress)


def gather_alone(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    parts: Sequence[int],
    progress: Progress | None = None,
) -> list[StageResult]:
    """Do `gather_partitions`."""
    return [*gather_partitions(Conversion(config, source, destination), parts, progress)]


def write_alone(
    config: ConvertConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Do `write_book`."""
    return write_book(Conversion(config, source, destination))
