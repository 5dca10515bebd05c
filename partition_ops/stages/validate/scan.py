"""One pass over the edge files: every row is looked at, and what is wrong is counted, not raised."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.chunked.duplicate_edges import PairStore
from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.bad_rows import BadRows
from partition_ops.stages.validate.connectivity import Connectivity
from partition_ops.stages.validate.defects import EXAMPLES, Defects
from partition_ops.stages.validate.places import places_of
from partition_ops.storage import Store
from partition_ops.system.progress import Advance

Ids = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64] | npt.NDArray[np.uint64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EdgeScan:
    """Scans edge chunks; usable from several threads, a chunk for each.

    Attributes:
        source: The graph's root.
        metadata: Its metadata.
        reader: Reads its edges.
        defects: Takes what is wrong.
        pairs: Takes the ends of every sound edge, with its place.
        connectivity: Takes the ends of every sound edge.
        self_loops: By edge type ID, takes the places of self-loops.
    """

    source: Store
    metadata: GraphMetadata
    reader: EdgeReader
    defects: Defects
    pairs: PairStore
    connectivity: Connectivity
    self_loops: dict[int, list[Ids]]

    def scan(self, chunk: EdgeChunk, advance: Advance) -> int | None:
        """Scan one chunk.

        Args:
            chunk: Which one.
            advance: Told of the rows read.

        Returns:
            The number of rows; None where nobody can count them.
        """
        row = 0
        try:
            for batch in self.reader.batches(chunk):
                self._scan_batch(chunk, batch, row)
                row += batch.num_rows
                advance(batch.num_rows)
        except InvalidInputError as error:
            return self._scan_slowly(chunk, row, error)
        return row

    def _scan_batch(self, chunk: EdgeChunk, batch: pa.RecordBatch, row: int) -> None:
        rows = np.arange(row, row + batch.num_rows)
        src, dst = batch.column(0), batch.column(1)
        if src.null_count or dst.null_count:
            sound = np.asarray(src.is_valid()) & np.asarray(dst.is_valid())
            self._report_nulls(chunk, rows, src, dst, sound)
            keep = pa.array(sound)
            rows, src, dst = rows[sound], src.filter(keep), dst.filter(keep)
        self._scan_rows(chunk, rows, _numbers(src), _numbers(dst))

    def _scan_rows(self, chunk: EdgeChunk, rows: Ids, src: Numbers, dst: Numbers) -> None:
        edge_type = self.metadata.edge_types[chunk.edge_type_id]
        src_type = self.metadata.node_type_id(edge_type.src)
        dst_type = self.metadata.node_type_id(edge_type.dst)
        counts = self.metadata.num_nodes[src_type], self.metadata.num_nodes[dst_type]
        wrong = _out_of_range(src, dst, *counts)
        if wrong is not None:
            self._report(chunk, "out_of_range_ids", wrong, rows, src, dst)
            rows, src, dst = rows[~wrong], src[~wrong], dst[~wrong]
        ends = src.astype(np.int64, copy=False), dst.astype(np.int64, copy=False)
        places = places_of(chunk, rows)
        if src_type == dst_type:
            self._note_self_loops(chunk, rows, places, *ends)
        self.pairs.add(chunk.edge_type_id, places, *ends)
        offsets = self.metadata.node_offsets
        self.connectivity.add(*ends, offsets[src_type], offsets[dst_type])

    def _note_self_loops(self, chunk: EdgeChunk, rows: Ids, places: Ids, src: Ids, dst: Ids) -> None:
        loops = src == dst
        if loops.any():
            self.self_loops[chunk.edge_type_id].append(places[loops])
            self._report(chunk, "self_loop_edges", loops, rows, src, dst)

    def _report(
        self, chunk: EdgeChunk, check: str, found: Mask, rows: Ids, src: Numbers, dst: Numbers
    ) -> None:
        places = np.flatnonzero(found)
        examples = [
            self.example(chunk, int(rows[place]), int(src[place]), int(dst[place]))
            for place in places[:EXAMPLES].tolist()
        ]
        self.defects.add(check, self._name(chunk), len(places), examples)

    def _report_nulls(self, chunk: EdgeChunk, rows: Ids, src: pa.Array, dst: pa.Array, sound: Mask) -> None:
        places = np.flatnonzero(~sound)
        examples = [
            self.example(chunk, int(rows[place]), src[place].as_py(), dst[place].as_py())
            for place in places[:EXAMPLES].tolist()
        ]
        self.defects.add("null_ids", self._name(chunk), len(places), examples)

    def example(self, chunk: EdgeChunk, row: int, src: int | None, dst: int | None) -> dict[str, Any]:
        """One edge, as the report shows it once its ID is known."""
        edge_type = self.metadata.edge_types[chunk.edge_type_id]
        ends = "".join(
            f", {role} {'missing' if found is None else found} of {self._range(node_type)}"
            for role, found, node_type in (
                ("source", src, edge_type.src),
                ("destination", dst, edge_type.dst),
            )
        )
        return {
            "file": chunk.key,
            "chunk": chunk.index,
            "row": row,
            "src": src,
            "dst": dst,
            "sentence": f"in row {row} of {chunk.key}{ends}",
        }

    def _range(self, node_type: str) -> str:
        count = self.metadata.num_nodes[self.metadata.node_type_id(node_type)]
        return f"{node_type!r} (0 to {count - 1})" if count else f"{node_type!r} (which has no nodes)"

    def _name(self, chunk: EdgeChunk) -> str:
        return str(self.metadata.edge_types[chunk.edge_type_id])

    def _scan_slowly(self, chunk: EdgeChunk, done: int, error: InvalidInputError) -> int | None:
        """Find every bad row of a file that the fast reader gave up on, and look at the sound ones."""
        file_format = self.metadata.edges[chunk.edge_type_id].format
        bad = BadRows(self.source, chunk, file_format)
        if file_format.name == "csv":
            for rows, src, dst in bad.scan():
                fresh = rows >= done
                self._scan_rows(chunk, rows[fresh], src[fresh], dst[fresh])
        for check, (count, examples) in bad.found.items():
            self.defects.add(check, self._name(chunk), count, examples)
        if bad.found and bad.complete:
            return bad.rows
        example = {"file": chunk.key, "chunk": chunk.index, "sentence": str(error)}
        self.defects.add("unreadable_files", self._name(chunk), 1, [example])
        return None


def _numbers(column: pa.Array) -> Numbers:
    """The IDs, as 64-bit integers with or without sign."""
    kind = pa.uint64() if column.type == pa.uint64() else pa.int64()
    numbers: Numbers = column.cast(kind).to_numpy(zero_copy_only=False)
    return numbers


def _out_of_range(src: Numbers, dst: Numbers, sources: int, destinations: int) -> Mask | None:
    """Rows with an end outside its type; None where there is none, which costs least."""
    if len(src) == 0:
        return None
    # as unsigned numbers, those below zero are the largest
    if src.view(np.uint64).max() < sources and dst.view(np.uint64).max() < destinations:
        return None
    wrong: Mask = (src < 0) | (src >= sources) | (dst < 0) | (dst >= destinations)
    return wrong
