"""Gather: one partition from its buckets."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops import artifacts
from partition_ops.config import ConvertConfig
from partition_ops.convert.buckets import read_edge_counts
from partition_ops.convert.dgl_files import write_graph, write_tensors
from partition_ops.convert.local_graph import LocalGraph, build_local_graph
from partition_ops.convert.relabel import NodeOrder
from partition_ops.errors import UsageError
from partition_ops.graph.assignment import read_assignment
from partition_ops.graph.features import feature_readers
from partition_ops.graph.metadata import Feature, GraphMetadata, load_metadata
from partition_ops.progress import Advance, NoProgress, Progress
from partition_ops.storage import Store
from partition_ops.tasks import StageResult, Task, input_objects, read_record, run_task

STATS_VERSION = 1
Ids = npt.NDArray[np.int64]


def gather_partition(
    config: ConvertConfig,
    source: Store,
    destination: Store,
    *,
    part: int,
    progress: Progress | None = None,
) -> StageResult:
    """Write ``partitions/part<i>/``: graph, features and original IDs of one partition.

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

    Peak memory: 20 bytes a node of the graph, 130 bytes an edge of the partition, and twice the largest
    of: the features of the partition's nodes, those of its edges.
    """
    metadata = load_metadata(source, graph_name=config.graph_name)
    assignment = read_assignment(destination.child(artifacts.ASSIGNMENT), metadata)
    if not 0 <= part < assignment.num_parts:
        raise UsageError(f"There is no partition {part}", expected=f"0 to {assignment.num_parts - 1}")

    def work(task: Task) -> dict[str, Any]:
        gather = _Gather(metadata, NodeOrder(assignment), part, source, task)
        files = len(artifacts.PARTITION_FILES)
        with (progress or NoProgress()).step(f"Writing partition {part}", files, "files") as advance:
            return gather.run(advance)

    return run_task(
        f"convert-part{part}",
        destination,
        options={**config.options(), "part": part},
        inputs=input_objects(source, metadata),
        after=["convert-scatter"],
        work=work,
    )


@dataclass
class _Gather:
    """One partition at work."""

    metadata: GraphMetadata
    order: NodeOrder
    part: int
    source: Store
    task: Task

    def run(self, advance: Advance) -> dict[str, Any]:
        local = build_local_graph(self.metadata, self.order, self.part, self._edges())
        before = read_edge_counts(self.task.destination, self.metadata)[:, : self.part].sum()
        write_graph(self.task, self._key("graph.dgl"), self.metadata, local, first_edge_id=int(before))
        advance(1)
        for name, features, ids in (
            ("node_feat.dgl", self.metadata.node_features, local.inner_ids_by_type(self.metadata)),
            ("edge_feat.dgl", self.metadata.edge_features, local.edge_ids_by_type(self.metadata)),
        ):
            write_tensors(self.task, self._key(name), dict(self._features(features, ids)))
            advance(1)
        write_tensors(self.task, self._key("orig_nids.dgl"), local.inner_ids_by_type(self.metadata))
        write_tensors(self.task, self._key("orig_eids.dgl"), local.edge_ids_by_type(self.metadata))
        advance(2)
        return self._write_stats(local)

    def _key(self, name: str) -> str:
        return artifacts.partition_file(self.part, name)

    def _edges(self) -> Iterator[Ids]:
        """The edges of each type, by edge type ID: (3, n) int64 as in the buckets."""
        store = self.task.destination
        # those that the record lists: a scatter that was killed may have left others
        written = {entry["key"] for entry in read_record(store, "convert-scatter")["artifacts"]}
        for type_id, data in enumerate(self.metadata.edges):
            keys = [artifacts.bucket(self.part, type_id, chunk) for chunk in range(len(data.files))]
            found = [np.load(store.local_copy(key)) for key in keys if key in written]
            yield np.concatenate([np.empty((3, 0), np.int64), *found], axis=1)

    def _features(
        self, features: tuple[Feature, ...], ids: dict[str, Ids]
    ) -> Iterator[tuple[str, npt.NDArray[Any]]]:
        readers = feature_readers(self.source, self.metadata)
        for feature in features:
            yield feature.key, readers[feature.key].take(ids[feature.type_name])

    def _write_stats(self, local: LocalGraph) -> dict[str, Any]:
        types = self.metadata.node_types
        inner = np.bincount(local.node_type_ids[: local.num_inner], minlength=len(types))
        halo = np.bincount(local.node_type_ids[local.num_inner :], minlength=len(types))
        cut = local.src >= local.num_inner
        edge_types = [str(edge_type) for edge_type in self.metadata.edge_types]
        slices = list(pairwise(local.edge_type_starts.tolist()))
        stats = {
            "version": STATS_VERSION,
            "part": self.part,
            "inner_nodes": dict(zip(types, inner.tolist(), strict=True)),
            "halo_nodes": dict(zip(types, halo.tolist(), strict=True)),
            "edges": {name: end - begin for name, (begin, end) in zip(edge_types, slices, strict=True)},
            "cut_edges": {
                name: int(cut[begin:end].sum()) for name, (begin, end) in zip(edge_types, slices, strict=True)
            },
        }
        self.task.write_json(artifacts.partition_stats(self.part), stats)
        return {"inner_nodes": local.num_inner, "halo_nodes": int(halo.sum()), "edges": len(local.src)}
