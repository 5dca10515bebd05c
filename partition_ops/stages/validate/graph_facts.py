"""Facts about a graph that validation collects: blocks of rows and values, and facts of whole files."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.edges import EdgeChunk
from partition_ops.chunked.feature_reader import ChunkLayout, is_supported
from partition_ops.chunked.metadata import Feature, GraphMetadata
from partition_ops.chunked.names import EdgeType
from partition_ops.stages.validate.connectivity import Components, DegreeFigures
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EdgeRows:
    """Some rows of one edge file."""

    edge_type: EdgeType  # source type, relation and destination type
    chunk: EdgeChunk  # the file
    rows: Ids  # (n,) int64, ascending, which rows of the file these are, from 0
    src: Numbers  # (n,) int64, type-wise IDs of the sources; rows that are not checked yet may be uint64
    dst: Numbers  # (n,) the same for the destinations
    num_src: int  # number of nodes of the source type
    num_dst: int  # number of nodes of the destination type
    # (n,) bool each: rows without a source, and without a destination, whose ID is 0 here; None if no ID is
    # missing
    missing: tuple[Mask, Mask] | None = None

    def without(self, wrong: Mask) -> EdgeRows:
        """Return the other rows; all of them must have both IDs."""
        keep = ~wrong
        kept = self.rows[keep], self.src[keep], self.dst[keep]
        return EdgeRows(self.edge_type, self.chunk, *kept, self.num_src, self.num_dst)


@dataclass(frozen=True)
class EdgeFile:
    """An edge file that was read, or could not be."""

    chunk: EdgeChunk  # which file
    rows: int | None = None  # how many it has; None if it is missing or they cannot be counted
    error: str | None = None  # why it cannot be read; None if it is missing or was read


@dataclass(frozen=True)
class FeatureValues:
    """Some rows of one file of a feature."""

    feature: Feature  # which feature
    chunk: int  # index of the file
    values: npt.NDArray[Any]  # (n, ...) of the feature's dtype


@dataclass(frozen=True)
class FeatureFile:
    """A file of a feature that was read, or could not be."""

    index: int  # which chunk of the feature it is
    key: str  # its key below the graph's root
    # dtype, shape of a row and number of rows; None if it is missing or cannot be read
    layout: ChunkLayout | None = None
    error: str | None = None  # why it cannot be read; None if it is missing or was read


@dataclass(frozen=True)
class FeatureFacts:
    """The files of one feature."""

    feature: Feature  # which feature
    expected_rows: int  # number of nodes or edges of its type
    # the same by chunk; None if the metadata has no counts by chunk
    expected_rows_per_chunk: tuple[int, ...] | None
    files: list[FeatureFile]  # all files, in their order

    @property
    def is_csv(self) -> bool:
        return self.feature.data.format.name == "csv"

    @property
    def layouts(self) -> dict[int, ChunkLayout]:
        """By index, the layouts of files with a dtype that the partitions can hold."""
        found = {file.index: file.layout for file in self.files if file.layout is not None}
        return {index: layout for index, layout in found.items() if is_supported(layout.dtype)}

    @property
    def comparable_layouts(self) -> dict[int, ChunkLayout]:
        """The `layouts` that have columns: an empty CSV file does not say what its columns are."""
        return {index: layout for index, layout in self.layouts.items() if layout.rows or not self.is_csv}

    @property
    def first_layout(self) -> ChunkLayout | None:
        """The layout that the others must agree with."""
        return next(iter(self.comparable_layouts.values()), None)

    @property
    def rows(self) -> int:
        """Rows of the files in `layouts`."""
        return sum(layout.rows for layout in self.layouts.values())

    @property
    def values(self) -> int:
        """Numbers in the files in `layouts`."""
        return sum(layout.rows * int(np.prod(layout.shape, dtype=object)) for layout in self.layouts.values())

    def where(self, index: int) -> str:
        """Return the name of a file, for messages."""
        name, type_name = self.feature.name, self.feature.type_name
        return f"{self.feature.data.files[index]} (feature {name!r} of {type_name!r}, chunk {index})"


@dataclass(frozen=True)
class DuplicateEdges:
    """Edges of one type that repeat an earlier one."""

    edge_ids: Ids  # (n,) int64, ascending type-wise IDs
    # of the first ten of them: file, row, type-wise edge ID, source and destination
    first: list[tuple[EdgeChunk, int, int, int, int]]


@dataclass
class GraphFacts:
    """Facts about a graph, complete once all of its files are read."""

    source: Store  # the graph's root
    metadata: GraphMetadata
    document: dict[str, Any]  # its ``metadata.json``, as parsed
    degrees: list[DegreeFigures]  # by node type ID, figures of the degrees
    components: Components  # weakly connected components
    # all edge files, in the order of the edges' homogeneous IDs
    edge_files: list[EdgeFile] = field(default_factory=list)
    features: dict[str, FeatureFacts] = field(default_factory=dict)  # by ``type/name``
    # path, size and SHA-256 of every file that exists, in any order
    files: list[dict[str, Any]] = field(default_factory=list)
    duplicates: dict[int, DuplicateEdges] = field(default_factory=dict)  # by edge type ID
    parallel: int = 0  # number of edges with the same ends as an edge of another type
    reversed: int = 0  # number of pairs of nodes with edges in both directions

    def edge_files_by_type(self) -> Iterator[tuple[int, str, list[EdgeFile]]]:
        """Yield ID, name and files of every edge type."""
        by_type: list[list[EdgeFile]] = [[] for _ in self.metadata.edge_types]
        for file in self.edge_files:
            by_type[file.chunk.edge_type_id].append(file)
        for type_id, files in enumerate(by_type):
            yield type_id, str(self.metadata.edge_types[type_id]), files

    def unread_files(self) -> Iterator[tuple[str, int, str, str | None]]:
        """Yield type or feature, chunk, key and error of every file that was not read.

        The error of a missing file is None.
        """
        for _, name, edge_files in self.edge_files_by_type():
            for edge_file in edge_files:
                if edge_file.rows is None:
                    yield name, edge_file.chunk.index, edge_file.chunk.key, edge_file.error
        for name, feature in self.features.items():
            for file in feature.files:
                if file.layout is None:
                    yield name, file.index, file.key, file.error

    def edge_rows(self) -> list[int]:
        """Return the number of rows that were found, by edge type ID."""
        return [sum(file.rows or 0 for file in files) for _, _, files in self.edge_files_by_type()]
