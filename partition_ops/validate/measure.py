"""Measure a graph: one pass over its files on all cores, every finding counted."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops import artifacts
from partition_ops.graph.edges import EdgeChunk, EdgeReader
from partition_ops.graph.features import feature_readers
from partition_ops.graph.metadata import Feature, GraphMetadata
from partition_ops.memory import memory_limit
from partition_ops.parallel import map_in_threads
from partition_ops.progress import Advance, Progress
from partition_ops.storage import Store
from partition_ops.storage.base import sha256_of
from partition_ops.validate.connectivity import Components, Connectivity
from partition_ops.validate.defects import EXAMPLES, Defects
from partition_ops.validate.feature_scan import FeatureScan, scan_feature
from partition_ops.validate.pairs import PairStore
from partition_ops.validate.scan import EdgeScan

Ids = npt.NDArray[np.int64]


@dataclass
class Measurement:
    """What was found.

    Attributes:
        defects: What is wrong.
        edge_rows: By edge type ID, rows found.
        features: By ``type/name``.
        files: Path, size and SHA-256 of every file that is there, in the metadata's order.
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
        The findings. Peak memory: ``memory``, 24 bytes a node, and a block of edges for each core.
    """
    found = Measurement(Connectivity(sum(metadata.num_nodes)))
    with tempfile.TemporaryDirectory(prefix="partition-ops-") as scratch:
        budget = memory_limit() // 4 if memory is None else memory
        pairs = PairStore(metadata, memory=budget, scratch=Path(scratch))
        _Measuring(metadata, source, found, pairs).run(progress)
        for overlaps in pairs.overlaps():
            for type_id, ids in overlaps.duplicates.items():
                earlier = found.repeated.get(type_id, np.empty(0, np.int64))
                found.repeated[type_id] = np.sort(np.concatenate([earlier, ids]))
            found.parallel += overlaps.parallel
            found.reversed += overlaps.reversed
    found.components = found.connectivity.components()
    _report_duplicates(metadata, source, found)
    _report_overlaps(metadata, found)
    return found


class _Measuring:
    """Every file as one job for a pool of threads."""

    def __init__(self, metadata: GraphMetadata, source: Store, found: Measurement, pairs: PairStore) -> None:
        self.metadata = metadata
        self.source = source
        self.found = found
        self.missing = {key for key in metadata.files() if source.stat(key) is None}
        self.loops: dict[int, list[Ids]] = {type_id: [] for type_id in range(len(metadata.edge_types))}
        reader = EdgeReader(source, metadata)
        self.chunks = reader.chunks()
        self.readers = feature_readers(source, metadata)
        self.scan = EdgeScan(source, metadata, reader, found.defects, pairs, found.connectivity, self.loops)

    def run(self, progress: Progress) -> None:
        rows: dict[EdgeChunk, int] = {}
        with progress.step("Checking edges", sum(self.metadata.num_edges), "edges") as advance:
            for done in map_in_threads(lambda job: job(), self._jobs(rows, advance)):
                if done is not None:
                    self.found.files.append(done)
        self._report_missing()
        self._check_rows(rows)
        for type_id, ids in self.loops.items():
            self.found.self_loops[type_id] = np.sort(np.concatenate([np.empty(0, np.int64), *ids]))

    def _jobs(
        self, rows: dict[EdgeChunk, int], advance: Advance
    ) -> list[Callable[[], dict[str, Any] | None]]:
        features = (*self.metadata.node_features, *self.metadata.edge_features)
        keys = (artifacts.METADATA, *self.metadata.files())
        return [
            *(lambda chunk=chunk: self._scan(chunk, rows, advance) for chunk in self._readable_chunks()),
            *(lambda feature=feature: self._scan_feature(feature) for feature in features),
            *(lambda key=key: self._identify(key) for key in keys if key not in self.missing),
        ]

    def _readable_chunks(self) -> list[EdgeChunk]:
        return [chunk for chunk in self.chunks if chunk.key not in self.missing]

    def _scan(self, chunk: EdgeChunk, rows: dict[EdgeChunk, int], advance: Advance) -> None:
        rows[chunk] = self.scan.scan(chunk, self._first_id(chunk), advance)

    def _first_id(self, chunk: EdgeChunk) -> int:
        """Type-wise ID of a chunk's first edge: by the metadata's counts, or counted."""
        counts = self.metadata.num_edges_per_chunk[chunk.edge_type_id]
        if counts is not None:
            return sum(counts[: chunk.index])
        if chunk.index == 0:
            return 0
        earlier = (c for c in self.chunks if c.edge_type_id == chunk.edge_type_id and c.index < chunk.index)
        return sum(self._count(other) for other in earlier if other.key not in self.missing)

    def _count(self, chunk: EdgeChunk) -> int:
        try:
            return sum(batch.num_rows for batch in self.scan.reader.batches(chunk))
        except Exception:  # it is reported when it is scanned itself
            return 0

    def _scan_feature(self, feature: Feature) -> None:
        reader = self.readers[feature.key]
        self.found.features[feature.key] = scan_feature(self.source, feature, reader, self.found.defects)

    def _identify(self, key: str) -> dict[str, Any]:
        path = self.source.local_copy(key)
        return {"path": key, "size": path.stat().st_size, "sha256": sha256_of(path)}

    def _report_missing(self) -> None:
        owners = [
            *((str(t), data) for t, data in zip(self.metadata.edge_types, self.metadata.edges, strict=True)),
            *((f.key, f.data) for f in (*self.metadata.node_features, *self.metadata.edge_features)),
        ]
        for name, data in owners:
            missing = [(index, key) for index, key in enumerate(data.files) if key in self.missing]
            examples = (
                {"file": key, "chunk": index, "sentence": f"no file {self.source.uri_of(key)}"}
                for index, key in missing[:EXAMPLES]
            )
            self.found.defects.add("missing_files", name, len(missing), examples)

    def _check_rows(self, rows: dict[EdgeChunk, int]) -> None:
        for type_id, edge_type in enumerate(self.metadata.edge_types):
            name, counts = str(edge_type), self.metadata.num_edges_per_chunk[type_id]
            chunks = [chunk for chunk in self.chunks if chunk.edge_type_id == type_id]
            total = sum(rows.get(chunk, 0) for chunk in chunks)
            self.found.edge_rows.append(total)
            if counts is not None and len(counts) != len(chunks):
                what = f"{len(chunks)} files, where num_edges_per_chunk has {len(counts)} counts"
                self.found.defects.add("file_counts", name, 1, [{"sentence": what}])
            elif counts is not None:
                self._check_chunks(name, [(c, rows[c], counts[c.index]) for c in chunks if c in rows])
            elif total != self.metadata.num_edges[type_id]:
                what = f"{total} rows in {len(chunks)} files, where metadata.json says"
                sentence = f"{what} {self.metadata.num_edges[type_id]}"
                self.found.defects.add("wrong_count_files", name, 1, [{"sentence": sentence}])

    def _check_chunks(self, name: str, chunks: list[tuple[EdgeChunk, int, int]]) -> None:
        for chunk, rows, expected in chunks:
            if rows != expected:
                where = self.source.uri_of(chunk.key)
                what = f"{rows} rows in {where}, where metadata.json says {expected} (num_edges_per_chunk)"
                example = {"file": chunk.key, "chunk": chunk.index, "sentence": what}
                self.found.defects.add("wrong_count_files", name, 1, [example])


def _report_duplicates(metadata: GraphMetadata, source: Store, found: Measurement) -> None:
    """Name the file, the row and the ends of the first duplicates: their chunks are read once more."""
    reader = EdgeReader(source, metadata)
    for type_id, ids in found.repeated.items():
        name = str(metadata.edge_types[type_id])
        examples = []
        for edge_id in ids[:EXAMPLES].tolist():
            examples.append(_locate(reader, type_id, edge_id, source, found))
        found.defects.add("duplicate_edges", name, len(ids), examples)


def _locate(
    reader: EdgeReader, type_id: int, edge_id: int, source: Store, found: Measurement
) -> dict[str, Any]:
    starts = {chunk: start for chunk, start in reader.chunk_starts.items() if chunk.edge_type_id == type_id}
    chunk = max((c for c, start in starts.items() if start <= edge_id), key=lambda c: c.index)
    row, before = edge_id - starts[chunk], 0
    for batch in reader.batches(chunk):
        if row < before + batch.num_rows:
            src, dst = (batch.column(i)[row - before].as_py() for i in (0, 1))
            what = f"edge {edge_id}, {src} -> {dst}, in row {row} of {source.uri_of(chunk.key)}"
            place = {"file": chunk.key, "chunk": chunk.index, "row": row}
            return {**place, "edge_id": edge_id, "src": src, "dst": dst, "sentence": what}
        before += batch.num_rows
    return {"edge_id": edge_id, "sentence": f"edge {edge_id}"}


def _report_overlaps(metadata: GraphMetadata, found: Measurement) -> None:
    for check, count, what in (
        ("parallel_edges", found.parallel, "edges lie over an edge of another type"),
        ("reversed_edges", found.reversed, "pairs of nodes have edges in both directions"),
    ):
        found.defects.add(check, metadata.graph_name, count, [{"sentence": f"{count:,} {what}"}])


def digest_of(ids: Ids) -> str:
    """SHA-256 of an array's values."""
    return hashlib.sha256(np.ascontiguousarray(ids).data).hexdigest()
