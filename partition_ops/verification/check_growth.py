"""Checks of an incremental run: the migration report and the carry-over maps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.formats.columns import in_group
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import Format
from partition_ops.storage import Store, open_store
from partition_ops.system.json_documents import check_document
from partition_ops.verification.artifact_readers import Array, read_assigned, read_id_map
from partition_ops.verification.expected_graph import ExpectedGraph
from partition_ops.verification.input_graph import Ids

MIGRATION = f"{layout.ASSIGNMENT}/{layout.MIGRATION}"
COLUMNS = ["old_new_id", "old_type_new_id", "new_id", "type_new_id"]
Figures = Mapping[str, Any]


def check_growth(findings: Findings, output: Store, form: Format, graph: ExpectedGraph) -> None:
    """Check ``assignment/migration.json`` and the carry-over maps; a full run has neither.

    If the previous run still exists, the number of moved nodes and their old IDs are compared with it.

    Args:
        findings: Takes the failures.
        output: Root of the output.
        form: The format to read the features from.
        graph: The expected graph.

    Peak memory: eight int64 columns of the largest type.
    """
    migration: Figures | None = None
    with findings.check("migration"):
        if output.exists(MIGRATION):
            migration = output.read_json(MIGRATION)
            check_document(migration, "migration", where=MIGRATION)
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
    with _earlier(output, migration) as earlier:
        for type_id, name in enumerate(graph.metadata.node_types):
            with findings.check("migration"):
                _check_type(findings, migration, name, graph.parts[type_id], graph.num_parts, earlier)
            if old.get(name):
                with findings.check("carry-over"):
                    _check_map(findings, name, old[name], output, earlier)
    with findings.check("migration"):
        _check_bytes(findings, migration, output, form, graph)


@contextmanager
def _earlier(output: Store, migration: Figures) -> Iterator[Store | None]:
    """Open the previous run; None if it has been removed."""
    with open_store(migration["previous"]["run"], output.settings) as store:
        yield store if store.exists(layout.MANIFEST) else None


def _check_type(
    findings: Findings, migration: Figures, name: str, parts: Ids, num_parts: int, earlier: Store | None
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


def _check_map(findings: Findings, name: str, old: int, output: Store, earlier: Store | None) -> None:
    """Check that a map leads from every old node to the same node in this run."""
    where = f"carry-over map of {name!r}"
    columns = read_id_map(output, layout.carry_over_map(name))
    if not findings.same("carry-over", f"{where}: the list of columns", list(columns), COLUMNS):
        return
    typed = np.arange(old, dtype=np.int64)
    if not findings.equal("carry-over", f"{where}: old_type_new_id", columns["old_type_new_id"], typed):
        return
    now = _by_new_id(read_id_map(output, layout.node_id_map(name)))
    originals = now["orig_id"][columns["type_new_id"]]
    findings.equal("carry-over", f"{where}: new_id", columns["new_id"], now["new_id"][columns["type_new_id"]])
    findings.equal("carry-over", f"{where}: old nodes, sorted", np.sort(originals), typed)
    if earlier is not None:
        before = _by_new_id(read_id_map(earlier, layout.node_id_map(name)))
        findings.equal("carry-over", f"{where}: old_new_id", columns["old_new_id"], before["new_id"])
        findings.equal("carry-over", f"{where}: the old node in each row", originals, before["orig_id"])


def _by_new_id(columns: Mapping[str, Array]) -> dict[str, Array]:
    order = np.argsort(columns["type_new_id"], kind="stable")
    return {name: values[order] for name, values in columns.items()}
