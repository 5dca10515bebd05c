"""Checks of the ID maps, the lists of dropped edges, and what an incremental run adds: the carry-over maps.

All later checks use the order of the IDs in the ID maps.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pa_parquet

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import METADATA, NEGATIVES, PREVIOUS_IDS, GraphMetadata
from partition_ops.chunked.names import EdgeType
from partition_ops.formats.columns import in_group
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document
from partition_ops.verification.artifact_readers import (
    Array,
    load_array,
    read_assigned,
    read_id_map,
    read_parquet,
    read_whole_manifest,
)
from partition_ops.verification.expected_graph import ExpectedGraph, Ranges
from partition_ops.verification.input_graph import Ids

COLUMNS = {"orig_id": "int64", "new_id": "int64", "type_new_id": "int64", "part_id": "int32"}
DROPPED_COLUMNS = {"orig_id": pa.int64(), "check": pa.string()}
CARRY_OVER_COLUMNS = ["old_new_id", "old_type_new_id", "new_id", "type_new_id"]
CHECK = "dropped-edges"
REASONS = ("duplicate_edges", "self_loop_edges")
Figures = Mapping[str, Any]
Mask = npt.NDArray[np.bool_]


def check_id_maps(
    findings: Findings, output: Store, graph: ExpectedGraph, *, any_node_order: bool = False
) -> None:
    """Check every ID map; the order of a correct one replaces the order that ``graph`` assumes.

    ``any_node_order`` accepts any order of the nodes of a type in a partition: ParMETIS chooses it.

    Peak memory: four int64 columns of the largest type.
    """
    for type_id, node_type in enumerate(graph.metadata.node_types):
        with findings.check("node-id-maps"):
            columns, where = read_id_map(output, layout.node_id_map(node_type)), f"node type {node_type!r}"
            every = np.ones(graph.metadata.num_nodes[type_id], np.bool_)
            if _is_id_map(findings, "node-id-maps", where, columns, graph.nodes, type_id, every):
                if not any_node_order:
                    _check_order(findings, where, columns["orig_id"], graph.nodes, type_id)
                owners = graph.parts[type_id][columns["orig_id"]]
                if findings.equal("node-id-maps", f"{where}: part_id", columns["part_id"], owners):
                    graph.take_node_order(type_id, columns["orig_id"])
    for type_id, edge_type in enumerate(graph.metadata.edge_types):
        with findings.check("edge-id-maps"):
            columns = read_id_map(output, layout.edge_id_map(str(edge_type)))
            where, left = f"edge type {str(edge_type)!r}", graph.left(type_id)
            if _is_id_map(findings, "edge-id-maps", where, columns, graph.edge_ranges, type_id, left):
                _check_order(findings, where, columns["orig_id"], graph.edge_ranges, type_id)
                owners = graph.edge_parts(type_id)[columns["orig_id"]]
                if findings.equal("edge-id-maps", f"{where}: part_id", columns["part_id"], owners):
                    graph.orig_edges[type_id] = columns["orig_id"]


def check_negatives(findings: Findings, source: Store, output: Store, graph: ExpectedGraph) -> None:
    """Check that the negatives of edge types are those of the input, with the new IDs of their ends.

    Peak memory: 16 bytes a node of the largest types, and the negatives of a type.
    """
    with findings.check("negatives"):
        files = source.read_json(METADATA).get(NEGATIVES, {}) if graph.metadata.negatives else {}
        for edge_type in graph.metadata.edge_types:
            if str(edge_type) in files:
                _check_negatives(findings, source, output, graph, edge_type, files[str(edge_type)]["data"])


def _check_negatives(
    findings: Findings,
    source: Store,
    output: Store,
    graph: ExpectedGraph,
    edge_type: EdgeType,
    files: list[str],
) -> None:
    given = pa.concat_tables([pa_parquet.read_table(source.local_copy(key)) for key in files])
    found = read_id_map(output, layout.negative_map(str(edge_type)))
    wanted: dict[str, Array] = {}
    for end, node_type in (("src", edge_type.src), ("dst", edge_type.dst)):
        ids = wanted[f"{end}_orig_id"] = given[end].to_numpy()
        order = read_id_map(output, layout.node_id_map(node_type))["orig_id"]
        wanted[f"{end}_type_new_id"] = np.argsort(order)[ids]
    wanted["part_id"] = graph.parts[graph.metadata.node_type_id(edge_type.dst)][ids]
    masks = [name for name in given.column_names if name.endswith("_mask")]
    for name in ("train_mask", "val_mask", "test_mask"):
        without = np.full(len(given), not masks and name == "train_mask")
        wanted[name] = given[name].to_numpy() if name in masks else without
    findings.same("negatives", f"{edge_type}: the columns", sorted(found), sorted(wanted))
    for name, values in wanted.items():
        findings.equal("negatives", f"{edge_type}: {name}", found[name], values)


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
    if not good:
        return False
    orig, count = columns["orig_id"], len(wanted)
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


@dataclass(frozen=True)
class Dropped:
    """The edges of one type that must not be in the output."""

    ids: Ids  # (n,) int64, ascending type-wise IDs of the input
    reasons: npt.NDArray[np.int32]  # (n,) int32, the check that drops each edge, as an index of `REASONS`


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
    table = read_parquet(store, key)
    columns = {field.name: field.type for field in table.schema}
    if not findings.same(CHECK, f"{key}: the list of columns", columns, DROPPED_COLUMNS):
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


def check_growth(
    findings: Findings, source: Store, output: Store, form: Format, graph: ExpectedGraph
) -> None:
    """Check ``assignment/migration.json`` and the carry-over maps; a full run has neither.

    If the previous run still exists, the number of moved nodes and their old IDs are compared with it.

    Args:
        findings: Takes the failures.
        source: Root of the input, which may name nodes that were left out since the previous run.
        output: Root of the output.
        form: The format to read the features from.
        graph: The expected graph.

    Peak memory: eight int64 columns of the largest type.
    """
    migration: Figures | None = None
    with findings.check("migration"):
        if output.exists(layout.MIGRATION):
            migration = output.read_json(layout.MIGRATION)
            check_document(migration, "migration", where=layout.MIGRATION)
    with findings.check("carry-over"):
        maps = sorted(entry.key for entry in output.list(f"{layout.IDMAP}/carry_over/"))
        old = {name: one["old"] for name, one in migration["node_types"].items()} if migration else {}
        holds = any(old.values())
        wanted = [layout.carry_over_map(name) for name in old if holds]
        extra = [key for key in maps if key not in wanted]
        findings.same("carry-over", "the list of maps that should not be there", extra, [])
        missing = [name for name, count in old.items() if count and layout.carry_over_map(name) not in maps]
        findings.same("carry-over", "the list of types without a map", missing, [])
    if migration is None:
        return
    renumbered: Mapping[str, Any] = source.read_json(METADATA).get(PREVIOUS_IDS, {})
    with open_store(migration["previous"]["run"], output.settings) as store:
        earlier = store if store.exists(layout.MANIFEST) else None  # None: it has been removed
        for type_id, name in enumerate(graph.metadata.node_types):
            kept = None
            with findings.check("carry-over"):
                kept = _kept_ids(findings, source, output, name, renumbered)
            with findings.check("migration"):
                _check_type(findings, migration, name, graph.parts[type_id], graph.num_parts, earlier, kept)
            if old.get(name):
                with findings.check("carry-over"):
                    _check_map(findings, name, old[name], output, earlier, kept)
    with findings.check("migration"):
        _check_bytes(findings, migration, output, form, graph)


def _kept_ids(
    findings: Findings, source: Store, output: Store, name: str, renumbered: Mapping[str, Any]
) -> Ids | None:
    """Return the previous IDs of the first nodes of a type, if nodes were left out before them."""
    key = f"{layout.ASSIGNMENT}/{layout.assignment_still_there(name)}"
    if name not in renumbered:
        findings.same("carry-over", f"whether there is {key}", output.exists(key), False)
        return None
    spec = renumbered[name]
    tables = [pa_parquet.read_table(source.local_copy(file)) for file in spec["data"]]
    ids: Ids = np.concatenate([table[spec["column"]].to_numpy() for table in tables])
    mask = load_array(output, key)
    findings.same("carry-over", f"{key}: its length", len(mask), spec["num_previous"])
    findings.equal("carry-over", f"{key}: previous IDs", np.flatnonzero(mask), ids)
    return ids


def _check_type(
    findings: Findings,
    migration: Figures,
    name: str,
    parts: Ids,
    num_parts: int,
    earlier: Store | None,
    kept: Ids | None,
) -> None:
    """Check the numbers of nodes, and the imbalance, of one type."""
    found = migration["node_types"].get(name)
    if found is None:
        findings.fail("migration", f"node type {name!r} is not in migration.json")
        return
    findings.same("migration", f"nodes of {name!r}, old and new", found["old"] + found["new"], len(parts))
    sizes = np.bincount(parts, minlength=num_parts)
    imbalance = round(float(sizes.max()) * num_parts / len(parts), 6) if len(parts) else 1.0
    findings.same("migration", f"imbalance of {name!r}", migration["imbalance"]["now"].get(name), imbalance)
    if earlier is not None and found["old"]:
        before = read_assigned(earlier, name)
        before = before if kept is None else before[kept]
        findings.same("migration", f"old nodes of {name!r}", found["old"], len(before))
        moved = int(np.count_nonzero(before != parts[: len(before)]))
        findings.same("migration", f"old nodes of {name!r} that moved", found["moved"], moved)


def _check_bytes(
    findings: Findings, migration: Figures, output: Store, form: Format, graph: ExpectedGraph
) -> None:
    """Check that the bytes of features are those of the nodes that moved or are new."""
    keys = {feature.key for feature in graph.metadata.node_features}
    rows = dict.fromkeys(graph.metadata.node_types, 0)
    for key, values in in_group(form.load(output, 0, ["node_features"]), "node_features").items():
        if key in keys:
            rows[key.split("/")[0]] += int(np.prod(values.shape[1:])) * values.dtype.itemsize
    expected = {
        name: (one["moved"] + one["new"]) * rows.get(name, 0) for name, one in migration["node_types"].items()
    }
    found = {name: one["bytes_to_fetch"] for name, one in migration["node_types"].items()}
    findings.same("migration", "bytes to fetch by node type", found, expected)
    findings.same("migration", "bytes to fetch", migration["bytes_to_fetch"], sum(expected.values()))


def _check_map(
    findings: Findings, name: str, old: int, output: Store, earlier: Store | None, kept: Ids | None
) -> None:
    """Check that a map leads from every old node that is still there to the same node in this run."""
    where = f"carry-over map of {name!r}"
    columns = read_id_map(output, layout.carry_over_map(name))
    if not findings.same("carry-over", f"{where}: the list of columns", list(columns), CARRY_OVER_COLUMNS):
        return
    typed = np.arange(old, dtype=np.int64)
    before = None if earlier is None else _by_new_id(read_id_map(earlier, layout.node_id_map(name)))
    if before is not None and kept is not None:
        there = np.flatnonzero(np.isin(before["orig_id"], kept))
        before = {column: values[there] for column, values in before.items()}
        before["orig_id"] = np.searchsorted(kept, before["orig_id"])
    if kept is None or before is not None:
        wanted = typed if before is None else before["type_new_id"]
        if not findings.equal("carry-over", f"{where}: old_type_new_id", columns["old_type_new_id"], wanted):
            return
    now = _by_new_id(read_id_map(output, layout.node_id_map(name)))
    originals = now["orig_id"][columns["type_new_id"]]
    findings.equal("carry-over", f"{where}: new_id", columns["new_id"], now["new_id"][columns["type_new_id"]])
    findings.equal("carry-over", f"{where}: old nodes, sorted", np.sort(originals), typed)
    if before is not None:
        findings.equal("carry-over", f"{where}: old_new_id", columns["old_new_id"], before["new_id"])
        findings.equal("carry-over", f"{where}: the old node in each row", originals, before["orig_id"])


def _by_new_id(columns: Mapping[str, Array]) -> dict[str, Array]:
    order = np.argsort(columns["type_new_id"], kind="stable")
    return {name: values[order] for name, values in columns.items()}
