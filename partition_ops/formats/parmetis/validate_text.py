"""Check the three text files that ``pm_dglpart`` reads, against a schema or by themselves.

Format: DGL guide, chapter 7.1. Unlike a chunked graph, these files hold every ID: a node of a wrong type, or
in a wrong place, shifts the homogeneous ID of every later node.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.duplicate_search import Keys, find_overlaps
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.schema_metadata import Schema, node_types_of, types_by_range
from partition_ops.formats.parmetis.text_chunks import LARGEST_TYPE_ID
from partition_ops.formats.parmetis.text_files import (
    EDGE_COLUMNS,
    edges_file,
    node_columns,
    nodes_file,
    read_text_stats,
    running_ids,
)
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable
from partition_ops.storage import Store
from partition_ops.system.progress import Advance, NoProgress, Progress

Ids = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
LARGEST_EDGE_ID = 1 << 40


def validate_parmetis_text(
    source: Store, graph_name: str, schema: Schema | None = None, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Check ``<graph>_nodes.txt``, ``<graph>_edges.txt`` and ``<graph>_stats.txt``.

    Nodes are grouped by type, in the order of the type IDs; type-wise IDs run from 0 in each type without a
    gap. Edges join existing homogeneous IDs, all edges of a type join the same two node types, none is a
    self-loop, has the source and destination of another of whatever edge type, or the type-wise ID of another
    of its type. The counts are those of the stats file. With a schema, types and numbers are also those of
    the schema.

    Args:
        source: The folder.
        graph_name: Name of the graph in the names of the files.
        schema: Half-open homogeneous ID ranges by type; type IDs follow the order of the ranges.
        progress: Shows the rows read.

    Returns:
        Numbers of nodes, edges and node weights.

    Raises:
        InvalidInputError: About all findings, each with file, first wrong line and number of wrong rows. A
            row that has one finding is not checked further, and neither is a file after a malformed row.

    Peak memory: 32 bytes an edge, to look for duplicates, and 16 MiB of text.
    """
    return _TextChecks(source, graph_name, schema).check(progress or NoProgress())


@dataclass(frozen=True)
class _Finding:
    """Rows of one file with the same problem; the first of them is described."""

    where: str
    problem: str
    line: int | None
    found: str
    expected: str
    count: int = 1

    @property
    def title(self) -> str:
        """The problem with file and line; a problem of the whole file names the file itself."""
        return self.problem if self.line is None else f"{self.where}, line {self.line}: {self.problem}"

    def __str__(self) -> str:
        rows = f"; {self.count} such rows in all" if self.count > 1 else ""
        return f"{self.title}: {self.found}{rows}; expected {self.expected}"


class _TextChecks:
    """Checks of the files of one graph, which collect their findings."""

    def __init__(self, source: Store, graph_name: str, schema: Schema | None) -> None:
        self.source = source
        self.name = graph_name
        self.schema = schema
        self.offsets = node_types_of(schema["nid"]).offsets if schema else None
        self.edge_types = types_by_range(schema["eid"]) if schema else None
        self.findings: dict[tuple[str, str], _Finding] = {}

    def check(self, progress: Progress) -> dict[str, Any]:
        nodes, edges, weights = read_text_stats(self.source, self.name)
        with progress.step("Checking ParMETIS's text", nodes + edges, "rows") as advance:
            node_table = self._table(nodes_file(self.name), node_columns(weights))
            self._read(lambda: self._check_nodes(node_table, nodes, advance))
            edge_table = self._table(edges_file(self.name), EDGE_COLUMNS)
            self._read(lambda: self._check_edges(edge_table, nodes, edges, advance))
        self._raise_findings()
        return {"nodes": nodes, "edges": edges, "node_weights": weights}

    def _table(self, key: str, columns: tuple[str, ...]) -> TextTable:
        return TextTable(self.source.local_copy(key), self.source.uri_of(key), columns)

    def _read(self, check: Callable[[], None]) -> None:
        """Check one file; a malformed row is a finding, and ends the check of that file."""
        try:
            check()
        except InvalidInputError as error:
            found, expected = str(error.found or "nothing"), str(error.expected or "integers")
            self._add(_Finding(error.problem, error.problem, None, found, expected))

    def _add(self, finding: _Finding) -> None:
        known = self.findings.get((finding.where, finding.problem))
        count = finding.count + (known.count if known else 0)
        self.findings[finding.where, finding.problem] = replace(known or finding, count=count)

    def _require(
        self,
        table: TextTable,
        block: TextBlock,
        good: Mask,
        problem: str,
        expected: Callable[[int], str],
        *,
        checked: Mask | None = None,
    ) -> Mask:
        """Enter a finding if a row of a block is not good, and return which rows are.

        Rows outside ``checked`` have a finding already, and get no other one.
        """
        bad = np.flatnonzero(~good if checked is None else ~good & checked)
        if len(bad):
            row = int(bad[0])
            known = (table.where, problem) in self.findings
            line = 0 if known else table.line(block.start + row)  # finding a line reads the file
            found = ", ".join(f"<{name}> {int(values[row])}" for name, values in block.columns.items())
            self._add(_Finding(table.where, problem, line, found, expected(row), len(bad)))
        return good

    def _raise_findings(self) -> None:
        findings = [*self.findings.values()]
        if not findings:
            return
        if len(findings) == 1:
            first = findings[0]
            rows = f"; {first.count} such rows in all" if first.count > 1 else ""
            raise InvalidInputError(first.title, found=first.found + rows, expected=first.expected)
        raise InvalidInputError(
            f"{self.source.uri}: ParMETIS's text of {self.name!r} has {len(findings)} findings",
            found=[str(finding) for finding in findings],
        )

    def _check_nodes(self, table: TextTable, nodes: int, advance: Advance) -> None:
        rows, last, counts = 0, 0, np.zeros(0, np.int64)
        for block in table.blocks():
            types = block.columns["node_type"]
            ids = np.arange(block.start, block.start + len(types))
            if self.schema is None:
                good = self._are_grouped(table, block, last)
                last = max(last, int(types[good].max(initial=last)))
            else:
                good = self._are_of_schema(table, block, ids)
            counts = self._check_type_wise_ids(table, block, good, counts)
            rows += len(ids)
            advance(len(ids))
        self._check_count(table, rows, nodes, "nodes of the stats file")
        if self.offsets is None:
            self.offsets = np.concatenate([np.zeros(1, np.int64), np.cumsum(counts)])
        else:
            self._check_count(table, rows, int(self.offsets[-1]), "nodes of the schema")

    def _are_of_schema(self, table: TextTable, block: TextBlock, ids: Ids) -> Mask:
        offsets = self.offsets if self.offsets is not None else np.zeros(1, np.int64)
        inside = ids < offsets[-1]
        expected = np.searchsorted(offsets, ids, side="right") - 1
        good: Mask = inside & (block.columns["node_type"] == expected)
        problem = "the node type is not the one of the schema, or its nodes are not grouped"

        def right_type(bad: int) -> str:
            return f"node type {expected[bad]} for homogeneous ID {ids[bad]}" if inside[bad] else "no node"

        return self._require(table, block, good, problem, right_type)

    def _are_grouped(self, table: TextTable, block: TextBlock, last: int) -> Mask:
        types = block.columns["node_type"]
        known = (types >= 0) & (types <= LARGEST_TYPE_ID)
        greatest = np.maximum.accumulate(np.maximum(np.where(known, types, 0), last))
        good: Mask = known & (types >= greatest)
        problem = "the nodes of a type are not grouped, in the order of the type IDs"
        return self._require(
            table, block, good, problem, lambda bad: f"<node_type> {greatest[bad]} to {LARGEST_TYPE_ID}"
        )

    def _check_type_wise_ids(self, table: TextTable, block: TextBlock, good: Mask, counts: Ids) -> Ids:
        """Check the type-wise IDs of good rows; return the number of nodes of each type up to here."""
        types = block.columns["node_type"]
        expected = np.zeros(len(types), np.int64)
        expected[good], counts = running_ids(types[good], counts)
        self._require(
            table,
            block,
            block.columns["orig_type_node_id"] == expected,
            "the type-wise IDs of a type do not run from 0 without a gap",
            lambda bad: f"<orig_type_node_id> {expected[bad]}",
            checked=good,
        )
        return counts

    def _check_edges(self, table: TextTable, nodes: int, edges: int, advance: Advance) -> None:
        pairs: list[Keys] = []
        ids: list[Keys] = []
        ends: dict[int, tuple[int, int]] = {}
        rows = 0
        for block in table.blocks():
            src, dst = block.columns["src_id"], block.columns["dst_id"]
            good = np.ones(len(src), np.bool_)
            for name, column in (("src_id", src), ("dst_id", dst)):
                joined = (column >= 0) & (column < nodes)
                problem = f"<{name}> is not a node"
                good &= self._require(
                    table, block, joined, problem, lambda _: f"0 to {nodes - 1}", checked=good
                )
            problem = "a self-loop, which ParMETIS fails on"
            good &= self._require(table, block, src != dst, problem, lambda _: "two nodes", checked=good)
            pairs.append(_keys(src * nodes + dst, block, good))
            good &= self._check_types(table, block, good, ends)
            kind, wise = block.columns["edge_type"], block.columns["type_edge_id"]
            ids.append(_keys(kind * LARGEST_EDGE_ID + wise, block, good))
            rows += len(src)
            advance(len(src))
        self._check_count(table, rows, edges, "edges of the stats file")
        self._find_twice(
            table,
            pairs,
            lambda key: "{} {}".format(*divmod(key, nodes)),
            "an edge occurs twice, which ParMETIS fails on",
            "each pair of source and destination once, whatever the edge type",
        )
        self._find_twice(
            table,
            ids,
            lambda key: "<edge_type> {}, <type_edge_id> {}".format(*divmod(key, LARGEST_EDGE_ID)),
            "two edges of a type have the same ID",
            "each <type_edge_id> of an edge type once",
        )

    def _check_types(
        self, table: TextTable, block: TextBlock, good: Mask, ends: dict[int, tuple[int, int]]
    ) -> Mask:
        kind, wise = block.columns["edge_type"], block.columns["type_edge_id"]
        types = LARGEST_TYPE_ID + 1 if self.edge_types is None else len(self.edge_types)
        problem = "the edge type is " + (
            "not an edge type ID" if self.schema is None else "not in the schema"
        )
        known = (kind >= 0) & (kind < types)
        fine = good & self._require(table, block, known, problem, lambda _: f"0 to {types - 1}", checked=good)
        if self.schema is None:
            limits = np.full(len(kind), LARGEST_EDGE_ID)
        else:
            counts = [end - begin for begin, end in sorted(map(tuple, self.schema["eid"].values()))]
            limits = np.array(counts, np.int64)[np.where(fine, kind, 0)]
        inside = (wise >= 0) & (wise < limits)
        problem = "<type_edge_id> is outside the range of its type"
        fine &= self._require(
            table, block, inside, problem, lambda bad: f"0 to {limits[bad] - 1}", checked=fine
        )
        return fine & self._check_ends(table, block, fine, ends)

    def _check_ends(
        self, table: TextTable, block: TextBlock, good: Mask, ends: dict[int, tuple[int, int]]
    ) -> Mask:
        """Check that the edges of a type join the same two node types; enter those of new types."""
        fine = np.ones(len(good), np.bool_)
        if self.offsets is None or not good.any():
            return fine
        kinds = block.columns["edge_type"]
        joined = np.stack(
            [
                np.searchsorted(self.offsets, block.columns[name], side="right") - 1
                for name in ("src_id", "dst_id")
            ]
        )
        for kind in np.unique(kinds[good]).tolist():
            rows = np.flatnonzero(good & (kinds == kind))
            src, dst = ends.setdefault(kind, self._named_ends(kind) or tuple(joined[:, rows[0]].tolist()))
            fine[rows] = (joined[0, rows] == src) & (joined[1, rows] == dst)
        problem = "the edge joins other node types than its edge type"
        return self._require(
            table,
            block,
            fine,
            problem,
            lambda bad: "a source of node type {} and a destination of node type {}".format(
                *ends[int(kinds[bad])]
            ),
        )

    def _named_ends(self, kind: int) -> tuple[int, int] | None:
        """Return the node type IDs in a canonical edge type of the schema."""
        if self.schema is None or self.edge_types is None or self.edge_types[kind].count(":") != 2:
            return None
        names = types_by_range(self.schema["nid"])
        src, _, dst = self.edge_types[kind].split(":")
        return (names.index(src), names.index(dst)) if {src, dst} <= {*names} else None

    def _check_count(self, table: TextTable, found: int, expected: int, what: str) -> None:
        if found != expected:
            problem = f"{table.where} has another number of rows than there are {what}"
            self._add(_Finding(table.where, problem, None, str(found), str(expected)))

    def _find_twice(
        self, table: TextTable, keys: list[Keys], name: Callable[[int], str], problem: str, expected: str
    ) -> None:
        found = find_overlaps({0: keys}).duplicates.get(0)
        if found is None:
            return
        key, second = int(found.keys[0]), int(found.places[0])
        rows = (block.place(np.flatnonzero(block.values == key)) for block in keys)
        first = min(int(row) for of_block in rows for row in of_block)
        text = f"{name(key >> 1)}, also in line {table.line(first)}; {len(found.places)} such rows in all"
        self._add(_Finding(table.where, problem, table.line(second), text, expected))


def _keys(values: Ids, block: TextBlock, good: Mask) -> Keys:
    """Return the keys of the good rows of a block."""
    if good.all():
        return Keys(values * 2, block.start)
    return Keys(values[good] * 2, block.start + np.flatnonzero(good))
