"""Data that the tasks of a conversion share: options, metadata, node order; read once in a process.

`Conversion` also says what each task depends on. A partition does not depend on how its edges were grouped:
it does not change if the chunks are grouped in another way or scattered with other memory.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import num_parts_of, read_assignment
from partition_ops.artifacts.dropped_edges import ListedEdges
from partition_ops.artifacts.new_ids import NodeOrder
from partition_ops.artifacts.parhip import read_degrees
from partition_ops.artifacts.records import part_task, read_record
from partition_ops.artifacts.tasks import Task, Work, input_objects, no_work
from partition_ops.chunked.feature_reader import FeatureReader, feature_readers
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.formats.format import Format, output_formats
from partition_ops.stages.convert.buckets import Buckets, bucket_dtype
from partition_ops.stages.convert.cost import most_gathers
from partition_ops.stages.convert.options import MEMORY_SHARE, ConvertConfig
from partition_ops.stages.convert.ranges import gather_ranges
from partition_ops.storage import Store, StoredObject
from partition_ops.system.memory import planned_memory
from partition_ops.system.parallel import cores


class Conversion:
    """One graph on its way from an assignment to partitions. Usable from several threads.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the run, where ``partition`` has been done.
        one_process: Whether this process does all tasks, so that it fetches a file of the input only once.

    Attributes:
        metadata: The graph's metadata.
        formats: The output formats; readers use the first that is readable.

    Raises:
        UsageError: From the constructor: a format is not installed, or cannot be written.
        InvalidInputError: From every method: a file is missing, or the assignment does not fit the graph.

    Peak memory: 29 bytes a node, 37 beyond 2^31 nodes, while the node order is made; then 13, or 21.
    """

    def __init__(
        self, config: ConvertConfig, source: Store, destination: Store, *, one_process: bool = False
    ) -> None:
        self.one_process = one_process
        self.config = config
        self.source = source
        self.destination = destination
        self.formats: list[Format] = output_formats(config.formats, config.num_hops)
        self.metadata: GraphMetadata = load_metadata(source, graph_name=config.graph_name)
        self._lock = threading.Lock()
        self._order: NodeOrder | None = None
        self._size_classes: npt.NDArray[np.uint8] | None = None
        self._buckets: Buckets | None = None

    @cached_property
    def inputs(self) -> list[StoredObject]:
        """Identity of every file of the graph."""
        return input_objects(self.source, self.metadata)

    @cached_property
    def features(self) -> dict[str, FeatureReader]:
        """By feature, its reader: all partitions read the headers of its files once."""
        return feature_readers(self.source, self.metadata)

    @cached_property
    def prepared(self) -> bool:
        """Whether ``prepare`` has been done, which the engine ``random`` can do without."""
        return self.destination.exists(layout.record("prepare"))

    @cached_property
    def num_parts(self) -> int:
        read_record(self.destination, "partition")  # says so if it has not been done
        return num_parts_of(self.destination.child(layout.ASSIGNMENT))

    @cached_property
    def trainers_per_machine(self) -> int:
        """Number of trainers on a machine that the assignment was made for."""
        key = f"{layout.ASSIGNMENT}/{layout.ASSIGNMENT_SIDECAR}"
        if not self.destination.exists(key):
            return 1
        made_by: dict[str, Any] = self.destination.read_json(key)["made_by"]
        return int(made_by.get("num_trainers_per_machine", 1))

    def buckets(self, groups: Sequence[int]) -> Buckets:
        """Return the edges that scatter left in its groups of edges; all partitions read their indices once.

        Raises:
            InvalidInputError: The edges have not been scattered.
        """
        with self._lock:
            if self._buckets is None:
                self._buckets = Buckets(self.destination, self.metadata, groups, self.num_parts)
            return self._buckets

    @property
    def gathering_processes(self) -> int:
        """Number of processes that the partitions are gathered in."""
        if self.one_process:
            return 1
        sizes, most = (entry.size for entry in self.inputs), self.config.convert_tasks
        return len(gather_ranges(sum(sizes), self.num_parts, most))

    @cached_property
    def dropped(self) -> ListedEdges:
        """The edges that leave the output."""
        return ListedEdges(self.destination, layout.DROPPED)

    @property
    def order(self) -> NodeOrder:
        """New IDs of all nodes."""
        with self._lock:
            if self._order is None:
                folder = self.destination.child(layout.ASSIGNMENT)
                order = NodeOrder(read_assignment(folder, self.metadata))
                _ = order.old_ids, order.starts  # here, under the lock
                self._order = order
            return self._order

    @property
    def size_classes(self) -> npt.NDArray[np.uint8] | None:
        """(nodes,) uint8, the number of bits of each degree in the symmetric graph, by homogeneous ID.

        None if ``prepare`` has not been done.
        """
        with self._lock:
            if self._size_classes is None and self.prepared:
                degrees = read_degrees(self.destination, layout.PREPARED_GRAPH)
                self._size_classes = np.frexp(degrees.astype(np.float64))[1].astype(np.uint8)
            return self._size_classes

    def workers(self, task_bytes: int, most: int | None = None) -> int:
        """Return how many tasks that take so many bytes each may run at a time in this process.

        They are as many as memory allows, but no more than ``most``, by default the number of cores.
        """
        limit = planned_memory(self.config.memory, MEMORY_SHARE)
        return max(1, min(most or cores(), (limit - 12 * sum(self.metadata.num_nodes)) // max(task_bytes, 1)))

    def gathers(self, task_bytes: int) -> int:
        """Return how many partitions that take so many bytes each may be gathered at a time; as `workers`."""
        edge_bytes = 3 * bucket_dtype(self.metadata).itemsize * sum(self.metadata.num_edges) // self.num_parts
        return self.workers(task_bytes, most_gathers(cores(), task_bytes, edge_bytes))

    def plan_task(self, work: Work = no_work) -> Task:
        """Return the task that groups the chunks."""
        return Task(
            layout.PLAN_TASK,
            self.destination,
            work,
            options=self._options(),
            inputs=self.inputs,
            after=["partition"],
            outputs=[f"{layout.SCRATCH}/"],
        )

    def scatter_task(self, group: int, work: Work = no_work) -> Task:
        """Return the task that scatters one group."""
        return Task(
            f"{layout.SCATTER_TASK}{group}",
            self.destination,
            work,
            options={**self._options(), "group": group},
            inputs=self.inputs,
            after=["partition", layout.PLAN_TASK],
            outputs=[f"{layout.SCRATCH}/"],
        )

    def gather_task(
        self, part: int, work: Work = no_work, requires: Callable[[], Iterable[Task]] = tuple
    ) -> Task:
        """Return the task that builds one partition."""
        folders = (layout.partition_folder(part), *(form.part_folder(part) for form in self.formats))
        return Task(
            part_task(part),
            self.destination,
            work,
            options={**self._options(), "part": part},
            inputs=self.inputs,
            after=["partition", *(["prepare"] if self.prepared else [])],
            outputs=[f"{folder}/" for folder in dict.fromkeys(folders)],
            requires=requires,
        )

    def book_task(self, work: Work = no_work) -> Task:
        """Return the task that writes the book and the files that describe all partitions."""
        return Task(
            layout.CONFIG_TASK,
            self.destination,
            work,
            options=self.config.task_options(),
            inputs=self.inputs[:1],  # metadata.json, which names the graph
            after=["partition", *map(part_task, range(self.num_parts))],
            outputs=[layout.BOOK, *(f"{form.folder}/" for form in self.formats)],
        )

    def _options(self) -> dict[str, Any]:
        return {**self.config.task_options(), **self.dropped.digests}
