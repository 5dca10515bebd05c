"""Files and rows that are there against those of the metadata, and examples of edges found by their place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from typing import Any

import pyarrow as pa

from partition_ops.errors import InvalidInputError
from partition_ops.graph.edges import EdgeChunk, EdgeReader
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.validate.defects import EXAMPLES, Defects


def report_missing(metadata: GraphMetadata, missing: Set[str], defects: Defects) -> None:
    """Name the files of each type and feature that are not there."""
    owners = [
        *((str(t), data) for t, data in zip(metadata.edge_types, metadata.edges, strict=True)),
        *((f.key, f.data) for f in (*metadata.node_features, *metadata.edge_features)),
    ]
    for name, data in owners:
        found = [(index, key) for index, key in enumerate(data.files) if key in missing]
        examples = (
            {"file": key, "chunk": index, "sentence": f"no file {key}"} for index, key in found[:EXAMPLES]
        )
        defects.add("missing_files", name, len(found), examples)


def check_rows(
    metadata: GraphMetadata,
    chunks: list[EdgeChunk],
    rows: Mapping[EdgeChunk, int],
    defects: Defects,
) -> list[int]:
    """Compare the rows of every chunk that could be counted with the metadata.

    Returns:
        By edge type ID, the rows found.
    """
    totals = []
    for type_id, edge_type in enumerate(metadata.edge_types):
        name, counts = str(edge_type), metadata.num_edges_per_chunk[type_id]
        own = [chunk for chunk in chunks if chunk.edge_type_id == type_id]
        totals.append(sum(rows.get(chunk, 0) for chunk in own))
        if counts is not None and len(counts) != len(own):
            what = f"{len(own)} files, where num_edges_per_chunk has {len(counts)} counts"
            defects.add("file_counts", name, 1, [{"sentence": what}])
        elif counts is not None:
            _check_chunks(name, {c: (rows[c], counts[c.index]) for c in own if c in rows}, defects)
        elif len(own) == sum(chunk in rows for chunk in own) and totals[-1] != metadata.num_edges[type_id]:
            what = f"{totals[-1]} rows in {len(own)} files, where metadata.json says"
            sentence = f"{what} {metadata.num_edges[type_id]}"
            defects.add("wrong_count_files", name, 1, [{"sentence": sentence}])
    return totals


def _check_chunks(name: str, chunks: Mapping[EdgeChunk, tuple[int, int]], defects: Defects) -> None:
    for chunk, (rows, expected) in chunks.items():
        if rows != expected:
            what = f"{rows} rows in {chunk.key}, where metadata.json says {expected} (num_edges_per_chunk)"
            example = {"file": chunk.key, "chunk": chunk.index, "sentence": what}
            defects.add("wrong_count_files", name, 1, [example])


def duplicate_example(reader: EdgeReader, chunk: EdgeChunk, row: int, edge_id: int) -> dict[str, Any]:
    """One edge as the report shows it; its chunk is read once more, up to its row."""
    where = f"in row {row} of {chunk.key}"
    example = {"file": chunk.key, "chunk": chunk.index, "row": row, "edge_id": edge_id}
    for batch, first in _batches(reader, chunk):
        if row < first + batch.num_rows:
            src, dst = (batch.column(i)[row - first].as_py() for i in (0, 1))
            sentence = f"edge {edge_id}, {src} -> {dst}, {where}"
            return {**example, "src": src, "dst": dst, "sentence": sentence}
    return {**example, "sentence": f"edge {edge_id} {where}"}


def _batches(reader: EdgeReader, chunk: EdgeChunk) -> Iterator[tuple[pa.RecordBatch, int]]:
    """Batches of a chunk with the row at which each begins, as far as it can be read."""
    first = 0
    try:
        for batch in reader.batches(chunk):
            yield batch, first
            first += batch.num_rows
    except InvalidInputError:  # it was reported when the chunk was scanned
        return
