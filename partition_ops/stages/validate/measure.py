"""Measure a graph: one pass over its files on all cores, every finding counted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.duplicate_edges import PairStore, Repeated
from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.feature_reader import FeatureReader, feature_readers
from partition_ops.chunked.metadata import METADATA, Feature, GraphMetadata
from partition_ops.chunked.table_files import passed_over
from partition_ops.stages.validate.connectivity import Components, Connectivity
from partition_ops.stages.validate.counting import check_rows, duplicate_example, report_missing
from partition_ops.stages.validate.defects import EXAMPLES, Defects
from partition_ops.stages.validate.feature_scan import FeatureScan, scan_feature
from partition_ops.stages.validate.places import Places
from partition_ops.stages.validate.scan import EdgeScan
from partition_ops.storage import Store
from partition_ops.storage.store import sha256_of
from partition_ops.system.memory import memory_limit
from partition_ops.system.parallel import unordered_in_threads
from partition_ops.system.progress import Advance, Progress
from partition_ops.system.temporary_folders import temporary_folder

Ids = npt.NDArray[np.int64]
Job = Callable[[], dict[str, Any] | None]


@dataclass
class Measurement:
    """What was found.

    Attributes:
        defects: What is wrong.
        edge_rows: By edge type ID, rows found.
        features: By ``type/name``.
        files: Path, size and SHA-256 of every file that is there, in any order.
        repeated: By edge type ID, ascending IDs of edges that repeat an earlier one.
        self_loops: By edge type ID, ascending IDs of self-loops.
        parallel: Edges that lie over an edge of another type.
        reversed: Pairs of nodes with edges in both directions.
        connectivity: Degrees.
        components: Weakly connected components.
    """

    connectivity: Connectivity
    defects: Defects = field(default_factory=Defects)
    edge_rows: list[int] = field(default_factory=list)
    features: dict[str, FeatureScan] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)
    repeated: dict[int, Ids] = field(default_factory=dict)
    self_loops: dict[int, Ids] = field(default_factory=dict)
    parallel: int = 0
    reversed: int = 0
    components: Components = Components(0, 0)  # noqa: RUF009 (frozen)


def measure_graph(
    metadata: GraphMetadata, source: Store, progress: Progress, *, memory: int | None = None
) -> Measurement:
    """Look at every file of a graph.

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
    found = Measurement(Connectivity(sum(metadata.num_nodes), sum(metadata.num_edges)))
    with temporary_folder() as scratch:
        budget = memory_limit() // 4 if memory is None else memory
        pairs = PairStore(metadata, memory=budget, scratch=Path(scratch))
        _Measuring(metadata, source, found, pairs).run(progress)
    found.components = found.connectivity.components()
    return found


class _Measuring:
    """Every file as one job for a pool of threads."""

    def __init__(self, metadata: GraphMetadata, source: Store, found: Measurement, pairs: PairStore) -> None:
        self.metadata = metadata
        self.source = source
        self.found = found
        self.pairs = pairs
        there = zip(metadata.files(), source.stat_all(metadata.files()), strict=True)
        self.missing = {key for key, entry in there if entry is None}
        self.loops: dict[int, list[Ids]] = {type_id: [] for type_id in range(len(metadata.edge_types))}
        self.rows: dict[EdgeChunk, int] = {}
        self.reader = EdgeReader(source, metadata)
        self.chunks = self.reader.chunks()
        connectivity, defects = found.connectivity, found.defects
        self.scan = EdgeScan(source, metadata, self.reader, defects, pairs, connectivity, self.loops)

    def run(self, progress: Progress) -> None:
        with progress.step("Checking edges", sum(self.metadata.num_edges), "edges") as advance:
            for done in unordered_in_threads(lambda job: job(), self._jobs(advance)):
                if done is not None:
                    self.found.files.append(done)
        report_missing(self.metadata, self.missing, self.found.defects)
        defects = self.found.defects
        self.found.edge_rows = check_rows(self.metadata, self.chunks, self.rows, defects, self._blank)
        places = Places(self.metadata, self.chunks, self.rows)
        self.found.defects.number_edges(self.metadata, places)
        for type_id, loops in self.loops.items():
            self.found.self_loops[type_id] = places.edge_ids(type_id, _ascending(loops))
        self._find_overlaps(places)

    def _jobs(self, advance: Advance) -> list[Job]:
        readers = feature_readers(self.source, self.metadata)
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        keys = (METADATA, *self.metadata.files())
        chunks = [chunk for chunk in self.chunks if chunk.key not in self.missing]
        scans: list[Job] = [partial(self._scan, chunk, advance) for chunk in chunks]
        others: list[Job] = [
            *(partial(self._scan_feature, feature, readers[feature.key]) for feature in features),
            *(partial(self._identify, key) for key in keys if key not in self.missing),
        ]
        # mixed, because scans wait for one another now and then, and at first for Numba; others for nobody
        return [job for pair in zip_longest(others, scans) for job in pair if job is not None]

    def _scan(self, chunk: EdgeChunk, advance: Advance) -> None:
        rows = self.scan.scan(chunk, advance)
        if rows is not None:
            self.rows[chunk] = rows

    def _blank(self, chunk: EdgeChunk) -> str:
        is_csv = self.metadata.edges[chunk.edge_type_id].format.name == "csv"
        return passed_over(self.source.local_copy(chunk.key)) if is_csv else ""

    def _scan_feature(self, feature: Feature, reader: FeatureReader) -> None:
        self.found.features[feature.key] = scan_feature(self.source, feature, reader, self.found.defects)

    def _identify(self, key: str) -> dict[str, Any]:
        path = self.source.local_copy(key)
        return {"path": key, "size": path.stat().st_size, "sha256": sha256_of(path)}

    def _find_overlaps(self, places: Places) -> None:
        """Duplicates of each type, named with file, row and ends, and what lies over another type's edges."""
        repeated: dict[int, list[Repeated]] = {}
        for overlaps in self.pairs.overlaps():
            for type_id, again in overlaps.duplicates.items():
                repeated.setdefault(type_id, []).append(again)
            self.found.parallel += overlaps.parallel
            self.found.reversed += overlaps.reversed
        for type_id, blocks in sorted(repeated.items()):
            ascending = _ascending([block.places for block in blocks])
            self.found.repeated[type_id] = places.edge_ids(type_id, ascending)
            self._report_duplicates(type_id, blocks, places)
        _report_overlaps(self.metadata, self.found)

    def _report_duplicates(self, type_id: int, blocks: list[Repeated], places: Places) -> None:
        known = sorted(
            (place, key)
            for block in blocks
            for place, key in zip(block.places[: len(block.keys)].tolist(), block.keys.tolist(), strict=True)
        )
        examples = []
        for place, key in known[:EXAMPLES]:
            chunk, row = places.find(type_id, place)
            edge_id = places.start(type_id, chunk.index) + row
            examples.append(duplicate_example(chunk, row, edge_id, self.pairs.ends(type_id, key)))
        count = sum(len(block.places) for block in blocks)
        self.found.defects.add("duplicate_edges", str(self.metadata.edge_types[type_id]), count, examples)


def _ascending(blocks: list[Ids]) -> Ids:
    return np.sort(np.concatenate([np.empty(0, np.int64), *blocks]))


def _report_overlaps(metadata: GraphMetadata, found: Measurement) -> None:
    for check, count, what in (
        ("parallel_edges", found.parallel, "edges lie over an edge of another type"),
        ("reversed_edges", found.reversed, "pairs of nodes have edges in both directions"),
    ):
        found.defects.add(check, metadata.graph_name, count, [{"sentence": f"{count:,} {what}"}])
