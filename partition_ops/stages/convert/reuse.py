"""Files of a partition that are the same as in the previous run: they are copied on the storage.

A digest of everything that a file depends on tells whether it is the same. The copy is read once and compared
with the manifest of the previous run; if it is damaged, the file is built from the input. The reasons are in
docs/decisions/growth.md.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_stats
from partition_ops.artifacts.manifest import read_validation_report
from partition_ops.artifacts.records import part_task
from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.artifacts.verified_run import VerifiedRun, open_earlier_run, read_migration
from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import group_of
from partition_ops.formats.format import FileWriter, Format
from partition_ops.formats.neutral_partition import GRAPH_GROUPS, Partition
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.partition_graph import PartitionGraph
from partition_ops.stages.convert.trainers import read_trainers
from partition_ops.storage import Artifact, Store
from partition_ops.storage.store import sha256_of_object

logger = logging.getLogger("partition_ops")

CONTENTS_VERSION = 1  # raise it whenever a column gets other bytes for the same partition
Digests = dict[str, str]
Ids = npt.NDArray[np.int64]


def content_name(part: int, key: str) -> str:
    """Return the name of a file among the ``contents`` of ``stats.json``: relative to it, or else the key."""
    return key.removeprefix(f"{layout.partition_folder(part)}/")


class EarlierFiles:
    """The files of the previous run, for an incremental run; nothing for any other run.

    Args:
        destination: Root of the run.
        part: Which partition.

    Memory: 48 MiB.
    """

    def __init__(self, destination: Store, part: int) -> None:
        self._part = part
        self._stack = ExitStack()
        self._run: VerifiedRun | None = None
        self._follows = read_migration(destination) is not None
        self._reused = 0
        self._damaged: list[str] = []
        self._contents: Digests = {}
        self._versions: dict[str, int] = {}
        if self._follows:
            self._open(destination)

    def __enter__(self) -> EarlierFiles:
        return self

    def __exit__(self, *error: object) -> None:
        self._stack.close()

    def copy(self, writer: ArtifactWriter, form: Format, key: str, digest: str | None) -> bool:
        """Copy a file of the partition if it depends on the same as in the previous run and is undamaged.

        Args:
            writer: Collects what is written.
            form: The format of the file.
            key: Key of the file.
            digest: What it depends on, as `file_digest` returns it.

        Returns:
            Whether the file was copied; if not, nothing is there.
        """
        name = content_name(self._part, key)
        if self._run is None or digest is None or self._contents.get(name) != digest:
            return False
        if self._versions.get(form.name) != form.version:
            return False
        earlier = self._run.listed.get(key)
        try:
            if earlier is None or not self._copy(self._run, writer.destination, earlier):
                return False
        except InvalidInputError as error:
            self._refuse(key, error)
            return False
        writer.wrote(earlier)
        self._reused += 1
        return True

    def counters(self) -> dict[str, Any]:
        """Return figures for the record; none unless the run is incremental."""
        if not self._follows:
            return {}
        damaged = {"damaged_in_previous": self._damaged} if self._damaged else {}
        return {"files_reused": self._reused, **damaged}

    def _copy(self, run: VerifiedRun, destination: Store, earlier: Artifact) -> bool:
        """Copy a file; whether it could be done. Remove the copy of a damaged file, and raise."""
        run.stat(earlier.key)  # raises if it is gone or has another size
        if not destination.copy_from(run.run, earlier.key, earlier.size):
            return False
        found = sha256_of_object(destination, earlier.key, earlier.size, earlier.sha256)
        if found != earlier.sha256:
            destination.delete([earlier.key])
            run.refuse(earlier.key, f"SHA-256 {found}", f"SHA-256 {earlier.sha256}")
        return True

    def _open(self, destination: Store) -> None:
        """Open the previous run; it is of no use if it is gone or was made by another version."""
        try:
            run = self._stack.enter_context(open_earlier_run(destination))
        except InvalidInputError as error:
            logger.warning("convert: no file of the previous run can be copied: %s", error)
            return
        key = layout.partition_stats(self._part)
        if run.manifest["versions"]["partition_ops"] != __version__ or key not in run.listed:
            return
        try:
            stats = read_stats(run, self._part)
        except InvalidInputError as error:
            self._refuse(key, error)
            return
        options = run.manifest["options"].get(part_task(self._part), {})
        self._run, self._contents = run, stats.get("contents", {})
        self._versions = options.get("format_versions", {})

    def _refuse(self, key: str, error: InvalidInputError) -> None:
        """Log that a file of the previous run is damaged and was not copied."""
        said = (error.problem, error.found, error.expected)
        logger.warning("convert: built from the input, not copied: %s: found %s, expected %s", *said)
        self._damaged.append(key)


def partition_digests(conversion: Conversion, graph: PartitionGraph) -> Digests:
    """Return, by group of columns, the SHA-256 of everything that the group depends on.

    The digests do not depend on how the work was split: on chunks of edges, segments, memory or machines.
    Features depend on files of the input, whose checksums validation has computed; if it has not been done,
    the groups of features have no digest, unless the graph has no features.

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
    graph_digest = _digest("graph", shape, counts, src, dst, edge_ids, *arrays, graph.outer_digests())
    found = {
        **dict.fromkeys(GRAPH_GROUPS, graph_digest),
        "node_orig_ids": orig_nids,
        "edge_orig_ids": orig_eids,
    }
    trainers = read_trainers(conversion, node_ids)
    checksums = input_checksums(conversion.destination)
    of_nodes = [
        _files_of(feature, checksums, _chunks_of_nodes(metadata, feature, node_ids))
        for feature in metadata.node_features
    ]
    if None not in of_nodes:
        found["node_features"] = _digest("node features", of_nodes, orig_nids, *trainers)
    # a partition has edges of nearly all files
    of_edges = [_files_of(feature, checksums, None) for feature in metadata.edge_features]
    if None not in of_edges:
        found["edge_features"] = _digest(
            "edge features", of_edges, orig_eids, *trainers, *[dst] * bool(trainers)
        )
    return found


def file_digest(partition: Partition, file: FileWriter) -> str | None:
    """Return the SHA-256 of everything that a file depends on; None if that is not known."""
    groups = dict.fromkeys(map(group_of, file.columns))
    if not groups or not groups.keys() <= partition.digests.keys():
        return None
    digests = [*dict.fromkeys(partition.digests[group] for group in groups)]
    if file.options:
        digests.append(file.options)
    return digests[0] if len(digests) == 1 else _digest(digests)


def _chunks_of_nodes(
    metadata: GraphMetadata, feature: Feature, ids: Mapping[str, Ids]
) -> list[tuple[int, int, int]] | None:
    """Return the files with rows of some nodes: number, first row and number of rows; None means all."""
    counts = metadata.num_nodes_per_chunk[metadata.node_type_id(feature.type_name)]
    if counts is None or len(counts) != len(feature.data.files) or feature.data.format.name == "csv":
        return None  # the dtype of a CSV depends on every file
    ends = np.cumsum(counts)
    used = np.unique(np.searchsorted(ends, ids[feature.type_name], side="right")).tolist()
    return [(i, int(ends[i]) - counts[i], counts[i]) for i in used]


def _files_of(
    feature: Feature, checksums: Mapping[str, str], chunks: list[tuple[int, int, int]] | None
) -> list[Any] | None:
    """Return some files of a feature, or all: first row, number of rows, SHA-256; None if one is unknown."""
    keys = feature.data.files
    listed = [(i, None, None) for i in range(len(keys))] if chunks is None else chunks
    found = [[first, rows, checksums.get(keys[i])] for i, first, rows in listed]
    known = all(checksum is not None for *_, checksum in found)
    return [feature.key, feature.data.format.name, found] if known else None


def input_checksums(destination: Store) -> dict[str, str]:
    """Return SHA-256 of the input's files by key, as validation computed them; none if it was not done."""
    if not destination.exists(layout.VALIDATION_REPORT):
        return {}
    files = read_validation_report(destination)["files"]
    return {entry["path"]: entry["sha256"] for entry in files}


def _digest(*values: Any) -> str:
    """Return SHA-256 of arrays, with their dtypes and shapes, and of JSON values."""
    digest = hashlib.sha256(f"{CONTENTS_VERSION}".encode())
    for value in values:
        if isinstance(value, np.ndarray):
            digest.update(f"{value.dtype} {value.shape}".encode())
            digest.update(np.ascontiguousarray(value).data)
        else:
            digest.update(json.dumps(value).encode())
    return digest.hexdigest()
