"""Checks of the edges that validation dropped from the output."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import EdgeType, GraphMetadata
from partition_ops.storage import Store
from partition_ops.verification.input import Ids
from partition_ops.verification.report import Findings

CHECK = "dropped-edges"
REASONS = ("duplicate_edges", "self_loop_edges")
COLUMNS = {"orig_id": pa.int64(), "check": pa.string()}
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Dropped:
    """The edges of one type that must not be in the output.

    Attributes:
        ids: (n,) int64, ascending type-wise IDs of the input.
        reasons: (n,) int32, the check that each was dropped for, as an index in `REASONS`.
    """

    ids: Ids
    reasons: npt.NDArray[np.int32]


def read_actions(findings: Findings, store: Store) -> dict[str, str]:
    """Return the actions for duplicates and self-loops; empty if they are not recorded."""
    with findings.check(CHECK):
        actions = store.read_json(layout.VALIDATION_REPORT)["actions"]
        if store.exists(layout.MANIFEST):
            given = store.read_json(layout.MANIFEST)["options"]["validate"]["on_defect"]
            findings.same(CHECK, "the choice of actions in the manifest", given, actions)
        return {check: actions[check] for check in REASONS}
    return {}


def find_dropped(
    metadata: GraphMetadata, edges: list[tuple[Ids, Ids]], actions: Mapping[str, str]
) -> dict[int, Dropped]:
    """Find the edges to drop in the input, by edge type ID; only types with such edges.

    Args:
        metadata: The graph's metadata.
        edges: By edge type, (edges,) type-wise sources and destinations.
        actions: As from `read_actions`.

    Peak memory: 40 bytes an edge of the largest type.
    """
    found = {}
    for type_id, ends in enumerate(edges):
        loops = duplicates = np.zeros(len(ends[0]), np.bool_)
        if actions.get("self_loop_edges") == "drop":
            loops = self_loops(metadata.edge_types[type_id], *ends)
        if actions.get("duplicate_edges") == "drop":
            duplicates = repeated(*ends)
        ids = np.flatnonzero(loops | duplicates)
        if len(ids):
            found[type_id] = Dropped(ids, loops[ids].astype(np.int32))
    return found


def self_loops(edge_type: EdgeType, src: Ids, dst: Ids) -> Mask:
    """Return (edges,) bool, whether an edge is a self-loop."""
    return src == dst if edge_type.src == edge_type.dst else np.zeros(len(src), np.bool_)


def repeated(src: Ids, dst: Ids) -> Mask:
    """Return (edges,) bool, whether an edge has the same ends as an earlier one."""
    order = np.lexsort((dst, src))  # stable: edges with the same ends stay in the order of their IDs
    again: Mask = np.ones(max(len(src) - 1, 0), np.bool_)
    for ends in (src, dst):
        ordered = ends[order]
        again &= ordered[1:] == ordered[:-1]
    found = np.zeros(len(src), np.bool_)
    found[order[1:]] = again
    return found


def check_dropped(
    findings: Findings, store: Store, metadata: GraphMetadata, dropped: Mapping[int, Dropped]
) -> None:
    """Check that ``idmap/dropped/`` lists the dropped edges. Peak memory: three times one list."""
    with findings.check(CHECK):
        keys = {t: layout.dropped_edge_map(str(metadata.edge_types[t])) for t in dropped}
        found = sorted(entry.key for entry in store.list(f"{layout.IDMAP}/{layout.DROPPED}/"))
        findings.same(CHECK, "the list of files of dropped edges", found, sorted(keys.values()))
        for type_id, key in keys.items():
            if key in found:
                _check_list(findings, store, key, dropped[type_id])


def _check_list(findings: Findings, store: Store, key: str, expected: Dropped) -> None:
    table = pa_parquet.ParquetFile(store.local_copy(key)).read()
    columns = {field.name: field.type for field in table.schema}
    if not findings.same(CHECK, f"{key}: the list of columns", columns, COLUMNS):
        return
    ids = table["orig_id"].to_numpy()
    for what, wrong in (
        ("is listed, but is none of those to drop", np.setdiff1d(ids, expected.ids)),
        ("was to be dropped, but is not listed", np.setdiff1d(expected.ids, ids)),
    ):
        if len(wrong):
            findings.fail(CHECK, f"{key}: original ID {wrong[0]} {what} ({len(wrong)} such)")
    if findings.equal(CHECK, f"{key}: orig_id", ids, expected.ids):
        reasons = pc.index_in(table["check"], value_set=pa.array(REASONS)).fill_null(-1).to_numpy()
        findings.equal(CHECK, f"{key}: check, as its place in {REASONS}", reasons, expected.reasons)
