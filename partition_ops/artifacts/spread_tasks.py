"""`SpreadTasks`: a stage in several tasks, which meet in a folder of the run.

Scatter tasks each read a group of files, and write what they find by range; gather tasks each take one range
of all groups. The stage itself comes last, and removes what is between them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from partition_ops.artifacts import layout
from partition_ops.artifacts.cost import shares
from partition_ops.artifacts.records import (
    checked_copies,
    digests_of,
    forget_task,
    read_records,
    remove_leftovers,
)
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task, Work, no_work
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.options.declare import StageConfig
from partition_ops.storage import Store, StoredObject
from partition_ops.system.progress import Progress


class SpreadTasks:
    """Base of the tasks of a stage that is split by groups of files and by ranges.

    A subclass says what the tasks read and do: `inputs`, `seconds`, `options`, `scatter_files` and
    `gather_range`.

    Args:
        tasks: Number of tasks of either kind.
        source: Root of the input graph.
        destination: Root of the run.
        graph_name: Name of the graph; None for that of ``metadata.json``.

    Attributes:
        stage: Name of the stage.
        scatter_name: Name of the scatters without their numbers.
        gather_name: Name of the gathers, likewise.
        folder: Key of the folder in which they meet.
        metadata: The graph's metadata.

    Raises:
        InvalidInputError: From the constructor: ``metadata.json`` cannot be used.
    """

    stage: ClassVar[str]
    scatter_name: ClassVar[str]
    gather_name: ClassVar[str]
    folder: ClassVar[str]

    def __init__(self, tasks: int, source: Store, destination: Store, graph_name: str | None) -> None:
        self.tasks = tasks
        self.source = source
        self.destination = destination
        self.metadata: GraphMetadata = load_metadata(source, graph_name=graph_name)

    @classmethod
    def run_alone(
        cls,
        config: StageConfig,
        source: Store,
        destination: Store,
        *,
        groups: Sequence[int] = (),
        ranges: Sequence[int] = (),
        progress: Progress | None = None,
    ) -> list[StageResult]:
        """Do scatters of some groups, or gathers of some ranges, in a process of its own.

        Args:
            config: As of the subclass, as the other arguments.
            source: Root of the input graph.
            destination: Root of the run.
            groups: The groups.
            ranges: The ranges.
            progress: Shows the steps.

        Raises:
            UsageError: The run lies in the input or the input in the run, or there is no such task.
        """
        make: Callable[..., SpreadTasks] = cls
        spread = make(config, source, destination, progress)
        check_apart(source, destination, spread.metadata)
        wrong = [number for number in (*groups, *ranges) if number not in spread.numbers]
        if wrong:
            raise UsageError(
                f"There is no task {wrong[0]} of {spread.stage}",
                expected=f"0 to {spread.tasks - 1}, the tasks",
            )
        return [*map(spread.scatter, groups), *map(spread.gather, ranges)]

    @property
    def inputs(self) -> list[StoredObject]:
        """Identity of the files that the tasks depend on; asked often."""
        raise NotImplementedError

    @property
    def seconds(self) -> float:
        """Predicted processor seconds of the tasks of either kind together."""
        raise NotImplementedError

    @property
    def options(self) -> Mapping[str, Any]:
        """What the tasks depend on besides their number."""
        return {}

    def scatter_files(self, group: int, writer: ArtifactWriter) -> Counters:
        """Read the files of a group, and write what was found by range."""
        raise NotImplementedError

    def gather_range(self, number: int, writer: ArtifactWriter) -> Counters:
        """Read what all scatters found of a range, and write the result."""
        raise NotImplementedError

    @property
    def numbers(self) -> range:
        """The numbers of the groups, and of the ranges."""
        return range(self.tasks)

    @property
    def shares(self) -> list[list[int]]:
        """The numbers of the tasks, of either kind, that share a process."""
        return shares(self.seconds, self.tasks)

    def scatter(self, group: int) -> StageResult:
        """Do a scatter, unless it is done; see `scatter_files`."""
        return self._scatter_task(group, lambda writer: self.scatter_files(group, writer)).run()

    def gather(self, number: int) -> StageResult:
        """Do a gather, unless it is done; scatters come first; see `gather_range`."""
        return self._gather_task(number, lambda writer: self.gather_range(number, writer)).run()

    def run_missing(self) -> None:
        """Do the tasks that are not done, one after another."""
        missing = [
            number
            for number in self.numbers
            if self._gather_task(number).find_result() is None  # without a look at what scatters wrote
        ]
        for group in self.numbers if missing else ():
            self.scatter(group)
        for number in missing:
            self.gather(number)

    def run_last(self, task: Task) -> StageResult:
        """Do the tasks that are missing, and then the stage; remove what is between them when it is done.

        Args:
            task: The stage; it requires `required`.
        """
        if not task.status().done:
            self.run_missing()
        try:
            result = task.run()
        except InvalidInputError:  # the graph is rejected; other failures can be tried again
            self.forget()
            raise
        self.forget()
        return result

    def required(self) -> Iterator[Task]:
        """Yield all tasks."""
        for number in self.numbers:
            yield self._scatter_task(number)
            yield self._gather_task(number)

    def scattered(self, number: int, index: str) -> list[list[Path]]:
        """Return local copies of what the scatters found of a range; from S3, they are fetched side by side.

        Args:
            number: Number of the range.
            index: Name of the file that says what is where in the objects of a group.

        Returns:
            For each group, the index and the object of the range.

        Raises:
            InvalidInputError: One is not what its scatter wrote; see `checked_copies`.
        """
        store, tasks = self.destination, [f"{self.scatter_name}{group}" for group in self.numbers]
        digests = [*map(digests_of, read_records(store, tasks))]
        blocks = [layout.spread_block(self.folder, group, number) for group in self.numbers]
        store.fetch_ahead(blocks, {key: listed[key] for key, listed in zip(blocks, digests, strict=True)})
        return [
            checked_copies(store, task, [layout.spread_group(self.folder, group, index), block], listed)
            for group, task, block, listed in zip(self.numbers, tasks, blocks, digests, strict=True)
        ]

    def forget(self) -> None:
        """Remove what the tasks have written, also those of a call with more tasks."""
        for prefix in (layout.record(self.scatter_name), layout.record(self.gather_name)):
            records = [entry.key for entry in self.destination.list(prefix.removesuffix(".json"))]
            for task in filter(None, map(layout.task_of, records)):
                forget_task(self.destination, task)
        remove_leftovers(self.destination, self.folder)
        self.destination.delete_empty_folders(layout.SCRATCH)

    def dealt(self, keys: Collection[str]) -> list[list[str]]:
        """Return the keys of some inputs by group; the groups have about as many bytes each."""
        sizes = {entry.key: entry.size for entry in self.inputs}
        groups: list[list[str]] = [[] for _ in self.numbers]
        taken = [0] * self.tasks
        for key in sorted(keys, key=lambda key: (-sizes[key], key)):
            least = taken.index(min(taken))
            groups[least].append(key)
            taken[least] += sizes[key] + 1
        return groups

    def _scatter_task(self, group: int, work: Work = no_work) -> Task:
        return Task(
            f"{self.scatter_name}{group}",
            self.destination,
            work,
            options={"tasks": self.tasks, "group": group, **self.options},
            inputs=self.inputs,
            outputs=[f"{self.folder}/"],
        )

    def _gather_task(self, number: int, work: Work = no_work) -> Task:
        return Task(
            f"{self.gather_name}{number}",
            self.destination,
            work,
            options={"tasks": self.tasks, "range": number, **self.options},
            inputs=self.inputs,
            after=[f"{self.scatter_name}{group}" for group in self.numbers],
            outputs=[f"{self.folder}/"],
            requires=lambda: map(self._scatter_task, self.numbers),
        )
