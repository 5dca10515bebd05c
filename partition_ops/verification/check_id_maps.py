"""Checks of the ID maps. All later checks use the order of the IDs in them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.formats.findings import Findings
from partition_ops.storage import Store
from partition_ops.verification.artifact_readers import Array, read_id_map
from partition_ops.verification.expected_graph import ExpectedGraph, Ranges
from partition_ops.verification.input_graph import Ids

COLUMNS = {"orig_id": "int64", "new_id": "int64", "type_new_id": "int64", "part_id": "int32"}


def check_id_maps(
    findings: Findings, output: Store, graph: ExpectedGraph, *, any_node_order: bool = False
) -> None:
    """Check every ID map; the order of a correct one replaces the order that ``graph`` assumes.

    ``any_node_order`` accepts any order of the nodes of a type in a partition: ParMETIS chooses it.

    Peak memory: four int64 columns of the largest type.
    """
    for type_id, node_type in enumerate(graph.metadata.node_types):
        with findings.check("node-id-maps"):
            columns = read_id_map(output, layout.node_id_map(node_type))
            where = f"node type {node_type!r}"
            every = np.ones(graph.metadata.num_nodes[type_id], np.bool_)
            if _is_id_map(findings, "node-id-maps", where, columns, graph.nodes, type_id, every):
                owners = graph.parts[type_id]
                ordered = not any_node_order
                if _agrees(findings, "node-id-maps", where, columns, owners, graph.nodes, type_id, ordered):
                    graph.take_node_order(type_id, columns["orig_id"])
    for type_id, edge_type in enumerate(graph.metadata.edge_types):
        with findings.check("edge-id-maps"):
            columns = read_id_map(output, layout.edge_id_map(str(edge_type)))
            where = f"edge type {str(edge_type)!r}"
            left = graph.left(type_id)
            if _is_id_map(findings, "edge-id-maps", where, columns, graph.edge_ranges, type_id, left):
                owners = graph.edge_parts(type_id)
                if _agrees(findings, "edge-id-maps", where, columns, owners, graph.edge_ranges, type_id):
                    graph.orig_edges[type_id] = columns["orig_id"]


def _agrees(
    findings: Findings,
    name: str,
    where: str,
    columns: Mapping[str, Array],
    owners: Ids,
    ranges: Ranges,
    type_id: int,
    ordered: bool = True,
) -> bool:
    """Return whether every original ID is in the partition that owns it; the order is a separate check."""
    orig = columns["orig_id"]
    if ordered:
        _check_order(findings, where, orig, ranges, type_id)
    return findings.equal(name, f"{where}: part_id", columns["part_id"], owners[orig])


def _is_id_map(
    findings: Findings,
    name: str,
    where: str,
    columns: Mapping[str, Array],
    ranges: Ranges,
    type_id: int,
    wanted: Array,
) -> bool:
    """Return whether the columns are a bijection onto the ``wanted`` IDs that agrees with the ranges."""
    if not findings.same(name, f"{where}: the list of columns", list(columns), list(COLUMNS)):
        return False
    dtypes = {column: str(values.dtype) for column, values in columns.items()}
    findings.same(name, f"{where}: the dtypes", dtypes, COLUMNS)
    expected = ranges.new_ids(type_id)
    good = findings.equal(name, f"{where}: new_id", columns["new_id"], expected)
    good &= findings.equal(
        name, f"{where}: type_new_id", columns["type_new_id"], np.arange(len(expected), dtype=np.int64)
    )
    good &= findings.equal(name, f"{where}: part_id", columns["part_id"], ranges.parts_of(type_id))
    return good and _is_bijection(findings, name, where, columns["orig_id"], wanted)


def _is_bijection(findings: Findings, name: str, where: str, orig: Ids, wanted: Array) -> bool:
    count = len(wanted)
    outside = np.flatnonzero((orig < 0) | (orig >= count))
    if len(outside):
        findings.fail(name, f"{where}: orig_id {orig[outside[0]]} in row {outside[0]}, of {count}")
        return False
    times = np.bincount(orig, minlength=count)
    return findings.equal(
        name, f"{where}: number of times that an orig_id occurs", times, wanted.astype(np.int64), at="orig_id"
    )


def _check_order(findings: Findings, where: str, orig: Ids, ranges: Ranges, type_id: int) -> None:
    """Check that original IDs ascend inside each partition."""
    with findings.check("order"):
        falls = np.flatnonzero(np.diff(orig) < 0) + 1
        inside = np.setdiff1d(falls, ranges.typed_starts[:, type_id])
        if len(inside):
            row = int(inside[0])
            findings.fail("order", f"{where}: orig_id {orig[row]} follows {orig[row - 1]} in row {row}")
