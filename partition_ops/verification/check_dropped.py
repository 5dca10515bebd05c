"""Checks of the edges that are not in the output because the option ``on_defect`` drops them."""

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
from partition_ops.formats.findings import Findings
from partition_ops.storage import Store
from partition_ops.verification.artifact_readers import read_whole_manifest
from partition_ops.verification.input_graph import Ids

CHECK = "dropped-edges"
REASONS = ("duplicate_edges", "self_loop_edges")
COLUMNS = {"orig_id": pa.int64(), "check": pa.string()}
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Dropped:
    """The edges of one type that must not be in the output.

    Attributes:
        ids: (n,) int64, ascending type-wise IDs of the input.
        reasons: (n,) int32, the check that drops each edge, as an index of `REASONS`.
    """

    ids: Ids
    reasons: npt.NDArray[np.int32]


def read_actions(findings: Findings, store: Store) -> dict[str, str]:
    """Return the actions for duplicates and self-loops; none if they are not recorded."""
    with findings.check(CHECK):
        actions = store.read_json(layout.VALIDATION_REPORT)["actions"]
        if store.exists(layout.MANIFEST):
            in_manifest = read_whole_manifest(store)["options"]["validate"]["on_defect"]
            findings.same(CHECK, "the actions in the manifest", in_manifest, actions)
        return {check: actions[check] for check in REASONS}
    return {}


def find_dropped(
    metadata: GraphMetadata, edges: list[tuple[Ids, Ids]], actions: Mapping[str, str]
) -> dict[int, Dropped]:
    """Return the edges to drop by edge type ID, found in the input itself; only types that have some.

    Args:
        metadata: Metadata of the graph.
        edges: By edge type, (edges,) type-wise sources and destinations.
        actions: See `read_actions`.

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
    """Return whether each edge is a self-loop, (edges,) bool."""
    return src == dst if edge_type.src == edge_type.dst else np.zeros(len(src), np.bool_)


def repeated(src: Ids, dst: Ids) -> Mask:
    """Return whether each edge has the ends of an earlier one, (edges,) bool."""
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
        ("is listed, but is not an edge to drop", np.setdiff1d(ids, expected.ids)),
        ("was to be dropped, but is not listed", np.setdiff1d(expected.ids, ids)),
    ):
        if len(wrong):
            findings.fail(CHECK, f"{key}: original ID {wrong[0]} {what} ({len(wrong)} such)")
    if findings.equal(CHECK, f"{key}: orig_id", ids, expected.ids):
        reasons = pc.index_in(table["check"], value_set=pa.array(REASONS)).fill_null(-1).to_numpy()
        findings.equal(CHECK, f"{key}: check, as index of {REASONS}", reasons, expected.reasons)
