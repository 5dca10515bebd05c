"""Files and rows that are there against those of the metadata."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from typing import Any

from partition_ops.chunked.edges import EdgeChunk
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.stages.validate.defects import EXAMPLES, Defects


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
    blank: Callable[[EdgeChunk], str],
) -> list[int]:
    """Compare the rows of every chunk that could be counted with the metadata.

    Args:
        metadata: The graph's metadata.
        chunks: All chunks.
        rows: The rows found, by chunk.
        defects: Takes what is wrong.
        blank: Says of a chunk with too few rows whether it has a blank line.

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
            _check_chunks(name, {c: (rows[c], counts[c.index]) for c in own if c in rows}, defects, blank)
        elif len(own) == sum(chunk in rows for chunk in own) and totals[-1] != metadata.num_edges[type_id]:
            what = f"{totals[-1]} rows in {len(own)} files, where metadata.json says"
            sentence = f"{what} {metadata.num_edges[type_id]}"
            defects.add("wrong_count_files", name, 1, [{"sentence": sentence}])
    return totals


def _check_chunks(
    name: str,
    chunks: Mapping[EdgeChunk, tuple[int, int]],
    defects: Defects,
    blank: Callable[[EdgeChunk], str],
) -> None:
    for chunk, (rows, expected) in chunks.items():
        if rows != expected:
            what = f"{rows} rows in {chunk.key}, where metadata.json says {expected} (num_edges_per_chunk)"
            what += blank(chunk) if rows < expected else ""
            example = {"file": chunk.key, "chunk": chunk.index, "sentence": what}
            defects.add("wrong_count_files", name, 1, [example])


def duplicate_example(chunk: EdgeChunk, row: int, edge_id: int, ends: tuple[int, int]) -> dict[str, Any]:
    """One edge as the report shows it."""
    src, dst = ends
    return {
        "file": chunk.key,
        "chunk": chunk.index,
        "row": row,
        "edge_id": edge_id,
        "src": src,
        "dst": dst,
        "sentence": f"edge {edge_id}, {src} -> {dst}, in row {row} of {chunk.key}",
    }
