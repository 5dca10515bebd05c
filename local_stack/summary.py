"""A summary of a finished run as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from partition_ops.artifacts.layout import QUALITY_REPORT, RECORDS
from partition_ops.storage import Store

STAGES = ("validate", "schema", "prepare", "partition", "convert", "idmap", "quality", "publish")


def print_summary(run: Store) -> None:
    """Print partitions by node types, edge cut, replication factor and seconds a stage.

    Args:
        run: Root of the run.
    """
    report = run.read_json(QUALITY_REPORT)
    print(_table(report["node_types"]))
    cut = report["edge_cut"]
    print(f"\nEdges cut           {cut['edges']:,} ({cut['fraction']:.1%})")
    print(f"Replication factor  {report['replication_factor']:.2f} copies of a node")
    keys = [entry.key for entry in run.list(f"{RECORDS}/") if entry.key.endswith(".json")]
    records = [run.read_json(key) for key in keys]
    seconds = stage_seconds(records)
    print("Seconds             " + "  ".join(f"{stage} {spent:.1f}" for stage, spent in seconds.items()))


def stage_seconds(records: Iterable[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds of each stage, in order; the tasks of a stage are added up."""
    spent = dict.fromkeys(STAGES, 0.0)
    for record in records:
        stage = next((stage for stage in STAGES if record["task"].startswith(stage)), None)
        if stage is not None:
            spent[stage] += record["seconds"]
    return spent


def _table(types: dict[str, dict[str, Any]]) -> str:
    """Return a table with a row for each partition, a column for each node type, and the imbalance."""
    header = ["partition", *types]
    parts = zip(*(entry["per_part"] for entry in types.values()), strict=True)
    rows = [[str(part), *(f"{count:,}" for count in counts)] for part, counts in enumerate(parts)]
    rows.append(["imbalance", *(f"{entry['imbalance']:.3f}" for entry in types.values())])
    widths = [max(len(row[column]) for row in [header, *rows]) for column in range(len(header))]
    lines = [
        "  ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        for row in [header, *rows]
    ]
    return "\n".join(lines)
