"""Checks of the graph of one partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partition_ops.verification.output import Array, PartitionGraph
from partition_ops.verification.report import Findings
from partition_ops.verification.truth import Truth

NODE_FIELDS = {"_ID": "int64", "part_id": "int64", "inner_node": "uint8", "orig_id": "int64"}
EDGE_FIELDS = {"_ID": "int64", "inner_edge": "uint8", "orig_id": "int64"}
TYPE_FIELD = {"_TYPE": "int32"}  # only if there are several types, as in DGL
STRUCTURE_CHECKS = ("inner-nodes", "halo-nodes", "node-owners", "edge-ids", "edge-ends")


class Seen:
    """Counts the partitions that contain each node or edge of the input.

    Args:
        counts: Nodes or edges, by type ID.
    """

    def __init__(self, names: list[str], counts: tuple[int, ...]) -> None:
        self._names = names
        self._seen = [np.zeros(count, np.bool_) for count in counts]

    def add(self, findings: Findings, check: str, part: int, type_id: int, orig: Array) -> None:
        """Add the type-wise IDs of one type in one partition."""
        seen, where = self._seen[type_id], f"part {part}, {self._names[type_id]!r}"
        outside = orig[(orig < 0) | (orig >= len(seen))]
        if len(outside):
            findings.fail(check, f"{where}: original ID {outside[0]}, of {len(seen)}")
            return
        unique, times = np.unique(orig, return_counts=True)
        again = unique[(times > 1) | seen[unique]]
        if len(again):
            findings.fail(check, f"{where}: original ID {again[0]} is there again ({len(again)} such)")
        seen[unique] = True

    def check_all(self, findings: Findings, check: str, but: Mapping[int, Array] | None = None) -> None:
        """Check after the last partition that nothing is missing ``but`` some IDs of some type IDs."""
        for type_id, (name, seen) in enumerate(zip(self._names, self._seen, strict=True)):
            if but and type_id in but:
                seen[but[type_id]] = True
            missing = np.flatnonzero(~seen)
            if len(missing):
                findings.fail(check, f"{name!r}: original ID {missing[0]} is nowhere ({len(missing)} such)")


def check_fields(
    findings: Findings, part: int, graph: PartitionGraph, truth: Truth, formats: tuple[str, ...]
) -> None:
    with findings.check("fields"):
        types = {} if truth.metadata.is_homogeneous else TYPE_FIELD
        for kind, found, expected in (
            ("node", graph.ndata, NODE_FIELDS | types),
            ("edge", graph.edata, EDGE_FIELDS | types),
        ):
            dtypes = {name: str(values.dtype) for name, values in found.items()}
            findings.same("fields", f"part {part}: {kind} fields", _sorted(dtypes), _sorted(expected))
        findings.same("fields", f"part {part}: formats", graph.formats, formats)
        findings.same("fields", f"part {part}: the dtype of IDs", str(graph.src.dtype), "int64")


def check_nodes(findings: Findings, part: int, graph: PartitionGraph, truth: Truth, seen: Seen) -> None:
    """Check inner nodes, halo nodes and their owners. Peak memory: some arrays of the partition's nodes."""
    start, end = truth.nodes.part(part)
    inner, halo = np.arange(start, end), truth.halo(part)
    with findings.check("inner-nodes"):
        flags = graph.ndata["inner_node"]
        findings.equal(
            "inner-nodes",
            f"part {part}: inner_node",
            flags,
            (np.arange(len(flags)) < len(inner)).astype(np.uint8),
        )
        _check_identity(findings, "inner-nodes", part, graph, slice(0, len(inner)), inner, truth)
    with findings.check("halo-nodes"):
        _check_halo_set(findings, part, graph.ndata["_ID"][len(inner) :], halo)
        _check_identity(findings, "halo-nodes", part, graph, slice(len(inner), None), halo, truth)
    with findings.check("node-owners"):
        owners = truth.describe_nodes(np.concatenate([inner, halo]))[0]
        findings.equal(
            "node-owners", f"part {part}: part_id", graph.ndata["part_id"], owners, at="local node"
        )
    with findings.check("every-node-once"):
        for type_id in range(len(truth.parts)):
            mine = (graph.ndata["inner_node"] == 1) & _of_type(graph.ndata, type_id, truth)
            seen.add(findings, "every-node-once", part, type_id, graph.ndata["orig_id"][mine])


def _check_halo_set(findings: Findings, part: int, found: Array, expected: Array) -> None:
    for what, ids in (
        ("is missing", np.setdiff1d(expected, found)),
        ("is no source of an in-edge", np.setdiff1d(found, expected)),
    ):
        if len(ids):
            findings.fail("halo-nodes", f"part {part}: node {ids[0]} {what} ({len(ids)} such)")


def _check_identity(
    findings: Findings, check: str, part: int, graph: PartitionGraph, which: slice, new: Array, truth: Truth
) -> None:
    _, type_ids, orig = truth.describe_nodes(new)
    where = f"part {part}, nodes from {which.start} on"
    findings.equal(check, f"{where}: _ID", graph.ndata["_ID"][which], new)
    findings.equal(check, f"{where}: orig_id", graph.ndata["orig_id"][which], orig)
    if not truth.metadata.is_homogeneous:
        findings.equal(check, f"{where}: _TYPE", graph.ndata["_TYPE"][which], type_ids)


def check_edges(findings: Findings, part: int, graph: PartitionGraph, truth: Truth, seen: Seen) -> None:
    """Check IDs, types and ends of the edges. Peak memory: some arrays of the partition's edges."""
    own, foreign = truth.own_edges(part), truth.foreign_edges(part)
    with findings.check("edge-ids"):
        _check_edge_ids(findings, f"part {part}", graph, own, foreign, truth)
    for type_id in range(len(truth.edges)):
        with findings.check("edge-ends"):
            _check_ends(findings, part, graph, type_id, truth)
        with findings.check("every-edge-once"):
            mine = _of_type(graph.edata, type_id, truth) & (graph.edata["inner_edge"] == 1)
            seen.add(findings, "every-edge-once", part, type_id, graph.edata["orig_id"][mine])


def _check_edge_ids(
    findings: Findings, where: str, graph: PartitionGraph, own: Array, foreign: Array, truth: Truth
) -> None:
    """Check that own edges come first, in the order of their IDs, then other edges in any order."""
    found = graph.edata["_ID"]
    findings.equal("edge-ids", f"{where}: _ID", found[: len(own)], own, at="edge")
    findings.equal("edge-ids", f"{where}: _ID of other edges", np.sort(found[len(own) :]), foreign, at="edge")
    expected = np.concatenate([own, foreign])
    expected[len(own) :] = found[len(own) :] if len(found) == len(expected) else foreign
    known = expected.clip(0, max(truth.edge_ranges.total - 1, 0))
    type_ids, orig = truth.describe_edges(known)
    findings.equal("edge-ids", f"{where}: orig_id", graph.edata["orig_id"], orig, at="edge")
    inner = (np.arange(len(expected)) < len(own)).astype(np.uint8)
    findings.equal("edge-ids", f"{where}: inner_edge", graph.edata["inner_edge"], inner, at="edge")
    if not truth.metadata.is_homogeneous:
        findings.equal("edge-ids", f"{where}: _TYPE", graph.edata["_TYPE"], type_ids, at="edge")


def check_absent(findings: Findings, part: int, graph: PartitionGraph, truth: Truth) -> None:
    """Check that the partition has no dropped edge."""
    with findings.check("dropped-edges"):
        for type_id, dropped in truth.dropped.items():
            orig = graph.edata["orig_id"][_of_type(graph.edata, type_id, truth)]
            here = orig[np.isin(orig, dropped)]
            if len(here):
                where = f"part {part}, {str(truth.metadata.edge_types[type_id])!r}"
                findings.fail(
                    "dropped-edges",
                    f"{where}: original ID {here[0]} was to be dropped, and is there ({len(here)} such)",
                )


def _check_ends(findings: Findings, part: int, graph: PartitionGraph, type_id: int, truth: Truth) -> None:
    """Compare by the original ID of the edge itself, independent of its position."""
    mine = _of_type(graph.edata, type_id, truth)
    orig = graph.edata["orig_id"][mine]
    known = (orig >= 0) & (orig < len(truth.edges[type_id][0]))
    found = [graph.ndata["_ID"][ends[mine][known]] for ends in (graph.src, graph.dst)]
    where = f"part {part}, {str(truth.metadata.edge_types[type_id])!r}"
    for role, new, expected in zip(
        ("source", "destination"), found, truth.new_ends(type_id, orig[known]), strict=True
    ):
        findings.equal("edge-ends", f"{where}: new ID of the {role}", new, expected, at="edge")


def _of_type(fields: Mapping[str, Array], type_id: int, truth: Truth) -> Any:
    """Return a mask of the nodes or edges of one type."""
    if truth.metadata.is_homogeneous:
        return np.ones(len(fields["_ID"]), np.bool_)
    return fields["_TYPE"] == type_id


def _sorted(fields: Mapping[str, str]) -> list[tuple[str, str]]:
    return sorted(fields.items())
