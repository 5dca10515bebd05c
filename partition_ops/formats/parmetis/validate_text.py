"""Check the three text files that ``pm_dglpart`` reads, against a schema.

Format: DGL guide, chapter 7.1. Unlike a chunked graph, these files hold every ID: a node of a wrong type, or
in a wrong place, shifts the homogeneous ID of every later node.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.duplicate_search import Keys, find_overlaps
from partition_ops.errors import InvalidInputError
from partition_ops.formats.parmetis.text_files import (
    EDGE_COLUMNS,
    edges_file,
    node_columns,
    nodes_file,
    stats_file,
)
from partition_ops.formats.parmetis.text_table import TextBlock, TextTable
from partition_ops.storage import Store
from partition_ops.system.progress import NoProgress, Progress

Ids = npt.NDArray[np.int64]
Schema = dict[str, dict[str, list[int]]]


def validate_parmetis_text(
    source: Store, graph_name: str, schema: Schema, *, progress: Progress | None = None
) -> dict[str, Any]:
    """Check ``<graph>_nodes.txt``, ``<graph>_edges.txt`` and ``<graph>_stats.txt``.

    Node types are those of the schema, grouped, in the order of their ranges; type-wise IDs run from 0 in
    each type without a gap; edges join existing homogeneous IDs, their type and type-wise ID are in
    the schema, none is a self-loop or has the source and destination of another, of whatever edge type; the
    counts are those of the stats file.

    Args:
        source: The folder.
        graph_name: Name of the graph in the names of the files.
        schema: Half-open homogeneous ID ranges by type; type IDs follow the order of the ranges.
        progress: Shows the rows read.

    Returns:
        Numbers of nodes, edges and node weights.

    Raises:
        InvalidInputError: About the first wrong row; names file and line.

    Peak memory: 16 bytes an edge, to look for duplicates, and 16 MiB of text.
    """
    nodes, edges, weights = _read_stats(source, graph_name)
    with (progress or NoProgress()).step("Checking ParMETIS's text", nodes + edges, "rows") as advance:
        table = _table(source, nodes_file(graph_name), node_columns(weights))
        _check_nodes(table, _offsets(schema["nid"]), nodes, advance)
        table = _table(source, edges_file(graph_name), EDGE_COLUMNS)
        _check_edges(table, nodes, _offsets(schema["eid"]), edges, advance)
    return {"nodes": nodes, "edges": edges, "node_weights": weights}


def _table(source: Store, key: str, columns: tuple[str, ...]) -> TextTable:
    return TextTable(source.local_copy(key), source.uri_of(key), columns)


def _offsets(ranges: dict[str, list[int]]) -> Ids:
    """Return (types + 1,) int64: where the IDs of each type begin, and the number of all."""
    return np.array([0, *sorted(end for _, end in ranges.values())], np.int64)


def _read_stats(source: Store, graph_name: str) -> tuple[int, int, int]:
    key = stats_file(graph_name)
    fields = source.read_bytes(key).split()
    if len(fields) != 3 or not all(field.isdigit() for field in fields):
        raise InvalidInputError(
            f"{source.uri_of(key)}, line 1: not the counts of a graph",
            found=repr(b" ".join(fields)[:100].decode(errors="replace")),
            expected="<num_nodes> <num_edges> <num_node_weights>",
        )
    nodes, edges, weights = (int(field) for field in fields)
    return nodes, edges, weights


def _check_nodes(table: TextTable, offsets: Ids, nodes: int, advance: Any) -> None:
    rows = 0
    for block in table.blocks():
        ids = np.arange(block.start, block.start + len(block.columns["node_type"]))
        _check_node_types(table, block, ids, offsets)
        rows += len(ids)
        advance(len(ids))
    _check_count(table, rows, nodes, "nodes of the stats file")
    _check_count(table, rows, int(offsets[-1]), "nodes of the schema")


def _check_node_types(table: TextTable, block: TextBlock, ids: Ids, offsets: Ids) -> None:
    inside = ids < offsets[-1]
    expected = np.searchsorted(offsets, ids, side="right") - 1
    table.require(
        block,
        inside & (block.columns["node_type"] == expected),
        "the node type is not the one of the schema, or its nodes are not grouped",
        lambda bad: f"node type {expected[bad]} for homogeneous ID {ids[bad]}" if inside[bad] else "no node",
    )
    type_wise = ids - offsets[expected.clip(max=len(offsets) - 2)]
    table.require(
        block,
        block.columns["orig_type_node_id"] == type_wise,
        "the type-wise IDs of a type do not run from 0 without a gap",
        lambda bad: f"<orig_type_node_id> {type_wise[bad]}",
    )


def _check_edges(table: TextTable, nodes: int, offsets: Ids, edges: int, advance: Any) -> None:
    keys, rows = [], 0
    types = len(offsets) - 1
    for block in table.blocks():
        src, dst = block.columns["src_id"], block.columns["dst_id"]
        for name, ids in (("src_id", src), ("dst_id", dst)):
            good = (ids >= 0) & (ids < nodes)
            table.require(block, good, f"<{name}> is not a node", lambda bad: f"0 to {nodes - 1}")
        table.require(block, src != dst, "a self-loop, which ParMETIS fails on", lambda bad: "two nodes")
        kind = block.columns["edge_type"]
        good = (kind >= 0) & (kind < types)
        table.require(block, good, "the edge type is not in the schema", lambda bad: f"0 to {types - 1}")
        counts = np.diff(offsets)[kind]
        wise = block.columns["type_edge_id"]
        good = (wise >= 0) & (wise < counts)
        table.require(
            block,
            good,
            "<type_edge_id> is outside the range of its type",
            _upper_bound(counts),
        )
        keys.append(Keys((src * nodes + dst) * 2, block.start))
        rows += len(src)
        advance(len(src))
    _check_count(table, rows, edges, "edges of the stats file")
    _check_duplicates(table, keys, nodes)


def _upper_bound(counts: Ids) -> Callable[[int], str]:
    return lambda bad: f"0 to {counts[bad] - 1}"


def _check_count(table: TextTable, found: int, expected: int, what: str) -> None:
    if found != expected:
        raise InvalidInputError(
            f"{table.where} has another number of rows than there are {what}", found=found, expected=expected
        )


def _check_duplicates(table: TextTable, keys: list[Keys], nodes: int) -> None:
    found = find_overlaps({0: keys}).duplicates.get(0)
    if found is None:
        return
    key, second = int(found.keys[0]), int(found.places[0])
    rows = (block.place(np.flatnonzero(block.values == key)) for block in keys)
    first = min(int(row) for of_block in rows for row in of_block)
    src, dst = divmod(key >> 1, nodes)
    raise table.wrong(
        second,
        "an edge occurs twice, which ParMETIS fails on",
        found=f"{src} {dst}, also in line {table.line(first)}; {len(found.places)} such rows in all",
        expected="each pair of source and destination once, whatever the edge type",
    )
