"""The rows of other partitions that each trainer reads most, as files that no output format owns."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.artifacts.book import Book, read_book
from partition_ops.artifacts.new_ids import NodeOrder
from partition_ops.artifacts.records import config_task, conversion_tasks, read_record
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.feature_reader import FeatureReader, feature_readers
from partition_ops.chunked.graph_writer import npy_header
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.stages.cache.options import CacheConfig
from partition_ops.storage import Artifact, Store
from partition_ops.system.progress import NoProgress, Progress
from partition_ops.traffic.hot_rows import Cacheable
from partition_ops.traffic.model import Singles
from partition_ops.traffic.of_run import model_of_run
from partition_ops.traffic.train_nodes import read_train_nodes, train_types

Ids = npt.NDArray[np.int64]


def cache_rows(
    config: CacheConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``cache/part<i>/``: the rows of other partitions that the trainer of each partition reads most.

    Args:
        config: Options.
        source: Root of the input graph.
        destination: Root of the run, where every partition has been converted.
        progress: Shows the partitions.

    Returns:
        The number of cached rows of all partitions, and the bytes of their features.

    Raises:
        InvalidInputError: The partitions are not converted, or a file of the input cannot be read.
        UsageError: There is no such train node type or mask.

    Peak memory: 6 bytes a node and those of `model_of_run`, 57 bytes a node, and 2 MiB of a feature. The
    features of the input are read once for each partition, only where they are cached.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    read_record(destination, config_task(destination))  # raises an error if convert has not been done
    book = read_book(destination, metadata.graph_name)

    def work(writer: ArtifactWriter) -> Counters:
        types = train_types(metadata, config.sampling.train_nodes or ())
        train = read_train_nodes(source, metadata, types)
        assignment = read_assignment(destination.child(layout.ASSIGNMENT), metadata)
        cacheable, order = Cacheable.of(metadata, assignment), NodeOrder(assignment)
        writers = _Writer(writer, source, metadata, order, book)
        run = source, metadata, destination, train, assignment, book.num_hops
        with (
            model_of_run(config.sampling.sampling, *run) as model,
            (progress or NoProgress()).step("Caching rows", book.num_parts, "partitions") as advance,
        ):

            def look(part: int, reads: Singles) -> None:
                writers.write(part, cacheable.hottest(part, reads, config.cache_share))
                advance(1)

            model.traffic(assignment.parts, assignment.num_parts, look)
        return {"rows": writers.rows, "bytes": writers.bytes}

    return Task(
        "cache",
        destination,
        work,
        options=config.options(),
        after=conversion_tasks(destination, book.num_parts),
        outputs=[f"{layout.CACHE}/"],
    ).run()


class _Writer:
    """Writes the rows of one partition after the other.

    Attributes:
        rows: Number of rows that were written.
        bytes: Size of their features.
    """

    def __init__(
        self, writer: ArtifactWriter, source: Store, metadata: GraphMetadata, order: NodeOrder, book: Book
    ) -> None:
        self._writer, self._metadata, self._order = writer, metadata, order
        self._readers = feature_readers(source, metadata)
        self._shifts = {}  # by type, the difference of homogeneous and type-wise new IDs by partition
        for name, ranges in book.node_ranges().items():
            starts, counts = np.array(ranges).T[0], np.diff(ranges).ravel()
            self._shifts[name] = starts - (np.cumsum(counts) - counts)
        self.rows = self.bytes = 0

    def write(self, part: int, nodes: Ids) -> None:
        """Write the rows of some nodes, by ascending homogeneous ID of the input."""
        offsets = np.asarray(self._metadata.node_offsets)
        for type_id, name in enumerate(self._metadata.node_types):
            features = [one for one in self._metadata.node_features if one.type_name == name]
            if not features:
                continue
            begin, end = np.searchsorted(nodes, offsets[type_id : type_id + 2])
            mine = nodes[begin:end]
            owners = self._order.assignment.parts[mine]
            new = self._order.new_ids[mine] - self._shifts[name][owners]
            ids = mine - offsets[type_id]
            self._writer.write_array(layout.cached_nodes(part, name), new.astype(np.int64))
            self._writer.write_array(layout.cached_orig_nodes(part, name), ids)
            self.rows += len(mine)
            for feature in features:
                key = layout.cached_rows(part, name, feature.name)
                artifact = self._write_rows(key, self._readers[feature.key], ids)
                self.bytes += artifact.size

    def _write_rows(self, key: str, reader: FeatureReader, ids: Ids) -> Artifact:
        found = reader.layout
        with self._writer.create(key) as new, new.path.open("wb") as stream:
            stream.write(npy_header(found.dtype, (len(ids), *found.shape)))
            for block in reader.stream([ids]):
                stream.write(np.ascontiguousarray(block).data)
        return new.get_artifact()
