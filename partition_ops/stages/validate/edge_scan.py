"""One pass over the edge files: the checks of rows and edges count what is wrong, and nothing is raised.

pyarrow reads a file block by block. A CSV file with a row that pyarrow cannot convert is read a second time,
row by row, so that every wrong row is found and the edges behind it are checked too. The position of an edge
is one number, file and row; its ID is known once the rows of all files are counted.
"""

from __future__ import annotations

import csv
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from partition_ops.chunked.edges import EdgeChunk, EdgeReader
from partition_ops.chunked.metadata import FileFormat, GraphMetadata
from partition_ops.chunked.table_files import column_numbers, csv_layout, text_lines
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.check import EXAMPLES, Check, Defects, example
from partition_ops.stages.validate.checks import CHECKS
from partition_ops.stages.validate.connectivity import Connectivity
from partition_ops.stages.validate.graph_facts import EdgeFile, EdgeRows, Mask, Numbers
from partition_ops.storage import Store
from partition_ops.system.progress import Advance

Ids = npt.NDArray[np.int64]
RowsFunction = Callable[[EdgeRows], Mask | None]
SCANNED_ROWS = 1 << 16  # few enough that they stay in the cache from check to check
TEXT_ROWS_AT_ONCE = 1 << 16
LONGEST_TEXT = 100  # of a row in an example
DELIMITERS = ",;\t| "
ROW_BITS = 40  # a million million rows in a file, and eight million files


class EdgePositions:
    """Turns positions into type-wise edge IDs.

    Args:
        metadata: The graph's metadata.
        files: All edge files, as they were read; one whose rows are not known has as many as the metadata
            says.
    """

    def __init__(self, metadata: GraphMetadata, files: Iterable[EdgeFile]) -> None:
        self._chunks: dict[int, list[EdgeChunk]] = {t: [] for t in range(len(metadata.edge_types))}
        self._starts: dict[int, list[int]] = {t: [0] for t in range(len(metadata.edge_types))}
        for file in files:
            self._chunks[file.chunk.edge_type_id].append(file.chunk)
            starts = self._starts[file.chunk.edge_type_id]
            rows = _expected_rows(metadata, file.chunk) if file.rows is None else file.rows
            starts.append(starts[-1] + rows)

    def edge_ids(self, type_id: int, positions: Ids) -> Ids:
        """Return the (n,) int64 type-wise IDs of the edges at (n,) int64 positions."""
        if len(positions) == 0:
            return positions
        starts = np.array(self._starts[type_id][:-1], np.int64)
        ids: Ids = starts[positions >> ROW_BITS] + (positions & ((1 << ROW_BITS) - 1))
        return ids

    def edge_id(self, type_id: int, chunk: int, row: int) -> int:
        """Return the type-wise ID of one edge."""
        return self._starts[type_id][chunk] + row

    def find(self, type_id: int, position: int) -> tuple[EdgeChunk, int]:
        """Return file and row of a position."""
        return self._chunks[type_id][position >> ROW_BITS], position & ((1 << ROW_BITS) - 1)


def _expected_rows(metadata: GraphMetadata, chunk: EdgeChunk) -> int:
    counts = metadata.num_edges_per_chunk[chunk.edge_type_id]
    # an impossible count is reported anyway, and must not overflow before
    known = counts is not None and chunk.index < len(counts) and counts[chunk.index] < 1 << ROW_BITS
    return counts[chunk.index] if counts is not None and known else 0


class Pairs(Protocol):
    """Takes the ends of edges, to find duplicates; usable from several threads."""

    def add(self, type_id: int, places: Ids, src: Ids, dst: Ids) -> None:
        """Add edges of one type: (n,) int64 ascending positions, and type-wise IDs of both ends."""


@dataclass(frozen=True)
class EdgeScan:
    """Scans edge files; usable from several threads, a file for each."""

    source: Store  # the graph's root
    metadata: GraphMetadata
    reader: EdgeReader  # reads its edges
    defects: Defects  # takes the findings
    pairs: Pairs  # takes the ends of every edge, with its position
    connectivity: Connectivity  # takes the ends of every edge
    # takes, by name of the check and edge type ID, positions of edges that can be excluded or dropped, in any
    # order
    found: dict[str, dict[int, list[Ids]]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def scan(self, chunk: EdgeChunk, advance: Advance) -> EdgeFile:
        """Scan one file.

        Args:
            chunk: Which one.
            advance: Called with the number of rows read.

        Returns:
            The number of its rows, or why they cannot be counted.
        """
        row = 0
        try:
            for batch in self.reader.batches(chunk, rows=SCANNED_ROWS):
                rows, (src, dst) = np.arange(row, row + batch.num_rows), batch.columns
                missing = None
                if src.null_count or dst.null_count:
                    missing = np.asarray(src.is_null()), np.asarray(dst.is_null())
                self._scan_rows(chunk, rows, _numbers(src), _numbers(dst), missing)
                row += batch.num_rows
                advance(batch.num_rows)
        except InvalidInputError as error:
            return self._scan_text(chunk, row, error)
        return EdgeFile(chunk, row)

    def _scan_rows(
        self,
        chunk: EdgeChunk,
        rows: Ids,
        src: Numbers,
        dst: Numbers,
        missing: tuple[Mask, Mask] | None = None,
    ) -> None:
        """Call the checks of rows, take out what is no edge, and call the checks of edges with the rest."""
        edge_type = self.metadata.edge_types[chunk.edge_type_id]
        src_type, dst_type = map(self.metadata.node_type_id, (edge_type.src, edge_type.dst))
        num_src, num_dst = self.metadata.num_nodes[src_type], self.metadata.num_nodes[dst_type]
        block = EdgeRows(edge_type, chunk, rows, src, dst, num_src, num_dst, missing)
        wrong = [
            mask for check in CHECKS.values() if (mask := self._ask(check, check.ids, block)) is not None
        ]
        if wrong:
            block = block.without(np.logical_or.reduce(wrong))
        ends = block.src.astype(np.int64, copy=False), block.dst.astype(np.int64, copy=False)
        block = EdgeRows(edge_type, chunk, block.rows, *ends, num_src, num_dst)
        positions = block.rows + (chunk.index << ROW_BITS)
        for check in CHECKS.values():
            found = self._ask(check, check.edges, block)
            if found is not None and check.affects_edges:
                with self._lock:
                    by_type = self.found.setdefault(check.name, {})
                    by_type.setdefault(chunk.edge_type_id, []).append(positions[found])
        self.pairs.add(chunk.edge_type_id, positions, *ends)
        offsets = self.metadata.node_offsets
        self.connectivity.add(*ends, offsets[src_type], offsets[dst_type])

    def _ask(self, check: Check, function: RowsFunction | None, block: EdgeRows) -> Mask | None:
        """Report the findings of a check among some rows; return their mask, or None if there is none."""
        found: Mask | None = function(block) if function is not None and len(block.rows) else None
        if found is not None and (found.dtype != bool or found.shape != block.rows.shape):
            raise TypeError(f"check {check.name!r} must return a bool for each row")
        if found is None or not found.any():
            return None
        places = np.flatnonzero(found)
        examples = [_edge_example(block, place) for place in places[:EXAMPLES].tolist()]
        self.defects.add(check.name, str(block.edge_type), len(places), examples)
        return found

    def _scan_text(self, chunk: EdgeChunk, done: int, error: InvalidInputError) -> EdgeFile:
        """Find every wrong row of a file that the fast reader gave up on, and scan the edges not yet done."""
        data = self.metadata.edges[chunk.edge_type_id]
        file_format = data.format
        if file_format.name != "csv":
            return EdgeFile(chunk, None, str(error))
        text = _TextRows(self.source, chunk, file_format)
        for rows, src, dst in text.edges():
            fresh = rows >= done
            src, dst = (dst, src) if data.is_reversed(chunk.index) else (src, dst)
            self._scan_rows(chunk, rows[fresh], src[fresh], dst[fresh])
        for check, (count, examples) in text.found.items():
            self.defects.add(check, str(self.metadata.edge_types[chunk.edge_type_id]), count, examples)
        counted = text.found and text.complete
        return EdgeFile(chunk, text.rows) if counted else EdgeFile(chunk, None, str(error))


def _numbers(column: pa.Array) -> Numbers:
    """Return the IDs as 64-bit integers with or without sign; a missing one is 0."""
    kind = pa.uint64() if column.type == pa.uint64() else pa.int64()
    filled = column.cast(kind)
    filled = filled.fill_null(0) if column.null_count else filled
    numbers: Numbers = column_numbers(filled)
    return numbers


def _edge_example(block: EdgeRows, place: int) -> dict[str, Any]:
    """Return an edge as the report shows it once its ID is known."""
    no_src, no_dst = (bool(mask[place]) for mask in block.missing) if block.missing else (False, False)
    src = None if no_src else int(block.src[place])
    dst = None if no_dst else int(block.dst[place])
    row, file = int(block.rows[place]), block.chunk.key
    sentence = f"in row {row} of {file}"
    for role, end, node_type, count in (
        ("source", src, block.edge_type.src, block.num_src),
        ("destination", dst, block.edge_type.dst, block.num_dst),
    ):
        ids = f"0 to {count - 1}" if count else "which has no nodes"
        sentence += f", {role} {'missing' if end is None else end} of {node_type!r} ({ids})"
    return example(sentence, file=file, chunk=block.chunk.index, row=row, src=src, dst=dst)


class _TextRows:
    """Separates the rows of a CSV file into edges and wrong rows, which pyarrow cannot.

    Attributes:
        rows: Number of rows, without blank lines; complete after `edges`.
        found: By check, the number of wrong rows and the first examples.
        complete: Whether the end of the file was reached.
    """

    def __init__(self, source: Store, chunk: EdgeChunk, file_format: FileFormat) -> None:
        self._source = source
        self._chunk = chunk
        self._format = file_format
        self._checks = [check for check in CHECKS.values() if check.text_row is not None]
        self.rows = 0
        self.complete = False
        self.found: dict[str, tuple[int, list[dict[str, Any]]]] = {}

    def edges(self) -> Iterator[tuple[Ids, Ids, Ids]]:
        """Yield row, source and destination of every row that is an edge, block by block.

        Rows count from 0. If the rest of the file cannot be read, the rows end there.
        """
        edges: list[tuple[int, int, int]] = []
        try:
            for line, fields in self._lines():
                if not self._is_wrong(line, fields):
                    edges.append((self.rows, int(fields[0]), int(fields[1])))
                self.rows += 1
                if len(edges) == TEXT_ROWS_AT_ONCE:
                    yield _arrays(edges)
                    edges = []
            self.complete = True
        except (InvalidInputError, csv.Error):  # the error of the fast reader is reported
            pass
        yield _arrays(edges)

    def _lines(self) -> Iterator[tuple[int, list[str]]]:
        """Yield number, from 1, and fields of every line that is neither blank nor a header."""
        path = self._source.local_copy(self._chunk.key)
        _, header = csv_layout(path, self._format, self._source.uri_of(self._chunk.key))
        # Python's csv module refuses NUL characters; no number has one
        texts = (text.replace("\0", "\ufffd") for text in text_lines(path, "utf-8-sig"))
        lines = csv.reader(texts, delimiter=self._format.delimiter)
        for index, fields in enumerate(filter(None, lines)):
            if index >= int(header):
                yield lines.line_num, fields

    def _is_wrong(self, line: int, fields: list[str]) -> bool:
        """Return whether a check finds something in a row, and note it."""
        wrong = [
            check.name for check in self._checks if check.text_row is not None and check.text_row(fields)
        ]
        for check in wrong:
            count, examples = self.found.get(check, (0, []))
            if len(examples) < EXAMPLES:
                text = self._format.delimiter.join(fields)[:LONGEST_TEXT]
                key, index, row = self._chunk.key, self._chunk.index, self.rows
                sentence = f"{text!r} in row {row} (line {line}) of {key}{self._other_delimiter(fields)}"
                examples.append(example(sentence, file=key, chunk=index, row=row, line=line))
            self.found[check] = count + 1, examples
        return bool(wrong)

    def _other_delimiter(self, fields: list[str]) -> str:
        """Return, as a clause, which delimiter separates two integers in a row of one field, if one does."""
        for other in DELIMITERS if len(fields) == 1 else "":
            ends = fields[0].split(other)
            if len(ends) == 2 and all(end.strip().isdecimal() for end in ends):
                said = self._format.delimiter
                return f", where {other!r} separates two integers, and metadata.json says {said!r}"
        return ""


def _arrays(rows: list[tuple[int, int, int]]) -> tuple[Ids, Ids, Ids]:
    table = np.array(rows, np.int64).reshape(-1, 3)
    return table[:, 0], table[:, 1].copy(), table[:, 2].copy()
