"""Checks of the nodes and edges of a partition, in the columns that an output format loads."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from partition_ops.errors import InvalidInputError
from partition_ops.formats.findings import Findings
from partition_ops.verification.artifact_readers import Array
from partition_ops.verification.expected_graph import ExpectedGraph
from partition_ops.verification.input_graph import Ids

GRAPH_CHECKS = ("inner-nodes", "halo-nodes", "node-owners", "edge-ids", "edge-ends")
COLUMNS = {
    "nodes/new_id": "int64",
    "nodes/orig_id": "int64",
    "nodes/part_id": "int64",
    "edges/src": "int64",
    "edges/dst": "int64",
    "edges/new_id": "int64",
    "edges/orig_id": "int64",
}
OPTIONAL_COLUMNS = {
    "nodes/type_id": "int32",
    "edges/type_id": "int32",
    "nodes/inner": "uint8",
    "edges/inner": "uint8",
}


class Seen:
    """Records which nodes or edges of the input are in a partition, each once.

    Args:
        names: Names of the types.
        counts: Numbers of nodes or edges by type ID.
    """

    def __init__(self, names: list[str], counts: tuple[int, ...]) -> None:
        self._names = names
        self._seen = [np.zeros(count, np.bool_) for count in counts]

    def add(self, findings: Findings, check: str, where: str, type_id: int, orig: Array) -> None:
        """Add the type-wise IDs of one type in one partition."""
        seen, what = self._seen[type_id], f"{where}, {self._names[type_id]!r}"
        outside = orig[(orig < 0) | (orig >= len(seen))]
        if len(outside):
            findings.fail(check, f"{what}: original ID {outside[0]}, of {len(seen)}")
            return
        unique, times = np.unique(orig, return_counts=True)
        again = unique[(times > 1) | seen[unique]]
        if len(again):
            findings.fail(check, f"{what}: original ID {again[0]} is there again ({len(again)} such)")
        seen[unique] = True

    def check_all(
        self, findings: Findings, check: str, where: str, absent: Mapping[int, Array] | None = None
    ) -> None:
        """Check, after all partitions, that no ID is missing.

        Args:
            findings: Takes the failures.
            check: Name of the check.
            where: What was read, for messages.
            absent: By type ID, IDs that should be missing.
        """
        for type_id, (name, seen) in enumerate(zip(self._names, self._seen, strict=True)):
            if absent and type_id in absent:
                seen[absent[type_id]] = True
            missing = np.flatnonzero(~seen)
            if len(missing):
                what = f"{where}, {name!r}: original ID {missing[0]}"
                findings.fail(check, f"{what} is nowhere ({len(missing)} such)")


@dataclass(frozen=True)
class GraphChecks:
    """Checks of the graph of one partition in one format."""

    findings: Findings  # takes the failures
    where: str  # format and partition, for messages
    part: int  # number of the partition
    graph: ExpectedGraph  # the expected graph
    columns: Mapping[str, Array]  # columns of the groups nodes and edges

    def check_columns(self) -> None:
        """Check the names and dtypes of the columns."""
        with self.findings.check("fields"):
            optional = {name: OPTIONAL_COLUMNS[name] for name in OPTIONAL_COLUMNS if name in self.columns}
            expected = {**COLUMNS, **optional}
            dtypes = {name: str(values.dtype) for name, values in self.columns.items()}
            for name in sorted({*dtypes, *expected}):
                what = f"{self.where}: the dtype of {name}"
                self.findings.same("fields", what, dtypes.get(name), expected.get(name))

    def check_nodes(self, seen: Seen) -> None:
        """Check inner nodes, halo nodes and their owners. Peak memory: some arrays of the nodes."""
        findings, columns = self.findings, self.columns
        start, end = self.graph.nodes.part(self.part)
        inner, halo = np.arange(start, end), self.graph.halo(self.part)
        with findings.check("inner-nodes"):
            flags = self._flags("nodes", len(inner))
            expected = _ones_first(len(inner), len(flags))
            findings.equal("inner-nodes", f"{self.where}: inner nodes", flags, expected, at="local node")
            self._check_identity("inner-nodes", slice(0, len(inner)), inner)
        with findings.check("halo-nodes"):
            found = columns["nodes/new_id"][len(inner) :]
            for what, ids in (
                ("is missing", np.setdiff1d(halo, found)),
                ("is not within the hops, and no stored out-edge ends there", np.setdiff1d(found, halo)),
            ):
                if len(ids):
                    detail = f"{self.where}: node {ids[0]} {what} ({len(ids)} such)"
                    findings.fail("halo-nodes", detail)
            self._check_identity("halo-nodes", slice(len(inner), None), halo)
        with findings.check("node-owners"):
            owners = self.graph.describe_nodes(np.concatenate([inner, halo]))[0]
            what = f"{self.where}: part_id"
            findings.equal("node-owners", what, columns["nodes/part_id"], owners, at="local node")
        with findings.check("every-node-once"):
            types = self._types("nodes")
            for type_id in range(len(self.graph.parts)):
                mine = (self._flags("nodes", len(inner)) == 1) & (types == type_id)
                orig = columns["nodes/orig_id"][mine]
                seen.add(findings, "every-node-once", self.where, type_id, orig)

    def check_edges(self, seen: Seen) -> None:
        """Check IDs, types and ends of the edges. Peak memory: some arrays of the edges."""
        own, foreign = self.graph.own_edges(self.part), self.graph.foreign_edges(self.part)
        with self.findings.check("edge-ids"):
            self._check_edge_ids(own, foreign)
        for type_id in range(len(self.graph.edges)):
            with self.findings.check("edge-ends"):
                self._check_ends(type_id)
            with self.findings.check("every-edge-once"):
                mine = (self._types("edges") == type_id) & (self._flags("edges", len(own)) == 1)
                orig = self.columns["edges/orig_id"][mine]
                seen.add(self.findings, "every-edge-once", self.where, type_id, orig)

    def check_dropped(self) -> None:
        """Check that no edge that was to be dropped is there."""
        with self.findings.check("dropped-edges"):
            for type_id, dropped in self.graph.dropped.items():
                orig = self.columns["edges/orig_id"][self._types("edges") == type_id]
                here = orig[np.isin(orig, dropped)]
                if len(here):
                    self.findings.fail(
                        "dropped-edges",
                        f"{self.where}, {str(self.graph.metadata.edge_types[type_id])!r}: original ID"
                        f" {here[0]} was to be dropped, and is there ({len(here)} such)",
                    )

    def _flags(self, kind: str, count: int) -> Array:
        """Return 1 for nodes or edges that the partition owns; if that is not stored, the first ``count``."""
        stored = self.columns.get(f"{kind}/inner")
        return _ones_first(count, len(self.columns[f"{kind}/new_id"])) if stored is None else stored

    def _types(self, kind: str) -> Array:
        """Return type IDs of nodes or edges; if they are not stored, those of the new IDs."""
        if f"{kind}/type_id" in self.columns:
            return self.columns[f"{kind}/type_id"]
        ranges = self.graph.nodes if kind == "nodes" else self.graph.edge_ranges
        new: Ids = self.columns[f"{kind}/new_id"].clip(0, max(ranges.total - 1, 0))
        found = self.graph.describe_nodes(new)[1] if kind == "nodes" else self.graph.describe_edges(new)[0]
        return found

    def _check_identity(self, check: str, which: slice, new: Array) -> None:
        _, type_ids, orig = self.graph.describe_nodes(new)
        for name, expected in (("new_id", new), ("orig_id", orig), ("type_id", type_ids)):
            if name != "type_id" or "nodes/type_id" in self.columns:
                found = self.columns[f"nodes/{name}"][which]
                where = f"{self.where}, nodes from {which.start} on: {name}"
                self.findings.equal(check, where, found, expected)

    def _check_edge_ids(self, own: Array, foreign: Array) -> None:
        """The partition's own edges come first, in the order of their IDs, then other edges in any order."""
        findings, columns, count = self.findings, self.columns, len(own)
        found = columns["edges/new_id"]
        others = np.sort(found[count:])
        findings.equal("edge-ids", f"{self.where}: new_id", found[:count], own, at="edge")
        findings.equal("edge-ids", f"{self.where}: new_id of other edges", others, foreign, at="edge")
        expected = np.concatenate([own, foreign])
        expected[count:] = found[count:] if len(found) == len(expected) else foreign
        known = expected.clip(0, max(self.graph.edge_ranges.total - 1, 0))
        type_ids, orig = self.graph.describe_edges(known)
        values: list[tuple[str, Array, Array]] = [("orig_id", columns["edges/orig_id"], orig)]
        values.append(("own edges", self._flags("edges", count), _ones_first(count, len(expected))))
        if "edges/type_id" in columns:
            values.append(("type_id", columns["edges/type_id"], type_ids))
        for name, stored, right in values:
            findings.equal("edge-ids", f"{self.where}: {name}", stored, right, at="edge")

    def _check_ends(self, type_id: int) -> None:
        """Check by the original ID of the edge itself, so that the check does not depend on its position."""
        mine = self._types("edges") == type_id
        orig = self.columns["edges/orig_id"][mine]
        known = (orig >= 0) & (orig < len(self.graph.edges[type_id][0]))
        new_ids = self.columns["nodes/new_id"]
        found = [new_ids[self.columns[f"edges/{end}"][mine][known]] for end in ("src", "dst")]
        where = f"{self.where}, {str(self.graph.metadata.edge_types[type_id])!r}"
        ends: Any = self.graph.new_ends(type_id, orig[known])
        for role, new, expected in zip(("source", "destination"), found, ends, strict=True):
            self.findings.equal("edge-ends", f"{where}: new ID of the {role}", new, expected, at="edge")


def check_whole_edges(
    findings: Findings, where: str, graph: ExpectedGraph, columns: Mapping[str, Array]
) -> None:
    """Check that the edges of a format that has the whole graph are those of the input, by original ID.

    `Format.load_whole` returns the columns.
    """
    for type_id, edge_type in enumerate(graph.metadata.edge_types):
        what = f"{where}, {str(edge_type)!r}"
        ids = columns[f"edges/{edge_type}/id"]
        order = np.argsort(ids, kind="stable")
        left = np.flatnonzero(graph.left(type_id))
        if findings.equal("every-edge-once", f"{what}: original IDs", ids[order], left, at="edge"):
            for end, expected in zip(("src", "dst"), graph.edges[type_id], strict=True):
                found = columns[f"edges/{edge_type}/{end}"][order]
                findings.equal("edge-ends", f"{what}: {end}", found, expected[left], at="edge")


def complete_columns(
    graph: ExpectedGraph, part: int, columns: Mapping[str, Array], not_stored: Collection[str]
) -> Mapping[str, Array]:
    """Return columns of nodes and edges with those that a format does not store, in the order of edge IDs.

    Original IDs and owners follow from new IDs, by the ID maps, which have a check of their own. Without new
    IDs of the edges, the k-th edge of a destination is taken as that with its k-th smallest new ID; the check
    of the ends fails if it is another one.

    Peak memory: some arrays of the partition's edges.
    """
    missing, found = {*not_stored} - columns.keys(), dict(columns)
    new = found["nodes/new_id"]
    owners, _, orig = graph.describe_nodes(new.clip(0, max(graph.nodes.total - 1, 0)))
    derived = {"nodes/part_id": owners, "nodes/orig_id": orig}
    found |= {name: derived[name] for name in derived.keys() & missing}
    if "edges/orig_id" not in missing:
        return found
    if "edges/new_id" in missing:
        found["edges/new_id"] = _edge_ids_by_destination(graph, part, new[found["edges/dst"]])
    start, end = graph.edge_ranges.part(part)
    ids = found["edges/new_id"]
    order = np.lexsort((ids, (ids < start) | (ids >= end)))
    found |= {name: values[order] for name, values in found.items() if name.startswith("edges/")}
    known = found["edges/new_id"].clip(0, max(graph.edge_ranges.total - 1, 0))
    found["edges/orig_id"] = graph.describe_edges(known)[1]
    return found


def _edge_ids_by_destination(graph: ExpectedGraph, part: int, dst: Array) -> Array:
    """Return new edge IDs, ascending for each destination, for edges with given new destination IDs."""
    expected = np.concatenate([graph.own_edges(part), graph.foreign_edges(part)])
    if len(expected) != len(dst):
        raise InvalidInputError(f"there are {len(dst)} edges", expected=str(len(expected)))
    type_ids, orig = graph.describe_edges(expected)
    ends = np.empty(len(expected), np.int64)
    for type_id in range(len(graph.edges)):
        mine = type_ids == type_id
        ends[mine] = graph.new_ends(type_id, orig[mine])[1]
    ids = np.empty(len(dst), np.int64)
    ids[np.argsort(dst, kind="stable")] = expected[np.lexsort((expected, ends))]
    return ids


def _ones_first(ones: int, total: int) -> Array:
    return (np.arange(total) < ones).astype(np.uint8)
