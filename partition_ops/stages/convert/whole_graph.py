"""The whole graph as neutral columns by original ID, for files of output formats that describe all of it."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from partition_ops.artifacts.book import Book
from partition_ops.chunked.edges import EdgeBlock, EdgeReader
from partition_ops.chunked.feature_reader import FeatureReader
from partition_ops.chunked.negatives import read_negatives
from partition_ops.formats.columns import Column, LazyColumns, row_blocks
from partition_ops.formats.format import reading_format
from partition_ops.formats.neutral_partition import WholeGraph
from partition_ops.stages.convert.context import Conversion

DROPPED = -1
CHUNK_BYTES = 1 << 20


def whole_graph(conversion: Conversion, book: Book) -> WholeGraph:
    """Return the columns; see `WholeGraph`.

    Args:
        conversion: The conversion, whose partitions have been gathered.
        book: Its book.

    Peak memory, while a column is read: 4 bytes a node of the graph; 1 byte (with 128 partitions or more 2,
    with 32,768 or more 4) an edge of the largest edge type; a chunk of a feature in CSV.
    """
    metadata = conversion.metadata
    readers = conversion.features

    def feature(reader: FeatureReader) -> Column:
        def blocks() -> Iterator[Any]:
            for index in range(len(reader.layout.rows_per_chunk)):
                for block in reader.chunk_blocks(index, CHUNK_BYTES):
                    yield block.astype(reader.layout.dtype, copy=False)

        return Column(reader.layout.dtype, (reader.rows, *reader.layout.shape), blocks)

    offsets = metadata.node_offsets
    node_types, edge_types = metadata.node_types, [str(name) for name in metadata.edge_types]

    def node_parts(type_id: int) -> Column:
        parts = conversion.order.assignment.parts
        return _widened(parts[offsets[type_id] : offsets[type_id + 1]])

    edge_parts = partial(_edge_parts, conversion, book)
    makers = {
        **{f"node_parts/{name}": partial(node_parts, type_id) for type_id, name in enumerate(node_types)},
        **{f"edge_parts/{name}": partial(edge_parts, type_id) for type_id, name in enumerate(edge_types)},
        **{f"node_features/{f.key}": partial(feature, readers[f.key]) for f in metadata.node_features},
        **{f"edge_features/{f.key}": partial(feature, readers[f.key]) for f in metadata.edge_features},
    }

    def edges(edge_type: str) -> Iterator[EdgeBlock]:
        reader = EdgeReader(conversion.source, metadata, conversion.dropped.ids(metadata))
        for chunk in reader.chunks():
            if chunk.edge_type_id == edge_types.index(edge_type):
                yield from reader.blocks(chunk)

    num_nodes = dict(zip(node_types, metadata.num_nodes, strict=True))
    negatives = {
        name: partial(read_negatives, conversion.source, metadata, name) for name in metadata.negatives
    }
    return WholeGraph(book, LazyColumns(makers), num_nodes, edges, negatives)


def _edge_parts(conversion: Conversion, book: Book, type_id: int) -> Column:
    """Return the partition of each edge of a type, as the original IDs in the partitions say."""
    name, count = str(conversion.metadata.edge_types[type_id]), conversion.metadata.num_edges[type_id]

    def blocks() -> Iterator[Any]:
        owners = np.full(count, DROPPED, np.min_scalar_type(-book.num_parts))
        for part in range(book.num_parts):
            stored = reading_format(book).arrays(conversion.destination, part, group="edge_orig_ids")
            ids = stored[f"edge_orig_ids/{name}"].map(conversion.destination)
            for begin, end in row_blocks(len(ids), ids.nbytes):
                owners[ids[begin:end]] = part
        yield from _widened(owners).blocks()

    return Column(np.dtype(np.int64), (count,), blocks)


def _widened(parts: Any) -> Column:
    """Return partitions as int64."""

    def blocks() -> Iterator[Any]:
        for begin, end in row_blocks(len(parts), 8 * len(parts)):
            yield parts[begin:end].astype(np.int64)

    return Column(np.dtype(np.int64), (len(parts),), blocks)
