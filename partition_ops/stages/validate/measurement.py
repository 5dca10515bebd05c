"""`measure_graph`: read all files of a graph in one process, and draw the conclusions.

`conclude` draws them from findings in files that several tasks have read, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.duplicate_search import (
    DuplicateSearch,
    Overlaps,
    PairGroups,
    Repeated,
    merge_overlaps,
)
from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import METADATA, GraphMetadata, read_metadata_document
from partition_ops.stages.validate.check import Defects
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.connectivity import Components, Connectivity, DegreeFigures, degrees_of
from partition_ops.stages.validate.edge_scan import EdgePositions
from partition_ops.stages.validate.file_scan import FileFindings, scan_files
from partition_ops.stages.validate.graph_facts import (
    DuplicateEdges,
    EdgeFile,
    FeatureFacts,
    FeatureFile,
    GraphFacts,
)
from partition_ops.stages.validate.options import MEMORY_SHARE
from partition_ops.storage import Store
from partition_ops.system.memory import planned_memory
from partition_ops.system.progress import Progress
from partition_ops.system.temporary_folders import temporary_folder

Ids = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Measurement:
    """Facts about a graph, and its defects."""

    facts: GraphFacts  # figures of the files and of the whole graph
    defects: Defects  # the findings of all checks
    # by check and edge type ID, ascending type-wise IDs of edges that can be excluded or dropped
    edge_ids: dict[str, dict[int, Ids]]


@dataclass(frozen=True)
class WholeFindings:
    """What was found in all edges together."""

    overlaps: Overlaps  # duplicate, parallel and reversed edges, by position
    degrees: list[DegreeFigures]  # by node type ID, figures of the degrees
    components: Components  # the connected components


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
        The findings. Peak memory: ``memory``, 10 bytes a node, 40 bytes for each edge that has a duplicate,
        and a block of edges for each core.

    Raises:
        InvalidInputError: There are more nodes than the memory can count.
    """
    connectivity = Connectivity(sum(metadata.num_nodes), sum(metadata.num_edges))
    with temporary_folder() as scratch:
        budget = planned_memory(memory, MEMORY_SHARE)
        search = DuplicateSearch(metadata, memory=budget, scratch=Path(scratch))
        keys = existing_files(metadata, source)
        found = scan_files(source, metadata, keys, search, connectivity, progress)
        overlaps = merge_overlaps(search.overlaps())
    degrees = degrees_of(metadata, connectivity)
    whole = WholeFindings(overlaps, degrees, connectivity.forest.components())
    return conclude(metadata, source, found, whole, search.pairs)


def existing_files(metadata: GraphMetadata, source: Store) -> dict[str, int]:
    """Return the sizes of the files of a graph that exist, by key, in their order."""
    keys = (METADATA, *metadata.files())
    found = zip(keys, source.stat_all(keys), strict=True)
    return {key: entry.size for key, entry in found if entry is not None}


def conclude(
    metadata: GraphMetadata, source: Store, found: FileFindings, whole: WholeFindings, pairs: PairGroups
) -> Measurement:
    """Draw conclusions about the whole graph, and ask the checks of it.

    Args:
        metadata: The graph's metadata.
        source: The graph's root.
        found: What was found in all files that exist; its defects get the IDs of edges, and more defects.
        whole: What was found in all edges together.
        pairs: The edge types by the node types that they join.

    Returns:
        The findings. Peak memory: twice the edges that can be excluded or dropped, 8 bytes each.
    """
    facts = GraphFacts(source, metadata, read_metadata_document(source), whole.degrees, whole.components)
    facts.edge_files = _edge_files(source, metadata, found.edge_files)
    facts.features = _features(source, metadata, found.features)
    facts.files = found.files
    facts.parallel, facts.reversed = whole.overlaps.parallel, whole.overlaps.reversed
    positions = EdgePositions(metadata, facts.edge_files)
    found.defects.number_edges(
        lambda edge_type, chunk, row: positions.edge_id(metadata.edge_type_id(edge_type), chunk, row)
    )
    for feature in facts.features.values():
        if all(file.layout for file in feature.files):  # otherwise, some rows have no known IDs
            rows = [file.layout.rows for file in feature.files if file.layout]
            field = "node_id" if feature.feature in metadata.node_features else "edge_id"
            found.defects.number_rows(feature.feature.key, field, list(accumulate([0, *rows])))
    for type_id, repeated in whole.overlaps.duplicates.items():
        first = _first(type_id, repeated, positions, pairs)
        facts.duplicates[type_id] = DuplicateEdges(positions.edge_ids(type_id, repeated.places), first)
    edge_ids = {
        check: {type_id: positions.edge_ids(type_id, ids) for type_id, ids in sorted(types.items())}
        for check, types in sorted(found.positions.items())
    }
    for check in CHECKS.values():
        for finding in check.graph(facts) if check.graph is not None else ():
            found.defects.add(check.name, finding.about, finding.count, finding.examples)
            if finding.edge_ids is not None and check.affects_edges:
                by_type = edge_ids.setdefault(check.name, {})
                by_type[metadata.edge_type_id(finding.about)] = finding.edge_ids
    return Measurement(facts, found.defects, edge_ids)


def _edge_files(source: Store, metadata: GraphMetadata, found: Sequence[EdgeFile]) -> list[EdgeFile]:
    """Return all edge files in the order of the homogeneous IDs of their edges; some may be missing."""
    known = {file.chunk: file for file in found}
    return [known.get(chunk, EdgeFile(chunk)) for chunk in EdgeReader(source, metadata).chunks()]


def _features(
    source: Store, metadata: GraphMetadata, found: dict[str, list[FeatureFile]]
) -> dict[str, FeatureFacts]:
    """Return the files of all features, in their order; some may be missing."""
    facts = {}
    readers = feature_readers(source, metadata)
    for feature in (*metadata.node_features, *metadata.edge_features):
        known = {file.index: file for file in found.get(feature.key, ())}
        files = [known.get(index, FeatureFile(index, key)) for index, key in enumerate(feature.data.files)]
        reader = readers[feature.key]
        facts[feature.key] = FeatureFacts(feature, reader.rows, reader.rows_per_chunk, files)
    return facts


def _first(
    type_id: int, repeated: Repeated, positions: EdgePositions, pairs: PairGroups
) -> list[tuple[EdgeChunk, int, int, int, int]]:
    """Return the first ten duplicates of a type: file, row, edge ID, source and destination."""
    first = []
    places = repeated.places[: len(repeated.keys)].tolist()
    for place, key in zip(places, repeated.keys.tolist(), strict=True):
        chunk, row = positions.find(type_id, place)
        edge_id = positions.edge_id(type_id, chunk.index, row)
        first.append((chunk, row, edge_id, *pairs.ends(type_id, key)))
    return first
