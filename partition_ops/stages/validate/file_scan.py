"""`scan_files`: one pass over files of a graph on all cores, for the checks of rows, edges and values.

`partition_ops.stages.validate.edge_scan` has the pass over an edge file.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.feature_formats import parquet_rows
from partition_ops.chunked.feature_reader import ChunkLayout, FeatureReader, feature_readers, is_supported
from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.chunked.table_files import PARQUET_BATCH
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.check import EXAMPLES, Defects, example
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.connectivity import Connectivity
from partition_ops.stages.validate.edge_scan import EdgeScan, Pairs
from partition_ops.stages.validate.graph_facts import EdgeFile, FeatureFacts, FeatureFile, FeatureValues
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of
from partition_ops.system.parallel import unordered_in_threads
from partition_ops.system.progress import Advance, Progress

Ids = npt.NDArray[np.int64]
Job = Callable[[], None]
Values = npt.NDArray[Any]
VALUES_AT_ONCE = 1 << 20  # few enough to stay in the cache from check to check


@dataclass
class FileFindings:
    """What was found in some files of a graph."""

    # the findings of the checks; those that are edges have no edge ID yet
    defects: Defects = field(default_factory=Defects)
    edge_files: list[EdgeFile] = field(default_factory=list)  # the edge files, in any order
    # the files of each feature, by ``type/name``, in any order
    features: dict[str, list[FeatureFile]] = field(default_factory=dict)
    # path, size and SHA-256 of every file, in any order
    files: list[dict[str, Any]] = field(default_factory=list)
    # by name of the check and edge type ID, ascending positions of edges that can be excluded or dropped; see
    # `EdgePositions`
    positions: dict[str, dict[int, Ids]] = field(default_factory=dict)


def scan_files(
    source: Store,
    metadata: GraphMetadata,
    keys: Collection[str],
    pairs: Pairs,
    connectivity: Connectivity,
    progress: Progress,
) -> FileFindings:
    """Read some files of a graph, as jobs for a pool of threads.

    Args:
        source: The graph's root.
        metadata: The graph's metadata.
        keys: The files, which exist.
        pairs: Takes the ends of every edge, with its position.
        connectivity: Takes the ends of every edge.
        progress: Shows the edges read.

    Returns:
        The findings. Peak memory: a block of edges for each core, and a file of a feature that cannot be
        mapped for each.
    """
    return _Reading(source, metadata, keys, pairs, connectivity).read(progress)


class _Reading:
    def __init__(
        self,
        source: Store,
        metadata: GraphMetadata,
        keys: Collection[str],
        pairs: Pairs,
        connectivity: Connectivity,
    ) -> None:
        self.source = source
        self.metadata = metadata
        self.keys = keys
        self.found = FileFindings()
        reader = EdgeReader(source, metadata)
        chunks = reader.chunks()
        self.chunks = [chunk for chunk in chunks if chunk.key in keys]
        self.edges = sum(metadata.num_edges) * len(self.chunks) // max(len(chunks), 1)  # about
        self.scan = EdgeScan(source, metadata, reader, self.found.defects, pairs, connectivity)

    def read(self, progress: Progress) -> FileFindings:
        self.source.fetch_ahead([key for key in self.metadata.files() if key in self.keys])
        with progress.step("Checking edges", self.edges, "edges") as advance:
            for _ in unordered_in_threads(lambda job: job(), self._jobs(advance)):
                pass
        for check, types in self.scan.found.items():
            ascending = {type_id: ascending_ids(found) for type_id, found in types.items()}
            self.found.positions[check] = ascending
        return self.found

    def _jobs(self, advance: Advance) -> list[Job]:
        readers = feature_readers(self.source, self.metadata)
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        scans: list[Job] = [partial(self._scan_edges, chunk, advance) for chunk in self.chunks]
        others: list[Job] = [
            *(partial(self._scan_feature, feature, readers[feature.key]) for feature in features),
            *(partial(self._identify, key) for key in self.keys),
        ]
        # alternating, because scans sometimes wait for one another, and at first for Numba
        return [job for pair in zip_longest(others, scans) for job in pair if job is not None]

    def _scan_edges(self, chunk: EdgeChunk, advance: Advance) -> None:
        excess = self._excess_rows(chunk)
        file = self.scan.scan(chunk, advance) if excess is None else EdgeFile(chunk, excess)
        self.found.edge_files.append(file)

    def _excess_rows(self, chunk: EdgeChunk) -> int | None:
        """Return the number of rows of a Parquet file if it is far above that of the metadata, else None.

        A small file may claim rows that would take hours; the check of the number of rows reports it.
        """
        metadata = self.metadata
        if metadata.edges[chunk.edge_type_id].format.name != "parquet":
            return None
        counts = metadata.num_edges_per_chunk[chunk.edge_type_id]
        known = counts is not None and chunk.index < len(counts)
        expected = counts[chunk.index] if counts and known else metadata.num_edges[chunk.edge_type_id]
        try:
            rows = parquet_rows(self.source.local_copy(chunk.key), chunk.key)
        except InvalidInputError:
            return None  # the scan says why
        return rows if rows > expected + PARQUET_BATCH else None

    def _scan_feature(self, feature: Feature, reader: FeatureReader) -> None:
        """Scan the files of a feature, one at a time.

        Peak memory: one file that cannot be mapped, and some MB.
        """
        facts = FeatureFacts(feature, reader.rows, reader.rows_per_chunk, [])
        self.found.features[feature.key] = [
            _scan_file(facts, index, reader, self.found.defects)
            for index, key in enumerate(feature.data.files)
            if key in self.keys
        ]

    def _identify(self, key: str) -> None:
        path = self.source.local_copy(key)
        identity: dict[str, Any] = {"path": key, "size": path.stat().st_size, "sha256": sha256_of(path)}
        self.found.files.append(identity)


def ascending_ids(blocks: Iterable[Ids]) -> Ids:
    """Return all numbers of several arrays, ascending."""
    return np.sort(np.concatenate([np.empty(0, np.int64), *blocks]))


def _scan_file(facts: FeatureFacts, index: int, reader: FeatureReader, defects: Defects) -> FeatureFile:
    key = facts.feature.data.files[index]
    try:
        excess = reader.excess_layout(index)
        if excess is not None:
            return FeatureFile(index, key, excess)  # the check of the number of rows reports it
        values = reader.read_chunk(index)
        _check_booleans(values, reader.where(index))
    except InvalidInputError as error:
        return FeatureFile(index, key, error=str(error))
    layout = ChunkLayout(values.dtype.newbyteorder("="), values.shape[1:], len(values))
    if is_supported(layout.dtype) and values.size:
        _scan_values(facts, index, values, defects)
    return FeatureFile(index, key, layout)


def _check_booleans(values: Values, where: str) -> None:
    """Raise an error if a boolean of a mapped file is neither 0 nor 1: readers would disagree about it."""
    if values.dtype != np.bool_:
        return
    rows = max(VALUES_AT_ONCE * len(values) // max(values.size, 1), 1)
    for start in range(0, len(values), rows):
        block = np.ascontiguousarray(values[start : start + rows]).view(np.uint8)
        if block.size and block.max() > 1:
            place = np.argwhere(block > 1)[0].tolist()
            raise InvalidInputError(
                f"{where}: a boolean is neither 0 nor 1",
                found=f"the byte {block[tuple(place)]} at {[start + place[0], *place[1:]]}",
                expected="bytes 0 and 1, as numpy.save writes booleans",
                remedy="Write the file again, or declare the values as uint8.",
            )


def _scan_values(facts: FeatureFacts, index: int, values: Values, defects: Defects) -> None:
    """Ask every check about the values of a file, block by block."""
    rows = max(VALUES_AT_ONCE * len(values) // values.size, 1)
    for start in range(0, len(values), rows):
        block = FeatureValues(facts.feature, index, values[start : start + rows])
        for check in CHECKS.values():
            found = check.feature_values(block) if check.feature_values is not None else None
            if found is None or not found.any():
                continue
            places, examples = np.argwhere(found), []
            for place in map(tuple, places[:EXAMPLES].tolist()):
                row = start + place[0]
                value, key = str(block.values[place]), facts.feature.data.files[index]
                sentence = f"{value} at {[row, *place[1:]]} of {facts.where(index)}"
                examples.append(example(sentence, file=key, chunk=index, row=row, value=value))
            defects.add(check.name, facts.feature.key, len(places), examples)
