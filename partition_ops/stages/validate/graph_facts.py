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
    """Some rows of one edge file.

    Attributes:
        edge_type: Source type, relation and destination type.
        chunk: The file.
        rows: (n,) int64, ascending, which rows of the file these are, from 0.
        src: (n,) int64, type-wise IDs of the sources; rows that are not checked yet may be uint64.
        dst: (n,) the same for the destinations.
        num_src: Number of nodes of the source type.
        num_dst: Number of nodes of the destination type.
        missing: (n,) bool each: rows without a source, and without a destination, whose ID is 0 here; None
            if no ID is missing.
    """

    edge_type: EdgeType
    chunk: EdgeChunk
    rows: Ids
    src: Numbers
    dst: Numbers
    num_src: int
    num_dst: int
    missing: tuple[Mask, Mask] | None = None

    def without(self, wrong: Mask) -> EdgeRows:
        """Return the other rows; all of them must have both IDs."""
        keep = ~wrong
        kept = self.rows[keep], self.src[keep], self.dst[keep]
        return EdgeRows(self.edge_type, self.chunk, *kept, self.num_src, self.num_dst)


@dataclass(frozen=True)
class EdgeFile:
    """An edge file that was read, or could not be.

    Attributes:
        chunk: Which file.
        rows: How many it has; None if it is missing or they cannot be counted.
        error: Why it cannot be read; None if it is missing or was read.
    """

    chunk: EdgeChunk
    rows: int | None = None
    error: str | None = None


@dataclass(frozen=True)
class FeatureValues:
    """Some rows of one file of a feature.

    Attributes:
        feature: Which feature.
        chunk: Index of the file.
        values: (n, ...) of the feature's dtype.
    """

    feature: Feature
    chunk: int
    values: npt.NDArray[Any]


@dataclass(frozen=True)
class FeatureFile:
    """A file of a feature that was read, or could not be.

    Attributes:
        index: Which chunk of the feature it is.
        key: Its key below the graph's root.
        layout: Dtype, shape of a row and number of rows; None if it is missing or cannot be read.
        error: Why it cannot be read; None if it is missing or was read.
    """

    index: int
    key: str
    layout: ChunkLayout | None = None
    error: str | None = None


@dataclass(frozen=True)
class FeatureFacts:
    """The files of one feature.

    Attributes:
        feature: Which feature.
        expected_rows: Number of nodes or edges of its type.
        expected_rows_per_chunk: The same by chunk; None if the metadata has no counts by chunk.
        files: All files, in their order.
    """

    feature: Feature
    expected_rows: int
    expected_rows_per_chunk: tuple[int, ...] | None
    files: list[FeatureFile]

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
    """Edges of one type that repeat an earlier one.

    Attributes:
        edge_ids: (n,) int64, ascending type-wise IDs.
        first: Of the first ten of them: file, row, type-wise edge ID, source and destination.
    """

    edge_ids: Ids
    first: list[tuple[EdgeChunk, int, int, int, int]]


@dataclass
class GraphFacts:
    """Facts about a graph, complete once all of its files are read.

    Attributes:
        source: The graph's root.
        metadata: Its metadata.
        document: Its ``metadata.json``, as parsed.
        degrees: By node type ID, figures of the degrees.
        components: Weakly connected components.
        edge_files: All edge files, in the order of the edges' homogeneous IDs.
        features: By ``type/name``.
        files: Path, size and SHA-256 of every file that exists, in any order.
        duplicates: By edge type ID.
        parallel: Number of edges with the same ends as an edge of another type.
        reversed: Number of pairs of nodes with edges in both directions.
    """

    source: Store
    metadata: GraphMetadata
    document: dict[str, Any]
    degrees: list[DegreeFigures]
    components: Components
    edge_files: list[EdgeFile] = field(default_factory=list)
    features: dict[str, FeatureFacts] = field(default_factory=dict)
    files: list[dict[str, Any]] = field(default_factory=list)
    duplicates: dict[int, DuplicateEdges] = field(default_factory=dict)
    parallel: int = 0
    reversed: int = 0

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
