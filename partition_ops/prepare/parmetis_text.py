"""Write the text files that ParMETIS's ``pm_dglpart`` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa

from partition_ops import artifacts
from partition_ops.config import PrepareConfig
from partition_ops.graph import parmetis
from partition_ops.graph.dropped import DroppedEdges
from partition_ops.graph.edges import EdgeReader
from partition_ops.graph.metadata import GraphMetadata, load_metadata
from partition_ops.parallel import map_in_threads
from partition_ops.prepare.node_weights import NodeWeights
from partition_ops.prepare.parmetis_edges import EdgeCounts, EdgeText, text_rows
from partition_ops.progress import NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, input_objects, run_task

ROWS_AT_ONCE = 1 << 19


def prepare_parmetis_text(
    config: PrepareConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``prepare/<graph>_{nodes,edges,stats,removed_edges}.txt``.

    Rows are in the order of homogeneous IDs, fields have one space between them. The weights of a
    node are those of `NodeWeights`. An edge that is a self-loop, or that is in its edge
    type already, is not in the edge file but in ``<graph>_removed_edges.txt``, in the same columns:
    homogeneous source and destination, type-wise edge ID, edge type ID, all of the input graph. Of
    duplicates the first stays. Edges that validation has dropped are in neither file. Format: DGL guide,
    chapter 7.1.

    Args:
        config: Options.
        source: Root of the input graph; its edges are read twice.
        destination: Root of the output.
        progress: Shows the rows written.

    Returns:
        The three numbers of ``<graph>_stats.txt``, and those of removed self-loops and duplicates.

    Raises:
        InvalidInputError: An edge file cannot be read.

    Peak memory: some 0.5 GB, whatever the size of the graph, and 17 bytes a pair of nodes with duplicates
    in the same edge type; see `RepeatedEdges`, and `NodeWeights` for what weights add.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    dropped = DroppedEdges(destination)

    def work(task: Task) -> dict[str, Any]:
        reader = EdgeReader(source, metadata, dropped.ids(metadata))
        weights = NodeWeights(config.weights, metadata, source, reader)
        return _TextFiles(metadata, reader, weights, task, progress or NoProgress()).write()

    inputs = input_objects(source, metadata)
    options = {**config.options(), "dropped": dropped.digests}
    return run_task("prepare-parmetis", destination, options=options, inputs=inputs, work=work)


class _TextFiles:
    """Writes the files of one graph."""

    def __init__(
        self,
        metadata: GraphMetadata,
        reader: EdgeReader,
        weights: NodeWeights,
        task: Task,
        progress: Progress,
    ) -> None:
        self.metadata = metadata
        self.weights = weights
        self.reader = reader
        self.task = task
        self.progress = progress

    def write(self) -> dict[str, Any]:
        self._write_nodes()
        edges = self._write_edges()
        stats = (sum(self.metadata.num_nodes), edges.kept, self.weights.count)
        line = " ".join(map(str, stats)) + "\n"
        self.task.wrote(self.task.destination.write_bytes(self._key(parmetis.stats_file), line.encode()))
        return {
            **dict(zip(("num_nodes", "num_edges", "num_node_weights"), stats, strict=True)),
            "self_loops_removed": edges.self_loops,
            "duplicates_removed": edges.duplicates,
        }

    def _key(self, name_of: Callable[[str], str]) -> str:
        return f"{artifacts.PARMETIS_TEXT}/{name_of(self.metadata.graph_name)}"

    def _write_nodes(self) -> None:
        create = self.task.destination.create
        title, total = "Writing nodes", sum(self.metadata.num_nodes)
        with (
            self.progress.step(title, total, "nodes") as advance,
            create(self._key(parmetis.nodes_file)) as new,
            new.path.open("wb") as stream,
        ):
            for text, rows in map_in_threads(self._node_text, self._node_ranges()):
                stream.write(text)
                advance(rows)
        self.task.wrote(new.published())

    def _node_ranges(self) -> Iterator[tuple[int, int, int]]:
        for type_id, count in enumerate(self.metadata.num_nodes):
            for start in range(0, count, ROWS_AT_ONCE):
                yield type_id, start, min(count, start + ROWS_AT_ONCE)

    def _node_text(self, rows: tuple[int, int, int]) -> tuple[pa.Buffer, int]:
        type_id, start, stop = rows
        offset = self.metadata.node_offsets[type_id]
        weights = self.weights.columns(type_id, offset + start, offset + stop)
        columns = [np.full(stop - start, type_id), *weights, np.arange(start, stop)]
        return text_rows(parmetis.node_columns(len(weights)), columns), stop - start

    def _write_edges(self) -> EdgeCounts:
        create = self.task.destination.create
        with (
            self.progress.step("Writing edges", 2 * sum(self.metadata.num_edges), "edges") as advance,
            create(self._key(parmetis.edges_file)) as kept,
            create(self._key(parmetis.removed_edges_file)) as removed,
            kept.path.open("wb") as kept_stream,
            removed.path.open("wb") as removed_stream,
        ):
            counts = EdgeText(self.metadata, self.reader).write(kept_stream, removed_stream, advance)
        self.task.wrote(kept.published())
        self.task.wrote(removed.published())
        return counts
