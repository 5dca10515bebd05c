"""How long the stages of a run took."""

from __future__ import annotations

from partition_ops import artifacts
from partition_ops.storage import Store

SUMMED = {"convert-scatter": "scatter", "convert-part": "gather"}  # what there are many of, then a number
STAGES = ("validate", "schema", "prepare", "partition", "scatter", "gather", "idmap")


def seconds_by_stage(destination: Store) -> dict[str, float]:
    """Seconds of the tasks done so far; scatter and gather are sums over their tasks."""
    found: dict[str, float] = {}
    for entry in destination.list(f"{artifacts.RECORDS}/"):
        task, suffix = entry.key.removeprefix(f"{artifacts.RECORDS}/").rsplit(".", 1)
        if suffix != "json":
            continue
        name = SUMMED.get(task.rstrip("0123456789"), task)
        found[name] = found.get(name, 0.0) + destination.read_json(entry.key)["seconds"]
    return {name: round(found[name], 3) for name in STAGES if name in found}
