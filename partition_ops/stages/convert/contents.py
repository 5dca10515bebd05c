"""Digests of all that the files of a partition depend on: a later run knows by them what stays the same.

They say nothing of how the work was cut: not of chunks of edges, segments, memory or machines.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.manifest import read_validation_report
from partition_ops.chunked.metadata import Feature
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.partition_graph import PartitionGraph
from partition_ops.stages.convert.trainers import read_trainers
from partition_ops.storage import Store

CONTENTS_VERSION = 1  # to be raised whenever a file has other bytes for the same partition
Digests = dict[str, str]
Ids = npt.NDArray[np.int64]


def partition_contents(conversion: Conversion, graph: PartitionGraph, part: int) -> Digests:
    """SHA-256 of what each of `layout.PARTITION_FILES` depends on.

    The features depend on the input's files, whose checksums validation has taken; without them there is no
    digest of ``node_feat.dgl`` and ``edge_feat.dgl``, unless they hold no features.

    Peak memory: 16 bytes a node of the partition, and 1 MiB.
    """
    metadata, nodes = conversion.metadata, graph.nodes
    node_ids = nodes.inner_ids_by_type(metadata)
    counts = dict(zip(map(str, metadata.edge_types), graph.edge_counts.tolist(), strict=True))
    src, dst, edge_ids = graph.edge_digests()
    orig_nids = _digest("nodes", list(node_ids), *node_ids.values())
    orig_eids = _digest("edges", counts, edge_ids)
    arrays = (nodes.new_ids, nodes.orig_ids, nodes.type_ids, nodes.parts)
    options = [conversion.config.num_hops, conversion.config.graph_formats]
    shape = [nodes.num_inner, graph.first_edge_id, metadata.is_homogeneous, options]
    found = {
        "graph.dgl": _digest("graph", shape, counts, src, dst, edge_ids, *arrays, graph.outer_digests()),
        "orig_nids.dgl": orig_nids,
        "orig_eids.dgl": orig_eids,
    }
    trainers = read_trainers(conversion.destination, node_ids)
    chunks = _Chunks(conversion)
    of_nodes = [chunks.of_nodes(feature, node_ids) for feature in metadata.node_features]
    if None not in of_nodes:
        found["node_feat.dgl"] = _digest("node features", of_nodes, orig_nids, *trainers)
    of_edges = [chunks.of_edges(feature) for feature in metadata.edge_features]
    if None not in of_edges:
        found["edge_feat.dgl"] = _digest(
            "edge features", of_edges, orig_eids, *trainers, *[dst] * bool(trainers)
        )
    return {name: found[name] for name in layout.PARTITION_FILES if name in found}


class _Chunks:
    """The files of features, by checksum."""

    def __init__(self, conversion: Conversion) -> None:
        self._metadata = conversion.metadata
        self._checksums = input_checksums(conversion.destination)

    def of_nodes(self, feature: Feature, ids: Mapping[str, Ids]) -> list[Any] | None:
        """The files that some nodes' rows are in: first row, number of rows, SHA-256; None if unknown."""
        counts = self._metadata.num_nodes_per_chunk[self._metadata.node_type_id(feature.type_name)]
        if counts is None or len(counts) != len(feature.data.files) or feature.data.format.name == "csv":
            return self._all(feature)  # the dtype of a CSV depends on every file
        ends = np.cumsum(counts)
        used = np.unique(np.searchsorted(ends, ids[feature.type_name], side="right")).tolist()
        return self._listed(feature, [(i, int(ends[i]) - counts[i], counts[i]) for i in used])

    def of_edges(self, feature: Feature) -> list[Any] | None:
        """All files: a partition has edges of nearly all of them."""
        return self._all(feature)

    def _all(self, feature: Feature) -> list[Any] | None:
        return self._listed(feature, [(i, None, None) for i in range(len(feature.data.files))])

    def _listed(self, feature: Feature, chunks: Iterable[tuple[int, Any, Any]]) -> list[Any] | None:
        found = []
        for index, first, rows in chunks:
            checksum = self._checksums.get(feature.data.files[index])
            if checksum is None:
                return None
            found.append([first, rows, checksum])
        return [feature.key, feature.data.format.name, found]


def input_checksums(destination: Store) -> dict[str, str]:
    """SHA-256 of the input's files by key, as validation has taken them; none where it has not been done."""
    if not destination.exists(layout.VALIDATION_REPORT):
        return {}
    files = read_validation_report(destination)["files"]
    return {entry["path"]: entry["sha256"] for entry in files}


def _digest(*values: Any) -> str:
    """SHA-256 of arrays, with their dtypes and shapes, and of what JSON can hold."""
    digest = hashlib.sha256(f"{CONTENTS_VERSION}".encode())
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(json.dumps(value).encode())
    return digest.hexdigest()
