"""`Spread`: the graph in several tasks, which meet in ``scratch/prepare/``; docs/decisions/prepare.md.

`scatter_alone` and `gather_alone` do some of the tasks in a process of their own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import cached_property, partial
from pathlib import Path
from typing import BinaryIO

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.cost import shares
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.records import checked_copies, forget_task, remove_leftovers
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task, input_objects
from partition_ops.artifacts.write_access import check_apart
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.errors import UsageError
from partition_ops.stages.prepare.cost import expected_half_edges, work_seconds
from partition_ops.stages.prepare.half_edges import CopiedHalfEdges, HalfEdges
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.preparation import Degrees, Preparation
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.local_errors import explain_full_disk
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder

NEIGHBOURS, DEGREES, IN_DEGREES, LOOPS = "neighbours.bin", "degrees.npy", "in_degrees.npy", "loops.json"
COPIED = 1 << 24  # bytes at a time
Work = Callable[[ArtifactWriter], Counters]


def _no_work(writer: ArtifactWriter) -> Counters:
    raise NotImplementedError("this task was only built to ask for its status")


class Spread:
    """The tasks that split the edges of groups of files by range of nodes, and sort the ranges.

    Args:
        config: Options; ``prepare_tasks`` is the number of tasks of either kind.
        source: Root of the input graph.
        destination: Root of the run.
        progress: Shows the edges read.

    Attributes:
        metadata: The graph's metadata.

    Raises:
        InvalidInputError: From the constructor: ``metadata.json`` cannot be used.
    """

    def __init__(
        self, config: PrepareConfig, source: Store, destination: Store, progress: Progress | None = None
    ) -> None:
        self.tasks = config.prepare_tasks
        self.source = source
        self.destination = destination
        self.metadata: GraphMetadata = load_metadata(source, graph_name=config.graph_name)
        self._preparation = Preparation(self.metadata, progress or NoProgress())

    @cached_property
    def inputs(self) -> list[StoredObject]:
        """Identity of every file of the graph."""
        return input_objects(self.source, self.metadata)

    @property
    def numbers(self) -> range:
        """The numbers of the groups, and of the ranges."""
        return range(self.tasks)

    @property
    def shares(self) -> list[list[int]]:
        """The numbers of the tasks, of either kind, that share a process."""
        return shares(work_seconds(sum(self.metadata.num_edges)), self.tasks)

    def scatter(self, group: int) -> StageResult:
        """Split the edges of a group of files, and write ``scratch/prepare/group<i>/``.

        Returns:
            The number of files, and of half-edges.

        Raises:
            InvalidInputError: An edge file cannot be read.

        Peak memory: for each core a block of edges with a copy. 12 to 16 bytes for each edge of the group go
        through a temporary file.
        """
        return self._scatter_task(group, partial(self._scatter, group)).run()

    def gather(self, number: int) -> StageResult:
        """Sort the half-edges of a range, and write ``scratch/prepare/range<i>/``; scatters come first.

        Returns:
            The numbers of nodes and of half-edges.

        Peak memory: 16 bytes a node of the range, and for each core 20 bytes a half-edge of a part of it; see
        `prepare_graph`.
        """
        return self._gather_task(number, partial(self._gather, number)).run()

    def run_missing(self) -> None:
        """Do the tasks that are not done, one after another."""
        missing = [number for number in self.numbers if self._gather_task(number).find_result() is None]
        for group in self.numbers if missing else ():
            self.scatter(group)
        for number in missing:
            self.gather(number)

    def join(self, writer: ArtifactWriter) -> Counters:
        """Write the files of the stage from those of the ranges; return its figures.

        Peak memory: 24 bytes a node.
        """
        names = (NEIGHBOURS, DEGREES, IN_DEGREES, LOOPS)
        loops: list[int] = []

        def write_neighbours(stream: BinaryIO) -> tuple[Degrees, Degrees]:
            degrees, in_degrees = (np.empty(self._preparation.nodes, np.int64) for _ in range(2))
            end = 0
            for number in self.numbers:
                keys = [layout.prepare_range(number, name) for name in names]
                task = f"{layout.PREPARE_GATHER}{number}"
                neighbours, *arrays, figures = checked_copies(self.destination, task, keys)
                with neighbours.open("rb") as part:
                    shutil.copyfileobj(part, stream, COPIED)
                for found, all_nodes in zip(arrays, (degrees, in_degrees), strict=True):
                    of_range = np.load(found, mmap_mode="r")
                    all_nodes[end : end + len(of_range)] = of_range
                end += len(of_range)
                loops.append(json.loads(figures.read_bytes())["self_loops"])
            return degrees, in_degrees

        return self._preparation.write_graph(writer, write_neighbours, lambda: sum(loops))

    def required(self) -> Iterator[Task]:
        """Yield all tasks."""
        for number in self.numbers:
            yield self._scatter_task(number)
            yield self._gather_task(number)

    def forget(self) -> None:
        """Remove what the tasks have written, also those of a call with more tasks."""
        for prefix in (layout.record(layout.PREPARE_SCATTER), layout.record(layout.PREPARE_GATHER)):
            records = [entry.key for entry in self.destination.list(prefix.removesuffix(".json"))]
            for key in records:
                forget_task(self.destination, key.removeprefix(f"{layout.RECORDS}/").removesuffix(".json"))
        remove_leftovers(self.destination, layout.PREPARE_SCRATCH)
        self.destination.delete_empty_folders(layout.SCRATCH)

    @cached_property
    def _hidden(self) -> ListedEdges:
        return ListedEdges(self.destination, layout.DROPPED, layout.EXCLUDED)

    def _scatter_task(self, group: int, work: Work = _no_work) -> Task:
        return Task(
            f"{layout.PREPARE_SCATTER}{group}",
            self.destination,
            work,
            options={"tasks": self.tasks, "group": group, **self._hidden.digests},
            inputs=self.inputs,
            outputs=[f"{layout.PREPARE_SCRATCH}/"],
        )

    def _gather_task(self, number: int, work: Work = _no_work) -> Task:
        return Task(
            f"{layout.PREPARE_GATHER}{number}",
            self.destination,
            work,
            options={"tasks": self.tasks, "range": number, **self._hidden.digests},
            inputs=self.inputs,
            after=[f"{layout.PREPARE_SCATTER}{group}" for group in self.numbers],
            outputs=[f"{layout.PREPARE_SCRATCH}/"],
            requires=lambda: map(self._scatter_task, self.numbers),
        )

    @cached_property
    def _groups(self) -> list[set[str]]:
        """The keys of the edge files of each group."""
        sizes = {entry.key: entry.size for entry in self.inputs}
        keys = {key for data in self.metadata.edges for key in data.files}
        groups: list[set[str]] = [set() for _ in self.numbers]
        taken = [0] * self.tasks
        for key in sorted(keys, key=lambda key: (-sizes[key], key)):
            least = taken.index(min(taken))
            groups[least].add(key)
            taken[least] += sizes[key] + 1
        return groups

    @cached_property
    def _bounds(self) -> list[int]:
        """Where the ranges that are sorted at once begin for each task, and where they end.

        Tasks have about as many half-edges each, as far as the metadata tell: types differ, and not the nodes
        of a type.
        """
        nodes, shift = self._preparation.nodes, self._preparation.shift
        ranges = -(-nodes >> shift)
        work = np.cumsum([0, *(np.array(expected_half_edges(self.metadata)[:ranges]) + 1)])
        shares = work[-1] * np.arange(1, self.tasks) / self.tasks
        return [0, *np.searchsorted(work, shares).clip(max=ranges).tolist(), ranges]

    def _ranges(self, number: int) -> range:
        """The ranges that are sorted at once, of a task."""
        return range(self._bounds[number], self._bounds[number + 1])

    def _scatter(self, group: int, writer: ArtifactWriter) -> Counters:
        preparation = self._preparation
        reader = EdgeReader(self.source, self.metadata, self._hidden.ids(self.metadata))
        chunks = [chunk for chunk in reader.chunks() if chunk.key in self._groups[group]]
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(temporary_folder()))
            file = stack.enter_context((scratch / "half_edges").open("w+b", buffering=0))
            stack.enter_context(explain_full_disk(scratch))
            dealt = HalfEdges(file.fileno(), preparation.nodes, preparation.shift)
            preparation.deal(dealt, reader, chunks)
            bounds = dealt.bounds()
            for number in self.numbers:
                own = self._ranges(number)
                key = layout.prepare_half_edges(group, number)
                with writer.destination.create(key) as new, new.path.open("wb") as stream:
                    new.keep_copy = True
                    dealt.copy(own.start, own.stop, stream)
                writer.wrote(new.get_artifact())
        writer.write_array(layout.prepare_index(group), bounds)
        return {"files": len(chunks), "half_edges": int(bounds[:, -1].sum())}

    def _gather(self, number: int, writer: ArtifactWriter) -> Counters:
        store, preparation = self.destination, self._preparation
        store.fetch_ahead([layout.prepare_half_edges(group, number) for group in self.numbers])
        with ExitStack() as stack:
            files = []
            for group in self.numbers:
                keys = [layout.prepare_index(group), layout.prepare_half_edges(group, number)]
                index, path = checked_copies(store, f"{layout.PREPARE_SCATTER}{group}", keys)
                files.append((stack.enter_context(path.open("rb", buffering=0)).fileno(), np.load(index)))
            own = self._ranges(number)
            dealt = CopiedHalfEdges(preparation.nodes, preparation.shift, own.start, own.stop, files)
            key = layout.prepare_range(number, NEIGHBOURS)
            with writer.destination.create(key) as new, new.path.open("wb") as stream:
                new.keep_copy = True
                loops, degrees, in_degrees = preparation.sort(dealt, own, stream)
            writer.wrote(new.get_artifact())
        writer.write_array(layout.prepare_range(number, DEGREES), degrees)
        writer.write_array(layout.prepare_range(number, IN_DEGREES), in_degrees)
        writer.write_json(layout.prepare_range(number, LOOPS), {"self_loops": loops})
        return {"nodes": len(degrees), "half_edges": int(degrees.sum())}


def scatter_alone(
    config: PrepareConfig,
    source: Store,
    destination: Store,
    *,
    groups: Sequence[int],
    progress: Progress | None = None,
) -> list[StageResult]:
    """Do `Spread.scatter` for some groups, in a process of its own."""
    spread = _checked(Spread(config, source, destination, progress), groups)
    return [spread.scatter(group) for group in groups]


def gather_alone(
    config: PrepareConfig,
    source: Store,
    destination: Store,
    *,
    ranges: Sequence[int],
    progress: Progress | None = None,
) -> list[StageResult]:
    """Do `Spread.gather` for some ranges, in a process of its own."""
    spread = _checked(Spread(config, source, destination, progress), ranges)
    return [spread.gather(number) for number in ranges]


def _checked(spread: Spread, numbers: Sequence[int]) -> Spread:
    """Check the place of the run, and that there are tasks with these numbers."""
    check_apart(spread.source, spread.destination, spread.metadata)
    wrong = [number for number in numbers if number not in spread.numbers]
    if wrong:
        raise UsageError(
            f"There is no task {wrong[0]} of prepare", expected=f"0 to {spread.tasks - 1}, the tasks"
        )
    return spread
