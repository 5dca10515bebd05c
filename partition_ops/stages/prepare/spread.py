"""`Spread`: the graph in several tasks, which meet in ``scratch/prepare/``; docs/decisions/prepare.md.

`run_alone` does some of the tasks in a process of its own.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from contextlib import ExitStack
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.records import checked_copies
from partition_ops.artifacts.spread_tasks import SpreadTasks
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, input_objects
from partition_ops.chunked.edges import EdgeReader
from partition_ops.stages.prepare.cost import expected_half_edges, work_seconds
from partition_ops.stages.prepare.half_edges import CopiedHalfEdges, HalfEdges
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.preparation import Degrees, Preparation
from partition_ops.storage import Store, StoredObject
from partition_ops.storage.local_errors import explain_full_disk
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.system.temporary_folders import temporary_folder

NEIGHBOURS, DEGREES, IN_DEGREES, LOOPS = "neighbours.bin", "degrees.npy", "in_degrees.npy", "loops.json"
INDEX = "index.npy"  # of the blocks of a group; see `HalfEdges.bounds`
COPIED = 1 << 24  # bytes at a time


class Spread(SpreadTasks):
    """The tasks that split the edges of groups of files by range of nodes, and sort the ranges.

    Args:
        config: Options; ``prepare_tasks`` is the number of tasks of either kind.
        source: Root of the input graph.
        destination: Root of the run.
        progress: Shows the edges read.

    Raises:
        InvalidInputError: From the constructor: ``metadata.json`` cannot be used.
    """

    stage = "prepare"
    scatter_name = layout.PREPARE_SCATTER
    gather_name = layout.PREPARE_GATHER
    folder = layout.PREPARE_SCRATCH

    def __init__(
        self, config: PrepareConfig, source: Store, destination: Store, progress: Progress | None = None
    ) -> None:
        super().__init__(config.prepare_tasks, source, destination, config.graph_name)
        self._preparation = Preparation(self.metadata, progress or NoProgress())

    @cached_property
    def inputs(self) -> list[StoredObject]:
        """Identity of every file of the graph."""
        return input_objects(self.source, self.metadata)

    @property
    def seconds(self) -> float:
        return work_seconds(sum(self.metadata.num_edges))

    @property
    def options(self) -> Mapping[str, Any]:
        """Digests of the lists of edges that the graph does not have."""
        return self._hidden.digests

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
                keys = [layout.spread_range(self.folder, number, name) for name in names]
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

    @cached_property
    def _hidden(self) -> ListedEdges:
        return ListedEdges(self.destination, layout.DROPPED, layout.EXCLUDED)

    @cached_property
    def _groups(self) -> list[list[str]]:
        """The keys of the edge files of each group."""
        return self.dealt({key for data in self.metadata.edges for key in data.files})

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

    def scatter_files(self, group: int, writer: ArtifactWriter) -> Counters:
        """Split the edges of a group of files, and write ``scratch/prepare/group<i>/``.

        Returns:
            The number of files, and of half-edges.

        Raises:
            InvalidInputError: An edge file cannot be read.

        Peak memory: for each core a block of edges with a copy. 12 to 16 bytes for each edge of the group go
        through a temporary file.
        """
        preparation = self._preparation
        reader = EdgeReader(self.source, self.metadata, self._hidden.ids(self.metadata))
        keys = {*self._groups[group]}
        chunks = [chunk for chunk in reader.chunks() if chunk.key in keys]
        with ExitStack() as stack:
            scratch = Path(stack.enter_context(temporary_folder()))
            file = stack.enter_context((scratch / "half_edges").open("w+b", buffering=0))
            stack.enter_context(explain_full_disk(scratch))
            dealt = HalfEdges(file.fileno(), preparation.nodes, preparation.shift)
            preparation.deal(dealt, reader, chunks)
            bounds = dealt.bounds()
            for number in self.numbers:
                own = self._ranges(number)
                key = layout.spread_block(self.folder, group, number)
                with writer.create(key) as new, new.path.open("wb") as stream:
                    new.keep_copy = True
                    dealt.copy(own.start, own.stop, stream)
        writer.write_array(layout.spread_group(self.folder, group, INDEX), bounds)
        return {"files": len(chunks), "half_edges": int(bounds[:, -1].sum())}

    def gather_range(self, number: int, writer: ArtifactWriter) -> Counters:
        """Sort the half-edges of a range, and write ``scratch/prepare/range<i>/``.

        Returns:
            The numbers of nodes and of half-edges.

        Peak memory: 16 bytes a node of the range, and for each core 20 bytes a half-edge of a part of it; see
        `prepare_graph`.
        """
        preparation = self._preparation
        with ExitStack() as stack:
            files = [
                (stack.enter_context(path.open("rb", buffering=0)).fileno(), np.load(index))
                for index, path in self.scattered(number, INDEX)
            ]
            own = self._ranges(number)
            dealt = CopiedHalfEdges(preparation.nodes, preparation.shift, own.start, own.stop, files)
            key = layout.spread_range(self.folder, number, NEIGHBOURS)
            with writer.create(key) as new, new.path.open("wb") as stream:
                new.keep_copy = True
                loops, degrees, in_degrees = preparation.sort(dealt, own, stream)
        writer.write_array(layout.spread_range(self.folder, number, DEGREES), degrees)
        writer.write_array(layout.spread_range(self.folder, number, IN_DEGREES), in_degrees)
        writer.write_json(layout.spread_range(self.folder, number, LOOPS), {"self_loops": int(loops.sum())})
        return {"nodes": len(degrees), "half_edges": int(degrees.sum())}


run_alone = Spread.run_alone
