"""Checks of incremental runs against the previous run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.storage import open_store
from partition_ops.system.json_documents import check_document
from partition_ops.verification.input import Ids
from partition_ops.verification.output import Array, Output
from partition_ops.verification.report import Findings
from partition_ops.verification.truth import Truth

MIGRATION = f"{layout.ASSIGNMENT}/{layout.MIGRATION}"
COLUMNS = ["old_new_id", "old_type_new_id", "new_id", "type_new_id"]
Figures = Mapping[str, Any]


def check_growth(findings: Findings, output: Output, truth: Truth, scratch: Path) -> None:
    """Check ``assignment/migration.json`` and the carry-over maps; a run without a previous run has neither.

    The numbers of moved nodes and their old IDs are compared with the previous run as long as it exists.

    Peak memory: eight int64 columns of the largest type.
    """
    migration: Figures | None = None
    with findings.check("migration"):
        if output.store.exists(MIGRATION):
            migration = output.store.read_json(MIGRATION)
            check_document(migration, "migration", where=MIGRATION)
    with findings.check("carry-over"):
        maps = sorted(entry.key for entry in output.store.list(f"{layout.IDMAP}/carry_over/"))
        old = {name: one["old"] for name, one in migration["node_types"].items()} if migration else {}
        holds = any(old.values())
        wanted = [layout.carry_over_map(name) for name in old if holds]
        extra = [key for key in maps if key not in wanted]
        findings.same("carry-over", "the list of maps that should not be there", extra, [])
        missing = [name for name, count in old.items() if count and layout.carry_over_map(name) not in maps]
        findings.same("carry-over", "the list of types without a map", missing, [])
    if migration is None:
        return
    with _earlier(output, migration, scratch) as earlier:
        for type_id, name in enumerate(truth.metadata.node_types):
            with findings.check("migration"):
                _check_type(findings, migration, name, truth.parts[type_id], truth.num_parts, earlier)
            if old.get(name):
                with findings.check("carry-over"):
                    _check_map(findings, name, old[name], output, earlier)
    with findings.check("migration"):
        _check_bytes(findings, migration, output, truth)


@contextmanager
def _earlier(output: Output, migration: Figures, scratch: Path) -> Iterator[Output | None]:
    """Return the previous run; None if it has been removed."""
    with open_store(migration["previous"]["run"], output.store.settings) as store:
        found = store.exists(layout.MANIFEST)
        yield Output(store, output.graph_name, scratch) if found else None


def _check_type(
    findings: Findings, migration: Figures, name: str, parts: Ids, num_parts: int, earlier: Output | None
) -> None:
    """Check the numbers of nodes and the imbalance of one type."""
    found = migration["node_types"].get(name)
    if found is None:
        findings.fail("migration", f"node type {name!r} is not in migration.json")
        return
    findings.same("migration", f"nodes of {name!r}, old and new", found["old"] + found["new"], len(parts))
    sizes = np.bincount(parts, minlength=num_parts)
    imbalance = round(float(sizes.max()) * num_parts / len(parts), 6) if len(parts) else 1.0
    findings.same("migration", f"imbalance of {name!r}", migration["imbalance"]["now"].get(name), imbalance)
    if earlier is not None and found["old"]:
        before = earlier.assigned(name)
        findings.same("migration", f"old nodes of {name!r}", found["old"], len(before))
        moved = int(np.count_nonzero(before != parts[: len(before)]))
        findings.same("migration", f"old nodes of {name!r} that moved", found["moved"], moved)


def _check_bytes(findings: Findings, migration: Figures, output: Output, truth: Truth) -> None:
    """Check that the bytes of features are those of moved and new nodes."""
    keys = {feature.key for feature in truth.metadata.node_features}
    rows = dict.fromkeys(truth.metadata.node_types, 0)
    for key, values in output.tensors(0, "node_feat.dgl").items():
        if key in keys:
            rows[key.split("/")[0]] += int(np.prod(values.shape[1:])) * values.dtype.itemsize
    expected = {
        name: (one["moved"] + one["new"]) * rows.get(name, 0) for name, one in migration["node_types"].items()
    }
    found = {name: one["bytes_to_fetch"] for name, one in migration["node_types"].items()}
    findings.same("migration", "bytes to fetch by node type", found, expected)
    findings.same("migration", "bytes to fetch", migration["bytes_to_fetch"], sum(expected.values()))


def _check_map(findings: Findings, name: str, old: int, output: Output, earlier: Output | None) -> None:
    """Check that a map leads from every old node to the same node now."""
    where = f"carry-over map of {name!r}"
    columns = output.id_map(layout.carry_over_map(name))
    if not findings.same("carry-over", f"{where}: the list of columns", list(columns), COLUMNS):
        return
    typed = np.arange(old, dtype=np.int64)
    if not findings.equal("carry-over", f"{where}: old_type_new_id", columns["old_type_new_id"], typed):
        return
    now = _by_new_id(output.id_map(layout.node_id_map(name)))
    originals = now["orig_id"][columns["type_new_id"]]
    findings.equal("carry-over", f"{where}: new_id", columns["new_id"], now["new_id"][columns["type_new_id"]])
    findings.equal("carry-over", f"{where}: old nodes, sorted", np.sort(originals), typed)
    if earlier is not None:
        before = _by_new_id(earlier.id_map(layout.node_id_map(name)))
        findings.equal("carry-over", f"{where}: old_new_id", columns["old_new_id"], before["new_id"])
        findings.equal("carry-over", f"{where}: the old node in each row", originals, before["orig_id"])


def _by_new_id(columns: Mapping[str, Array]) -> dict[str, Array]:
    order = np.argsort(columns["type_new_id"], kind="stable")
    return {name: values[order] for name, values in columns.items()}
