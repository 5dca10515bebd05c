"""Gather: one partition from its buckets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import ArtifactWriter, StageResult, check_given, part_task, run_task
from partition_ops.chunked.feature_reader import FeatureReader, feature_readers
from partition_ops.chunked.metadata import Feature
from partition_ops.errors import UsageError
from partition_ops.formats.columns import Column
from partition_ops.formats.dgl.partition_files import write_graph, write_tensors
from partition_ops.stages.convert.buckets import Buckets
from partition_ops.stages.convert.contents import partition_contents
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.feature_buckets import FeatureBuckets
from partition_ops.stages.convert.given import (
    PLAN_TASK,
    find_part,
    given_to_gather,
    given_to_plan,
    given_to_scatter,
    scatter_task,
)
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.partition_graph import PartitionGraph
from partition_ops.stages.convert.plan import Plan, read_plan
from partition_ops.stages.convert.reuse import EarlierFiles
from partition_ops.stages.convert.trainers import trainer_features
from partition_ops.storage import Store
from partition_ops.system.progress import Advance, NoProgress, Progress

STATS_VERSION = 1
BYTES_A_NODE = 90  # inner or halo: IDs, types and owners, and what making them takes
BLOCKS_BYTES = 64 << 20  # of what is on its way from one file to another


def gather_partition(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    part: int,
    progress: Progress | None = None,
) -> StageResult:
    """Write ``partitions/part<i>/``: graph, features and original IDs of one partition.

    Files that are the same as in the run that this one has followed are copied from there, as long as they
    are what its manifest says.

    Args:
        config: Options.
        source: Root of the input graph; its features are read.
        destination: Root of the run, where the edges have been scattered.
        part: Which partition.
        progress: Shows the files written.

    Returns:
        Numbers of inner and halo nodes and of edges.

    Raises:
        UsageError: There is no such partition.
        InvalidInputError: A feature cannot be read, or a stage before this has not been done.

    Peak memory: 16 bytes a node of the graph, 90 bytes a node of the partition (as measured), 64 MiB, and a
    row group of a feature in Parquet or a chunk of one in CSV; for each of the formats csr and csc 16 bytes
    an edge of the partition's graph. From S3 the edges of the partition, and the features, are fetched to
    files first.
    """
    return gather_part(Conversion(config, source, destination), part, progress)


def gather_part(
    conversion: Conversion,
    part: int,
    progress: Progress | None = None,
    *,
    plan: Plan | None = None,
    made: Callable[[], object] = lambda: None,
) -> StageResult:
    """As `gather_partition`.

    Args:
        conversion: Whose partition.
        part: Which.
        progress: Shows the files written.
        plan: Where it is known that its groups have been scattered, of what is there now.
        made: Called when the last files are on their way to storage.

    Peak memory: `gather_memory`, beside that of the conversion; until ``made`` is called.
    """
    if not 0 <= part < conversion.num_parts:
        raise UsageError(f"There is no partition {part}", expected=f"0 to {conversion.num_parts - 1}")
    if plan is None:
        if done := find_part(conversion, part):
            return done
        plan = _scattered(conversion)
    groups = plan

    def work(task: ArtifactWriter) -> dict[str, Any]:
        buckets = Buckets(task.destination, conversion.metadata, groups.edge_groups, conversion.num_parts)
        graph = PartitionGraph(conversion, buckets, part)
        files = len(layout.PARTITION_FILES)
        with (progress or NoProgress()).step(f"Writing partition {part}", files, "files") as advance:
            counters = _Gather(conversion, graph, groups, part, task).run(advance)
        made()
        return counters

    return run_task(part_task(part), conversion.destination, **given_to_gather(conversion, part), work=work)


def _scattered(conversion: Conversion) -> Plan:
    """The plan, once its groups are scattered and of the graph and the assignment as they are now."""
    plan = read_plan(conversion.destination)
    groups = {scatter_task(group): given_to_scatter(conversion, group) for group in plan.groups}
    check_given(conversion.destination, {PLAN_TASK: given_to_plan(conversion), **groups})
    return plan


def gather_memory(conversion: Conversion) -> int:
    """Bytes that the largest partition takes at most, beside what all of them share."""
    nodes, edges = sum(conversion.metadata.num_nodes), sum(conversion.metadata.num_edges)
    sizes = np.diff(conversion.order.starts)
    largest = int(sizes.max(initial=0))
    of_part = edges // max(len(sizes), 1)
    several = conversion.config.num_hops > 1
    halo = min(nodes - largest, edges if several else of_part)
    compressed = 16 * (edges if several else of_part) * len({*conversion.config.graph_formats} - {"coo"})
    return 5 * nodes + BYTES_A_NODE * (largest + halo) + compressed + BLOCKS_BYTES


@dataclass
class _Gather:
    """One partition at work."""

    conversion: Conversion
    graph: PartitionGraph
    plan: Plan
    part: int
    task: ArtifactWriter

    def run(self, advance: Advance) -> dict[str, Any]:
        contents = partition_contents(self.conversion, self.graph, self.part)
        stats = self._write_stats(contents)
        with EarlierFiles(self.task.destination, self.part) as earlier:
            for name, write in self._writers().items():
                if not earlier.copy(self.task, name, contents):
                    write(self._key(name))
                advance(1)
            return {**stats, **earlier.counters()}

    def _writers(self) -> dict[str, Callable[[str], None]]:
        """What makes each of the files."""
        metadata, graph = self.conversion.metadata, self.graph
        node_ids = {name: Column.of(ids) for name, ids in graph.nodes.inner_ids_by_type(metadata).items()}
        edge_ids = graph.edge_ids_by_type
        node_trainers, edge_trainers = trainer_features(self.conversion, graph, self.part)

        def features(key: str, kind: tuple[Feature, ...], ids: dict[str, Column], more: Any) -> None:
            write_tensors(self.task, key, self._features(kind, ids) | more)

        def original_ids(key: str, ids: dict[str, Column]) -> None:
            write_tensors(self.task, key, ids, read_again=self.conversion.one_process)  # by the ID maps

        return {
            "graph.dgl": lambda key: write_graph(self.task, key, graph.columns()),
            "node_feat.dgl": lambda key: features(key, metadata.node_features, node_ids, node_trainers),
            "edge_feat.dgl": lambda key: features(key, metadata.edge_features, edge_ids, edge_trainers),
            "orig_nids.dgl": lambda key: original_ids(key, node_ids),
            "orig_eids.dgl": lambda key: original_ids(key, edge_ids),
        }

    def _key(self, name: str) -> str:
        return layout.partition_file(self.part, name)

    def _features(self, features: tuple[Feature, ...], ids: dict[str, Column]) -> dict[str, Column]:
        readers = feature_readers(self.conversion.source, self.conversion.metadata)
        buckets = FeatureBuckets(self.task.destination, self.plan.feature_groups, self.part)
        scattered = self.conversion.metadata.node_features
        found = {}
        for place, feature in enumerate(features):
            rows = ids[feature.type_name]
            column = buckets.column(place, feature, rows.shape[0]) if features is scattered else None
            found[feature.key] = column or _taken(readers[feature.key], rows)
        return found

    def _write_stats(self, contents: dict[str, str]) -> dict[str, Any]:
        metadata, graph = self.conversion.metadata, self.graph
        types = metadata.node_types
        inner, halo = graph.nodes.count_by_type(len(types))
        edge_types = [str(edge_type) for edge_type in metadata.edge_types]
        stats = {
            "version": STATS_VERSION,
            "part": self.part,
            "inner_nodes": dict(zip(types, inner.tolist(), strict=True)),
            "halo_nodes": dict(zip(types, halo.tolist(), strict=True)),
            "edges": dict(zip(edge_types, graph.edge_counts.tolist(), strict=True)),
            "cut_edges": dict(zip(edge_types, graph.cut_counts.tolist(), strict=True)),
            "contents": contents,
        }
        classes = self.conversion.size_classes
        if classes is not None:
            stats["nodes_by_degree"] = graph.nodes_by_size_class(classes)
        self.task.write_json(layout.partition_stats(self.part), stats)
        return {
            "inner_nodes": graph.num_inner,
            "halo_nodes": int(halo.sum()),
            "edges": int(graph.edge_counts.sum()),
        }


def _taken(reader: FeatureReader, ids: Column) -> Column:
    """The rows of a feature that a partition owns."""

    def blocks() -> Iterator[Any]:
        return reader.stream(ids.blocks())

    return Column(reader.layout.dtype, (*ids.shape, *reader.layout.shape), blocks)
