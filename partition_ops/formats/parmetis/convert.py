"""From the text that ParMETIS's ``pm_dglpart`` wrote to the files that DGL's distributed training loads."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.book import Book, node_counts
from partition_ops.artifacts.tasks import ArtifactWriter, StageResult, run_task
from partition_ops.chunked.metadata import check_graph_name
from partition_ops.formats.format import get_format
from partition_ops.formats.parmetis.edge_rows import refuse_missing
from partition_ops.formats.parmetis.node_order import read_node_order
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.formats.parmetis.output_files import ParmetisFiles
from partition_ops.formats.parmetis.part_writer import PartWriter
from partition_ops.formats.parmetis.schema_metadata import metadata_of, node_types_of
from partition_ops.formats.parmetis.text_table import TextTable
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress

Schema = dict[str, dict[str, list[int]]]


def convert_parmetis(
    config: ConvertPartitionConfig,
    source: Store,
    schema: Schema,
    destination: Store,
    *,
    schema_where: str = "the schema",
    progress: Progress | None = None,
) -> StageResult:
    """Write ``<graph>.json`` and ``part<i>/``, as ``convert`` does, from ParMETIS's output.

    New IDs of nodes are those that ParMETIS gave; edges get theirs by partition, type and old ID. Attributes
    become the features ``<type>/attr``, (nodes or edges, attributes). Edges in ``<graph>_removed_edges.txt``,
    where that is, join the partitions of their destinations. ``<graph>.json`` is written last.

    Args:
        config: Options.
        source: Folder in which ``pm_dglpart`` ran. Its statistics files are not needed.
        schema: The graph's schema; edge types may have plain names.
        destination: Root of the output.
        schema_where: URI of the schema, for messages.
        progress: Shows the partitions converted.

    Returns:
        Numbers of partitions, nodes, edges, edges put back and edges that are missing.

    Raises:
        UsageError: A dtype is none.
        InvalidInputError: A file is missing or malformed, or does not fit the schema; with file and line.

    Peak memory: 48 bytes a node, 1 byte an edge, 40 bytes a removed edge, and 300 bytes an edge of the
    largest partition with four times its attributes: three are at work at a time. The format is that of
    the DGL guide, chapter 7.1.
    """
    check_graph_name(config.graph_name, "--graph-name")
    files = ParmetisFiles(config, source)

    def work(task: ArtifactWriter) -> dict[str, Any]:
        return _Conversion(config, files, schema, schema_where, task).run(progress or NoProgress())

    options = {**config.options(), "schema": schema}
    return run_task("convert-partition", destination, options=options, inputs=files.objects(), work=work)


@dataclass
class _Conversion:
    """One graph at work."""

    config: ConvertPartitionConfig
    files: ParmetisFiles
    schema: Schema
    schema_where: str
    task: ArtifactWriter

    def run(self, progress: Progress) -> dict[str, Any]:
        name = self.config.graph_name
        # one of a conversion that left no record: it must not name partitions that are being replaced
        self.task.destination.delete([f"{name}.json"])
        types = node_types_of(self.schema["nid"])
        order = read_node_order(self.files.node_tables(attributes=False), types)
        metadata = metadata_of(
            self.schema["eid"], types, self._edge_files(), graph_name=name, where=self.schema_where
        )
        writer = PartWriter(metadata, order, self.files, self.task)
        counts = self._write_parts(writer, len(metadata.edge_types), progress)
        missing = writer.loader.missing()
        if missing and self.config.missing_edges == "fail":
            refuse_missing(writer.loader, self.files.removed_edges)
        edges = int(counts.sum())
        names = [str(edge_type) for edge_type in metadata.edge_types]
        book = Book(
            graph_name=name,
            num_parts=self.config.num_parts,
            num_hops=1,
            part_method=order.assignment.algo_name,
            node_counts=node_counts(metadata, order.assignment),
            edge_counts=dict(zip(names, map(tuple, counts.tolist()), strict=True)),
            formats=("dgl",),
        )
        for key, data in get_format("dgl").config_files(book).items():
            self.task.wrote(self.task.destination.write_bytes(key, data))
        return {
            "partition_config": f"{name}.json",
            "num_parts": self.config.num_parts,
            "nodes": sum(metadata.num_nodes),
            "edges": edges,
            "edges_put_back": writer.loader.num_removed,
            "missing_edges": missing,
        }

    def _edge_files(self) -> list[TextTable]:
        removed = self.files.removed_edges_table(attributes=False)
        return [*self.files.part_edge_tables(attributes=False), *([removed] if removed else [])]

    def _write_parts(self, writer: PartWriter, edge_types: int, progress: Progress) -> npt.NDArray[np.int64]:
        """(edge types, partitions) int64, the number of edges written."""
        counts = np.zeros((edge_types, self.config.num_parts), np.int64)
        with progress.step("Converting", self.config.num_parts, "partitions") as advance:
            # the edges of two partitions are read while those of the one before are written
            loaded = map_in_threads(writer.load, range(self.config.num_parts), workers=2)
            for part, edges in enumerate(loaded):
                counts[:, part] = writer.write(part, edges, first_edge_id=int(counts.sum()))
                advance(1)
        return counts
