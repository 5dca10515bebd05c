"""`measure_graph`: one pass over the files of a graph on all cores, for all checks and metrics.

`partition_ops.stages.validate.edge_scan` has the pass over edge files.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.duplicate_search import DuplicateSearch, Repeated
from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.feature_formats import parquet_rows
from partition_ops.chunked.feature_reader import ChunkLayout, FeatureReader, feature_readers, is_supported
from partition_ops.chunked.metadata import METADATA, Feature, GraphMetadata, read_metadata_document
from partition_ops.chunked.table_files import PARQUET_BATCH
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.check import EXAMPLES, Defects, example
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.connectivity import Connectivity
from partition_ops.stages.validate.edge_scan import EdgePositions, EdgeScan
from partition_ops.stages.validate.graph_facts import (
    DuplicateEdges,
    EdgeFile,
    FeatureFacts,
    FeatureFile,
    FeatureValues,
    GraphFacts,
)
from partition_ops.stages.validate.options import MEMORY_SHARE
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of
from partition_ops.system.memory import planned_memory
from partition_ops.system.parallel import unordered_in_threads
from partition_ops.system.progress import Advance, Progress
from partition_ops.system.temporary_folders import temporary_folder

Ids = npt.NDArray[np.int64]
Job = Callable[[], None]
Values = npt.NDArray[Any]
VALUES_AT_ONCE = 1 << 20  # few enough to stay in the cache from check to check


@dataclass(frozen=True)
class Measurement:
    """Facts about a graph, and its defects.

    Attributes:
        facts: Figures of the files and of the whole graph.
        defects: The findings of all checks.
        edge_ids: By check and edge type ID, ascending type-wise IDs of edges that can be excluded or dropped.
    """

    facts: GraphFacts
    defects: Defects
    edge_ids: dict[str, dict[int, Ids]]


def measure_graph(
    metadata: GraphMetadata, source: Store, progress: Progress, *, memory: int | None = None
) -> Measurement:
    """Read every file of a graph, and ask every check.

    Args:
        metadata: The graph's metadata.
        source: The graph's root.
        progress: Shows the edges read.
        memory: Bytes that the search for duplicates may take; a quarter of the machine's if left out.

    Returns:
        The findings. Peak memory: ``memory``, 12 bytes a node, 40 bytes for each edge that has a duplicate,
        and a block of edges for each core.

    Raises:
        InvalidInputError: There are more nodes than the memory can count.
    """
    connectivity = Connectivity(sum(metadata.num_nodes), sum(metadata.num_edges))
    facts = GraphFacts(source, metadata, read_metadata_document(source), connectivity)
    with temporary_folder() as scratch:
        budget = planned_memory(memory, MEMORY_SHARE)
        pairs = DuplicateSearch(metadata, memory=budget, scratch=Path(scratch))
        measurement = _Reading(facts, pairs).measure(progress)
    facts.components = connectivity.components()
    for check in CHECKS.values():
        for finding in check.graph(facts) if check.graph is not None else ():
            measurement.defects.add(check.name, finding.about, finding.count, finding.examples)
            if finding.edge_ids is not None and check.affects_edges:
                by_type = measurement.edge_ids.setdefault(check.name, {})
                by_type[metadata.edge_type_id(finding.about)] = finding.edge_ids
    return measurement


class _Reading:
    """Reads every file, as jobs for a pool of threads."""

    def __init__(self, facts: GraphFacts, pairs: DuplicateSearch) -> None:
        self.facts = facts
        self.pairs = pairs
        metadata, source = facts.metadata, facts.source
        exists = zip(metadata.files(), source.stat_all(metadata.files()), strict=True)
        self.missing = {key for key, entry in exists if entry is None}
        self.defects = Defects()
        reader = EdgeReader(source, metadata)
        self.edge_files = {chunk: EdgeFile(chunk) for chunk in reader.chunks()}
        self.scan = EdgeScan(source, metadata, reader, self.defects, pairs, facts.connectivity)

    def measure(self, progress: Progress) -> Measurement:
        metadata, facts = self.facts.metadata, self.facts
        facts.source.fetch_ahead(metadata.files())
        with progress.step("Checking edges", sum(metadata.num_edges), "edges") as advance:
            for _ in unordered_in_threads(lambda job: job(), self._jobs(advance)):
                pass
        facts.edge_files = [*self.edge_files.values()]
        positions = EdgePositions(metadata, facts.edge_files)
        self.defects.number_edges(
            lambda edge_type, chunk, row: positions.edge_id(metadata.edge_type_id(edge_type), chunk, row)
        )
        self._find_overlaps(positions)
        edge_ids = {
            check: {
                type_id: positions.edge_ids(type_id, _ascending(found)) for type_id, found in types.items()
            }
            for check, types in self.scan.found.items()
        }
        return Measurement(facts, self.defects, edge_ids)

    def _jobs(self, advance: Advance) -> list[Job]:
        metadata = self.facts.metadata
        readers = feature_readers(self.facts.source, metadata)
        features = (*metadata.node_features, *metadata.edge_features)
        keys = (METADATA, *metadata.files())
        chunks = [chunk for chunk in self.edge_files if chunk.key not in self.missing]
        scans: list[Job] = [partial(self._scan_edges, chunk, advance) for chunk in chunks]
        others: list[Job] = [
            *(partial(self._scan_feature, feature, readers[feature.key]) for feature in features),
            *(partial(self._identify, key) for key in keys if key not in self.missing),
        ]
        # alternating, because scans sometimes wait for one another, and at first for Numba
        return [job for pair in zip_longest(others, scans) for job in pair if job is not None]

    def _scan_edges(self, chunk: EdgeChunk, advance: Advance) -> None:
        excess = self._excess_rows(chunk)
        self.edge_files[chunk] = self.scan.scan(chunk, advance) if excess is None else EdgeFile(chunk, excess)

    def _excess_rows(self, chunk: EdgeChunk) -> int | None:
        """Return the number of rows of a Parquet file if it is far above that of the metadata, else None.

        A small file may claim rows that would take hours; the check of the number of rows reports it.
        """
        metadata = self.facts.metadata
        if metadata.edges[chunk.edge_type_id].format.name != "parquet":
            return None
        counts = metadata.num_edges_per_chunk[chunk.edge_type_id]
        known = counts is not None and chunk.index < len(counts)
        expected = counts[chunk.index] if counts and known else metadata.num_edges[chunk.edge_type_id]
        try:
            rows = parquet_rows(self.facts.source.local_copy(chunk.key), chunk.key)
        except InvalidInputError:
            return None  # the scan says why
        return rows if rows > expected + PARQUET_BATCH else None

    def _scan_feature(self, feature: Feature, reader: FeatureReader) -> None:
        """Scan every file of a feature, one at a time.

        Peak memory: one file that cannot be mapped, and some MB.
        """
        facts = FeatureFacts(feature, reader.rows, reader.rows_per_chunk, [])
        for index, key in enumerate(feature.data.files):
            missing = key in self.missing
            file = FeatureFile(index, key) if missing else _scan_file(facts, index, reader, self.defects)
            facts.files.append(file)
        self.facts.features[feature.key] = facts

    def _identify(self, key: str) -> None:
        path = self.facts.source.local_copy(key)
        identity: dict[str, Any] = {"path": key, "size": path.stat().st_size, "sha256": sha256_of(path)}
        self.facts.files.append(identity)

    def _find_overlaps(self, positions: EdgePositions) -> None:
        """Find the duplicates of each type, and what shares its ends with edges of other types."""
        repeated: dict[int, list[Repeated]] = {}
        for overlaps in self.pairs.overlaps():
            for type_id, again in overlaps.duplicates.items():
                repeated.setdefault(type_id, []).append(again)
            self.facts.parallel += overlaps.parallel
            self.facts.reversed += overlaps.reversed
        for type_id, blocks in sorted(repeated.items()):
            edge_ids = positions.edge_ids(type_id, _ascending([block.places for block in blocks]))
            self.facts.duplicates[type_id] = DuplicateEdges(edge_ids, self._first(type_id, blocks, positions))

    def _first(
        self, type_id: int, blocks: list[Repeated], positions: EdgePositions
    ) -> list[tuple[EdgeChunk, int, int, int, int]]:
        """Return the first ten duplicates of a type: file, row, edge ID, source and destination."""
        known = sorted(
            (place, key)
            for block in blocks
            for place, key in zip(block.places[: len(block.keys)].tolist(), block.keys.tolist(), strict=True)
        )
        first = []
        for place, key in known[:EXAMPLES]:
            chunk, row = positions.find(type_id, place)
            edge_id = positions.edge_id(type_id, chunk.index, row)
            first.append((chunk, row, edge_id, *self.pairs.ends(type_id, key)))
        return first


def _ascending(blocks: list[Ids]) -> Ids:
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
        block = FeatureValues(facts.feature, index, start, values[start : start + rows])
        for check in CHECKS.values():
            found = check.feature_values(block) if check.feature_values is not None else None
            if found is None or not found.any():
                continue
            places, examples = np.argwhere(found), []
            for place in map(tuple, places[:EXAMPLES].tolist()):
                row = start + place[0]
                sentence = f"{block.values[place]} at {[row, *place[1:]]} of {facts.where(index)}"
                key = facts.feature.data.files[index]
                examples.append(example(sentence, file=key, chunk=index, row=row))
            defects.add(check.name, facts.feature.key, len(places), examples)
