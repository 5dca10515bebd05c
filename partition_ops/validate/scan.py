"""One pass over the edge files: every row is looked at, and what is wrong is counted, not raised."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from partition_ops.errors import InvalidInputError
from partition_ops.graph.edges import EdgeChunk, EdgeReader
from partition_ops.graph.metadata import GraphMetadata
from partition_ops.progress import Advance
from partition_ops.storage import Store
from partition_ops.validate.bad_rows import scan_bad_rows
from partition_ops.validate.connectivity import Connectivity
from partition_ops.validate.defects import EXAMPLES, Defects
from partition_ops.validate.pairs import PairStore

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class EdgeScan:
    """Scans edge chunks; usable from several threads, a chunk for each.

    Attributes:
        source: The graph's root.
        metadata: Its metadata.
        reader: Reads its edges.
        defects: Takes what is wrong.
        pairs: Takes the ends of every sound edge.
        connectivity: Likewise.
        self_loops: By edge type ID, takes the IDs of self-loops.
    """

    source: Store
    metadata: GraphMetadata
    reader: EdgeReader
    defects: Defects
    pairs: PairStore
    connectivity: Connectivity
    self_loops: dict[int, list[Ids]]

    def scan(self, chunk: EdgeChunk, first_id: int, advance: Advance) -> int:
        """Scan one chunk.

        Args:
            chunk: Which one.
            first_id: Type-wise ID of its first edge.
            advance: Told of the rows read.

        Returns:
            The number of rows.
        """
        row = 0
        try:
            for batch in self.reader.batches(chunk):
                self._scan_rows(chunk, batch, row, first_id)
                row += batch.num_rows
                advance(batch.num_rows)
        except InvalidInputError as error:
            return self._scan_unreadable(chunk, error)
        return row

    def _scan_rows(self, chunk: EdgeChunk, batch: pa.RecordBatch, row: int, first_id: int) -> None:
        edge_type = self.metadata.edge_types[chunk.edge_type_id]
        src_type = self.metadata.node_type_id(edge_type.src)
        dst_type = self.metadata.node_type_id(edge_type.dst)
        src, dst = batch.column(0), batch.column(1)
        edge_ids = np.arange(first_id + row, first_id + row + batch.num_rows)
        if src.null_count or dst.null_count:
            null = pc.or_(src.is_null(), dst.is_null()).to_numpy(zero_copy_only=False)
            self._report(chunk, "null_ids", null, row, first_id, src, dst)
            keep = pa.array(~null)
            src, dst, edge_ids = src.filter(keep), dst.filter(keep), edge_ids[~null]
        ends = _int64(src), _int64(dst)
        counts = self.metadata.num_nodes[src_type], self.metadata.num_nodes[dst_type]
        wrong = _out_of_range(*ends, *counts)
        if wrong is not None:
            rows = edge_ids - first_id
            self._report(chunk, "out_of_range_ids", wrong, 0, first_id, src, dst, rows)
            ends, edge_ids = (ends[0][~wrong], ends[1][~wrong]), edge_ids[~wrong]
        if src_type == dst_type:
            self._note_self_loops(chunk, first_id, edge_ids, *ends)
        self.pairs.add(chunk.edge_type_id, edge_ids, *ends)
        offsets = self.metadata.node_offsets
        self.connectivity.add(*ends, offsets[src_type], offsets[dst_type])

    def _note_self_loops(self, chunk: EdgeChunk, first_id: int, edge_ids: Ids, src: Ids, dst: Ids) -> None:
        loops = np.flatnonzero(src == dst)
        if len(loops) == 0:
            return
        self.self_loops[chunk.edge_type_id].append(edge_ids[loops])
        examples = (
            self.example(chunk, int(edge_ids[i]) - first_id, int(edge_ids[i]), int(src[i]), int(dst[i]))
            for i in loops[:EXAMPLES]
        )
        self.defects.add("self_loop_edges", self._name(chunk), len(loops), examples)

    def _report(
        self,
        chunk: EdgeChunk,
        check: str,
        wrong: Mask,
        row: int,
        first_id: int,
        src: pa.Array,
        dst: pa.Array,
        rows: Ids | None = None,
    ) -> None:
        places = np.flatnonzero(wrong)
        found = []
        for place in places[:EXAMPLES].tolist():
            at = int(rows[place]) if rows is not None else row + place
            found.append(self.example(chunk, at, first_id + at, src[place].as_py(), dst[place].as_py()))
        self.defects.add(check, self._name(chunk), len(places), found)

    def example(
        self, chunk: EdgeChunk, row: int, edge_id: int, src: int | None, dst: int | None
    ) -> dict[str, Any]:
        """One edge, as the report shows it."""
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
            "edge_id": edge_id,
            "src": src,
            "dst": dst,
            "sentence": f"edge {edge_id} in row {row} of {self.source.uri_of(chunk.key)}{ends}",
        }

    def _range(self, node_type: str) -> str:
        count = self.metadata.num_nodes[self.metadata.node_type_id(node_type)]
        return f"{node_type!r} (0 to {count - 1})" if count else f"{node_type!r} (which has no nodes)"

    def _name(self, chunk: EdgeChunk) -> str:
        return str(self.metadata.edge_types[chunk.edge_type_id])

    def _scan_unreadable(self, chunk: EdgeChunk, error: InvalidInputError) -> int:
        """Find every bad row of a file that the fast reader gave up on."""
        file_format = self.metadata.edges[chunk.edge_type_id].format
        rows = 0
        found: Iterator[tuple[str, int, list[dict[str, Any]]]] = iter(())
        if file_format.name == "csv":
            rows, bad = scan_bad_rows(self.source, chunk.key, file_format)
            found = ((check, count, examples) for check, (count, examples) in bad.items())
        named = False
        for check, count, examples in found:
            named = True
            located = [{"chunk": chunk.index, **example} for example in examples]
            self.defects.add(check, self._name(chunk), count, located)
        if not named:
            example = {"file": chunk.key, "chunk": chunk.index, "sentence": str(error)}
            self.defects.add("unreadable_files", self._name(chunk), 1, [example])
        return rows


def _int64(column: pa.Array) -> Ids:
    """The IDs; what does not fit becomes negative, and is out of range then."""
    ids: Ids = column.cast(pa.int64(), safe=False).to_numpy(zero_copy_only=False)
    return ids


def _out_of_range(src: Ids, dst: Ids, sources: int, destinations: int) -> Mask | None:
    """Rows with an end outside its type; None where there is none, which costs least."""
    if len(src) == 0:
        return None
    # as unsigned numbers, those below zero are the largest
    if src.view(np.uint64).max() < sources and dst.view(np.uint64).max() < destinations:
        return None
    wrong: Mask = (src < 0) | (src >= sources) | (dst < 0) | (dst >= destinations)
    return wrong
