"""Gather: one partition from its buckets, as neutral columns, written in every output format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import STATS_VERSION
from partition_ops.artifacts.tasks import ArtifactWriter, Counters, StageResult, Task
from partition_ops.chunked.feature_reader import FeatureReader
from partition_ops.chunked.metadata import Feature
from partition_ops.errors import UsageError
from partition_ops.formats.columns import Column, LazyColumns, group_of
from partition_ops.formats.format import FileWriter, Format, PartitionSize, preferred_reader
from partition_ops.formats.neutral_partition import Partition
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.cost import gather_bytes
from partition_ops.stages.convert.feature_buckets import FeatureBuckets
from partition_ops.stages.convert.partition_graph import PartitionGraph
from partition_ops.stages.convert.plan import Plan, read_plan, warn_of_edges
from partition_ops.stages.convert.reuse import EarlierFiles, content_name, file_digest, partition_digests
from partition_ops.stages.convert.trainers import trainer_features
from partition_ops.storage import Artifact

ORIG_ID_GROUPS = {"node_orig_ids", "edge_orig_ids"}


def gather_part(
    conversion: Conversion,
    part: int,
    *,
    plan: Plan | None = None,
    made: Callable[[], object] = lambda: None,
) -> StageResult:
    """Write the files of one partition in every output format, and ``partitions/part<i>/stats.json``.

    In an incremental run, files that are the same as in the previous run are copied from there, unless they
    are damaged.

    Args:
        conversion: The conversion, whose edges have been scattered.
        part: Which partition.
        plan: The plan, if it is known that its groups have been scattered from the current input; otherwise
            that is checked before the work begins.
        made: Called when the last files are on their way to storage.

    Returns:
        Numbers of inner and halo nodes and of edges.

    Raises:
        UsageError: There is no such partition, or a format is not installed.
        InvalidInputError: A feature cannot be read, or a stage before this has not been done.

    Peak memory: 16 bytes a node of the graph, 90 bytes a node of the partition (as measured), 64 MiB, a row
    group of a feature in Parquet or a chunk of one in CSV, and what an output format states; ``dgl`` takes 8
    bytes an edge of the partition if it has the sparse formats csr or csc. From S3 the edges of the
    partition, and the features, are fetched to files first. Until ``made`` is called, it is at most
    `gather_memory`, beside that of the conversion.
    """
    if not 0 <= part < conversion.num_parts:
        raise UsageError(f"There is no partition {part}", expected=f"0 to {conversion.num_parts - 1}")

    def work(writer: ArtifactWriter) -> Counters:
        groups = plan or read_plan(conversion.destination)
        counters = _Gather(conversion, groups, part, writer).run()
        made()
        return counters

    def requires() -> Iterator[Task]:
        if plan is None:
            groups = read_plan(conversion.destination).groups
            yield conversion.plan_task()
            yield from map(conversion.scatter_task, groups)

    return conversion.gather_task(part, work, requires).run()


def gather_memory(conversion: Conversion) -> int:
    """Return the bytes that the largest partition takes at most, beside what all of them share."""
    nodes, edges = sum(conversion.metadata.num_nodes), sum(conversion.metadata.num_edges)
    sizes = np.diff(conversion.order.starts)
    largest = int(sizes.max(initial=0))
    of_part = edges // max(len(sizes), 1)
    config = conversion.config
    reached = edges if config.num_hops > 1 else of_part * (1 + config.out_edges)
    halo = min(nodes - largest, reached)
    size = PartitionSize(largest + halo, reached, typed=not conversion.metadata.is_homogeneous)
    return gather_bytes(config, nodes, size)


class _Gather:
    """One partition at work."""

    def __init__(self, conversion: Conversion, plan: Plan, part: int, writer: ArtifactWriter) -> None:
        self._conversion = conversion
        self._plan = plan
        self._part = part
        self._writer = writer
        self._graph = PartitionGraph(conversion, conversion.buckets(plan.edge_groups), part)

    def run(self) -> Counters:
        warn_of_edges(self._conversion, self._part, self._graph.edge_counts.tolist())
        partition = self._partition()
        files = [
            _File(form, f"{form.part_folder(self._part)}/{name}", how)
            for form in self._conversion.formats
            for name, how in form.partition_files(partition).items()
        ]
        digests = {content_name(self._part, file.key): file_digest(partition, file.how) for file in files}
        contents = {name: digest for name, digest in digests.items() if digest is not None}
        counters = self._write_stats(contents)
        with EarlierFiles(self._writer.destination, self._part) as earlier:
            first: dict[str, Artifact] = {}  # by content
            for file in files:
                digest = contents.get(content_name(self._part, file.key))
                if file.how.content in first:
                    shared = self._writer.destination.share(first[file.how.content], file.key)
                    self._writer.wrote(shared)
                elif not earlier.copy(self._writer, file.form, file.key, digest):
                    self._write(file)
                if file.how.content:
                    first.setdefault(file.how.content, self._writer.artifacts[-1])
            return {**counters, **earlier.counters()}

    def _write(self, file: _File) -> None:
        original_ids = {*map(group_of, file.how.columns)} <= ORIG_ID_GROUPS
        first = preferred_reader(self._conversion.formats) is file.form
        with self._writer.create(file.key) as new:
            new.keep_copy = self._conversion.one_process and first and original_ids  # by the ID maps
            with new.open() as stream:
                file.how.write(stream)

    def _partition(self) -> Partition:
        metadata, graph = self._conversion.metadata, self._graph
        return Partition(
            part=self._part,
            node_types=tuple(metadata.node_types),
            edge_types=tuple(map(str, metadata.edge_types)),
            num_inner=graph.num_inner,
            num_nodes=graph.num_inner + len(graph.halo),
            num_own_edges=int(graph.graph_counts.sum()),
            num_edges=graph.num_edges,
            columns=self._columns(),
            total_nodes=tuple(metadata.num_nodes),
            total_edges=tuple(metadata.num_edges),
            digests=partition_digests(self._conversion, graph),
            sparse_formats=self._conversion.config.graph_formats,
            options=self._conversion.config.options(),
        )

    def _columns(self) -> LazyColumns:
        """Return the columns. Features open when a format needs them, because their files may be copied."""
        metadata, graph = self._conversion.metadata, self._graph
        node_ids = {name: Column.of(ids) for name, ids in graph.nodes.inner_ids_by_type(metadata).items()}
        edge_ids = graph.edge_ids_by_type
        node_trainers, edge_trainers = trainer_features(self._conversion, graph, self._part)
        readers = self._conversion.features
        buckets = FeatureBuckets(self._writer.destination, self._plan.feature_groups, self._part)

        def node_feature(place: int, feature: Feature) -> Column:
            rows = node_ids[feature.type_name]
            return buckets.column(place, feature, rows.shape[0]) or _taken(readers[feature.key], rows)

        def edge_feature(feature: Feature) -> Column:
            return _taken(readers[feature.key], edge_ids[feature.type_name])

        nodes = {f.key: partial(node_feature, place, f) for place, f in enumerate(metadata.node_features)}
        edges = {f.key: partial(edge_feature, f) for f in metadata.edge_features}
        return LazyColumns(
            {
                **_makers(graph.columns()),
                **_makers({**nodes, **node_trainers}, "node_features/"),
                **_makers({**edges, **edge_trainers}, "edge_features/"),
                **_makers(node_ids, "node_orig_ids/"),
                **_makers(edge_ids, "edge_orig_ids/"),
            }
        )

    def _write_stats(self, contents: dict[str, str]) -> Counters:
        metadata, graph = self._conversion.metadata, self._graph
        types = metadata.node_types
        inner, halo = graph.count_by_type()
        edge_types = [str(edge_type) for edge_type in metadata.edge_types]
        stats = {
            "version": STATS_VERSION,
            "part": self._part,
            "inner_nodes": dict(zip(types, inner.tolist(), strict=True)),
            "halo_nodes": dict(zip(types, halo.tolist(), strict=True)),
            "edges": dict(zip(edge_types, graph.edge_counts.tolist(), strict=True)),
            "cut_edges": dict(zip(edge_types, graph.cut_counts.tolist(), strict=True)),
            "contents": contents,
        }
        classes = self._conversion.size_classes
        if classes is not None:
            stats["nodes_by_degree"] = graph.nodes_by_size_class(classes)
        self._writer.write_json(layout.partition_stats(self._part), stats)
        return {
            "inner_nodes": graph.num_inner,
            "halo_nodes": int(halo.sum()),
            "edges": int(graph.edge_counts.sum()),
        }


@dataclass(frozen=True)
class _File:
    """A file of the partition: its format, its key, and how it is written."""

    form: Format
    key: str
    how: FileWriter


Maker = Callable[[], Column]


def _makers(columns: Mapping[str, Column | Maker], prefix: str = "") -> dict[str, Maker]:
    """Return functions that return columns, by name with a prefix."""
    return {
        f"{prefix}{name}": partial(lambda known: known, column) if isinstance(column, Column) else column
        for name, column in columns.items()
    }


def _taken(reader: FeatureReader, ids: Column) -> Column:
    """Return the rows of a feature that a partition owns."""

    def blocks() -> Iterator[Any]:
        return reader.stream(ids.blocks())

    return Column(reader.layout.dtype, (*ids.shape, *reader.layout.shape), blocks)
