"""``convert-partition``: from the output of ParMETIS's ``pm_dglpart`` to the files that DGL loads."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import write_assignment_files
from partition_ops.artifacts.book import STATS_VERSION, Book, node_counts
from partition_ops.artifacts.graph_schema import schema_of
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.names import check_graph_name
from partition_ops.errors import UsageError
from partition_ops.formats.columns import Column
from partition_ops.formats.format import get_format
from partition_ops.formats.neutral_partition import Partition
from partition_ops.formats.parmetis import LAYOUT
from partition_ops.formats.parmetis.options import ConvertPartitionConfig
from partition_ops.formats.parmetis.output_edges import EdgeLoader, EdgeRows
from partition_ops.formats.parmetis.output_nodes import read_node_attributes, read_node_order
from partition_ops.formats.parmetis.schema_metadata import Schema, metadata_of, node_types_of
from partition_ops.formats.parmetis.text_files import OutputFiles, common_width
from partition_ops.storage import Store
from partition_ops.system.parallel import map_in_threads
from partition_ops.system.progress import NoProgress, Progress

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
TEXT_VERSION = 1  # of convert/text.json


def convert_parmetis(
    config: ConvertPartitionConfig,
    source: Store,
    schema: Schema,
    destination: Store,
    *,
    schema_where: str = "the schema",
    progress: Progress | None = None,
) -> StageResult:
    """Write ``<graph>.json`` and ``part<i>/``, as DGL's script does, from ParMETIS's output.

    New IDs of nodes are those that ParMETIS gave; edges get theirs by partition, type and old ID. Attributes
    become the features ``<type>/feat``, (nodes or edges, attributes). Edges in the file of removed edges, if
    it exists, join the partitions of their destinations. The task also writes what later stages read: book,
    assignment, schema, and the counts of each partition. ``<graph>.json`` is written last.

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
        UsageError: There is no such dtype.
        InvalidInputError: A file is missing or malformed, or does not fit the schema; with file and line.

    Peak memory: 48 bytes a node, 1 byte an edge, 40 bytes a removed edge, and 300 bytes an edge of the
    largest partition with four times its attributes: three are at work at a time. The format is that of
    the DGL guide, chapter 7.1.
    """
    check_graph_name(config.graph_name, "--graph-name")
    if destination.exists(layout.record(layout.CONFIG_TASK)):
        raise UsageError(
            f"{destination.uri} is the output of a run",
            expected="an empty folder, or one that convert-partition wrote",
            remedy="Use another --output.",
        )
    files = OutputFiles(config, source)

    def work(writer: ArtifactWriter) -> Counters:
        return _Conversion(config, files, schema, schema_where, writer).run(progress or NoProgress())

    options = {**config.options(), "schema": schema}
    return Task(layout.TEXT_TASK, destination, work, options=options, inputs=files.objects()).run()


class _Conversion:
    """Converts the output for one graph."""

    def __init__(
        self,
        config: ConvertPartitionConfig,
        files: OutputFiles,
        schema: Schema,
        schema_where: str,
        writer: ArtifactWriter,
    ) -> None:
        self.config = config
        self.files = files
        self.writer = writer
        self.format = get_format(LAYOUT[0])
        types = node_types_of(schema["nid"])
        self.order = read_node_order(files.node_tables(attributes=False), types)
        removed = files.removed_edges_table(attributes=False)
        tables = [*files.part_edge_tables(attributes=False), *([removed] if removed else [])]
        self.metadata = metadata_of(
            schema["eid"], types, tables, graph_name=config.graph_name, where=schema_where
        )
        self.nodes = files.node_tables(attributes=True)
        self.node_width = common_width(self.nodes)
        self.edges = files.part_edge_tables(attributes=True)
        removed = files.removed_edges_table(attributes=True)
        width = common_width([*self.edges, *([removed] if removed else [])])
        self.loader = EdgeLoader(self.metadata, self.order, width=width, removed=removed)

    def run(self, progress: Progress) -> Counters:
        counts = np.zeros((len(self.metadata.edge_types), self.config.num_parts), np.int64)
        # those of a conversion that left no record: they must not name partitions that are being replaced
        self.writer.destination.delete([layout.BOOK, *self.format.config_files(self._book(counts))])
        self._write_parts(counts, progress)
        if self.config.missing_edges == "fail":
            self.loader.checks.require_all(
                remedy=f"If they were removed before ParMETIS ran, put {self.files.removed_edges} into"
                " --input-dir; if you accept that they are lost (ParMETIS drops duplicates), use"
                " --missing-edges accept."
            )
        missing = self.loader.checks.missing()
        self._write_neutral(missing)
        book = self._book(counts)
        self.writer.write_json(layout.BOOK, book.to_json())
        config_files = self.format.config_files(book)
        for key, content in config_files.items():
            self.writer.wrote(self.writer.destination.write_bytes(key, content))
        return {
            "partition_config": next(iter(config_files)),
            "num_parts": self.config.num_parts,
            "nodes": sum(self.metadata.num_nodes),
            "edges": int(counts.sum()),
            "edges_put_back": self.loader.num_removed,
            "missing_edges": missing,
        }

    def _write_neutral(self, missing: int) -> None:
        """Write the assignment, the schema with canonical types, and the list of the files that were read."""
        assignment = self.order.assignment
        write_assignment_files(self.writer, self.metadata, assignment, made_by={"engine": "imported"})
        self.writer.write_json(layout.schema_file(self.metadata.graph_name), schema_of(self.metadata))
        text = {
            "version": TEXT_VERSION,
            "uri": self.files.source.uri,
            "files": self.files.digests(),
            "missing_edges": missing,
        }
        self.writer.write_json(layout.CONVERTED_TEXT, text)

    def _book(self, edge_counts: Ids) -> Book:
        """Return the book, from the (edge types, partitions) numbers of edges."""
        edge_types = map(str, self.metadata.edge_types)
        return Book(
            graph_name=self.metadata.graph_name,
            num_parts=self.config.num_parts,
            num_hops=1,
            part_method=self.order.assignment.algo_name,
            node_counts=node_counts(self.metadata, self.order.assignment),
            edge_counts=dict(zip(edge_types, map(tuple, edge_counts.tolist()), strict=True)),
            formats=(self.format.name,),
        )

    def _write_parts(self, counts: Ids, progress: Progress) -> None:
        """Write all partitions, and enter the number of edges of each type and partition."""

        def load(part: int) -> EdgeRows:
            return self.loader.load(part, self.edges[part])

        with progress.step("Converting", self.config.num_parts, "partitions") as advance:
            # the edges of two partitions are read while those of the one before are written
            loaded = map_in_threads(load, range(self.config.num_parts), workers=2)
            for part, edges in enumerate(loaded):
                starts = edges.starts(len(counts))
                partition = self._partition(part, edges, starts, first_edge_id=int(counts.sum()))
                self._write_stats(part, partition, edges)
                for name, file in self.format.partition_files(partition).items():
                    with self.writer.create(f"part{part}/{name}") as new, new.path.open("wb") as stream:
                        file.write(stream)
                counts[:, part] = np.diff(starts)
                advance(1)

    def _write_stats(self, part: int, partition: Partition, edges: EdgeRows) -> None:
        """Write the counts that the quality report is made from."""
        metadata, parts = self.metadata, self.order.assignment.parts
        types = np.concatenate([np.empty(0, np.int32), *partition.columns["nodes/type_id"].blocks()])
        edge_types = list(map(str, metadata.edge_types))
        cut = parts[edges.rows[0]] != part
        counts = [
            ("inner_nodes", metadata.node_types, types[: partition.num_inner]),
            ("halo_nodes", metadata.node_types, types[partition.num_inner :]),
            ("edges", edge_types, edges.rows[3]),
            ("cut_edges", edge_types, edges.rows[3][cut]),
        ]
        stats = {
            name: dict(zip(names, np.bincount(ids, minlength=len(names)).tolist(), strict=True))
            for name, names, ids in counts
        }
        self.writer.write_json(
            layout.partition_stats(part), {"version": STATS_VERSION, "part": part, **stats}
        )

    def _partition(self, part: int, edges: EdgeRows, starts: Ids, *, first_edge_id: int) -> Partition:
        """Put a partition together.

        Args:
            part: Number of the partition.
            edges: Its edges, by type and edge ID.
            starts: (edge types + 1,) int64, where the edges of each type begin.
            first_edge_id: New ID of its first edge.

        Peak memory: 40 bytes an edge, and 8 bytes a node of the graph.
        """
        order, metadata = self.order, self.metadata
        old_src, old_dst, edge_ids, edge_types = edges.rows
        begin, end = int(order.starts[part]), int(order.starts[part + 1])
        inner = end - begin
        new_src = order.new_ids[old_src]
        local = np.zeros(len(order.new_ids), np.int64)  # local ID by new ID
        local[new_src] = 1
        local[begin:end] = 0
        halo = np.flatnonzero(local)
        local[begin:end] = np.arange(inner)
        local[halo] = np.arange(inner, inner + len(halo))
        new_ids = np.concatenate([np.arange(begin, end), halo])
        old_ids = order.old_ids[new_ids]
        offsets = np.array(metadata.node_offsets)
        types = np.searchsorted(offsets, old_ids, side="right") - 1
        orig_ids = old_ids - offsets[types]
        arrays = {
            "nodes/new_id": new_ids,
            "nodes/orig_id": orig_ids,
            "nodes/part_id": order.assignment.parts[old_ids].astype(np.int64),
            "nodes/type_id": types.astype(np.int32),
            "edges/src": local[new_src],
            "edges/dst": order.new_ids[old_dst] - begin,
            "edges/orig_id": edge_ids,
            "edges/type_id": edge_types.astype(np.int32),
        }
        node_starts = np.searchsorted(types[:inner], np.arange(len(metadata.node_types) + 1))
        edge_names = [str(edge_type) for edge_type in metadata.edge_types]
        for group, names, values, ends in (
            ("node_orig_ids/{}", metadata.node_types, orig_ids, node_starts),
            ("edge_orig_ids/{}", edge_names, edge_ids, starts),
            (
                f"node_features/{{}}/{self.config.attribute_name}",
                metadata.node_types,
                self._attributes(part),
                node_starts,
            ),
            (f"edge_features/{{}}/{self.config.attribute_name}", edge_names, edges.attributes, starts),
        ):
            if values.ndim == 1 or values.shape[1]:
                rows = pairwise(ends.tolist())
                arrays |= {group.format(name): values[a:b] for name, (a, b) in zip(names, rows, strict=True)}
        columns = {name: Column.of(array) for name, array in arrays.items()}
        columns["edges/new_id"] = Column.count(first_edge_id, len(edge_ids))
        return Partition(
            part=part,
            node_types=metadata.node_types,
            edge_types=tuple(edge_names),
            num_inner=inner,
            num_nodes=len(new_ids),
            num_own_edges=len(edge_ids),
            num_edges=len(edge_ids),
            columns=columns,
            total_nodes=metadata.num_nodes,
            total_edges=metadata.num_edges,
        )

    def _attributes(self, part: int) -> Values:
        """Return the (inner nodes, attributes) of a partition, by new ID."""
        first, end = (int(self.order.starts[part + i]) for i in (0, 1))
        if self.node_width == 0:
            return np.empty((end - first, 0))
        return read_node_attributes(self.nodes[part], first, end - first, self.node_width)
