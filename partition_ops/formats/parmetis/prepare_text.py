"""Write the text files that ParMETIS's ``pm_dglpart`` reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.artifacts import layout
from partition_ops.artifacts.dropped_edges import DroppedEdges
from partition_ops.artifacts.tasks import ArtifactWriter, StageResult, input_objects, run_task
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.formats.parmetis import file_names as parmetis
from partition_ops.formats.parmetis.attributes import Attributes, chosen_attributes
from partition_ops.formats.parmetis.edge_text import EdgeCounts, EdgeText
from partition_ops.formats.parmetis.node_weights import NodeWeights
from partition_ops.formats.parmetis.text_rows import rows_at_once, text_rows
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


@dataclass(frozen=True)
class _NodeBlock:
    """Consecutive nodes of one type, and their attributes."""

    type_id: int
    ids: Ids
    attributes: list[Values]


def prepare_parmetis_text(
    config: PrepareConfig, source: Store, destination: Store, *, progress: Progress | None = None
) -> StageResult:
    """Write ``prepare/<graph>_{nodes,edges,stats,removed_edges}.txt``.

    Rows are in the order of homogeneous IDs, fields have one space between them. The weights of a node are
    those of `NodeWeights`. An edge that is a self-loop, or that has the source and destination of an earlier
    one, of whatever edge type, is not in the edge file but in ``<graph>_removed_edges.txt``, in the same
    columns: homogeneous source and destination, type-wise edge ID, edge type ID, all of the input graph. An
    edge and its reverse both stay. Attributes follow in every row; see `Attributes`. Edges that validation
    has dropped are in neither file. Format: DGL guide, chapter 7.1.

    Args:
        config: Options.
        source: Root of the input graph; its edges are read twice.
        destination: Root of the output.
        progress: Shows the rows written.

    Returns:
        The three numbers of ``<graph>_stats.txt``, and those of removed self-loops and duplicates.

    Raises:
        UsageError: There is no feature that is to be an attribute or a weight.
        InvalidInputError: A file of edges or features cannot be read.

    Peak memory: some 0.7 GB, whatever the size of the graph, and 48 bytes a duplicate; see `NodeWeights`
    for what weights add.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    dropped = DroppedEdges(destination)

    def work(task: ArtifactWriter) -> dict[str, Any]:
        reader = EdgeReader(source, metadata, dropped.ids(metadata))
        weights = NodeWeights(config.weights, metadata, source, reader)
        attributes = chosen_attributes(config.attributes, metadata, source)
        return _TextFiles(metadata, reader, weights, attributes, task, progress or NoProgress()).write()

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
        attributes: tuple[Attributes, Attributes],
        task: ArtifactWriter,
        progress: Progress,
    ) -> None:
        self.metadata = metadata
        self.weights = weights
        self.attributes, self.edge_attributes = attributes
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
        return f"{layout.PARMETIS_TEXT}/{name_of(self.metadata.graph_name)}"

    def _write_nodes(self) -> None:
        create = self.task.destination.create
        title, total = "Writing nodes", sum(self.metadata.num_nodes)
        with (
            self.progress.step(title, total, "nodes") as advance,
            create(self._key(parmetis.nodes_file)) as new,
            new.path.open("wb") as stream,
        ):
            for text, rows in map_in_threads(self._node_text, self._node_blocks()):
                stream.write(text)
                advance(rows)
        self.task.wrote(new.published())

    def _node_blocks(self) -> Iterator[_NodeBlock]:
        step = rows_at_once(self.attributes.width)
        for type_id, count in enumerate(self.metadata.num_nodes):
            rows = self.attributes.of_type(type_id)
            for start in range(0, count, step):
                ids = np.arange(start, min(count, start + step))
                yield _NodeBlock(type_id, ids, rows.take(ids))

    def _node_text(self, block: _NodeBlock) -> tuple[pa.Buffer, int]:
        begin = self.metadata.node_offsets[block.type_id] + int(block.ids[0])
        weights = self.weights.columns(block.type_id, begin, begin + len(block.ids))
        columns = [np.full(len(block.ids), block.type_id), *weights, block.ids]
        return text_rows(columns, block.attributes), len(block.ids)

    def _write_edges(self) -> EdgeCounts:
        create = self.task.destination.create
        with (
            self.progress.step("Writing edges", 2 * sum(self.metadata.num_edges), "edges") as advance,
            create(self._key(parmetis.edges_file)) as kept,
            create(self._key(parmetis.removed_edges_file)) as removed,
            kept.path.open("wb") as kept_stream,
            removed.path.open("wb") as removed_stream,
        ):
            text = EdgeText(self.metadata, self.reader, self.edge_attributes)
            counts = text.write(kept_stream, removed_stream, advance)
        self.task.wrote(kept.published())
        self.task.wrote(removed.published())
        return counts
