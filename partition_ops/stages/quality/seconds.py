"""How long the stages of a run took."""

from __future__ import annotations

from contextlib import suppress

from partition_ops.artifacts import layout
from partition_ops.artifacts.records import read_record
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

SUMMED = {"convert-scatter": "scatter", "convert-part": "gather"}  # what there are many of, then a number
STAGES = ("validate", "schema", "prepare", "partition", "scatter", "gather", "idmap")


def seconds_by_stage(destination: Store) -> dict[str, float]:
    """Seconds of the tasks done so far; scatter and gather are sums over their tasks."""
    found: dict[str, float] = {}
    for entry in destination.list(f"{layout.RECORDS}/"):
        task, suffix = entry.key.removeprefix(f"{layout.RECORDS}/").rsplit(".", 1)
        if suffix != "json":
            continue
        name = SUMMED.get(task.rstrip("0123456789"), task)
        with suppress(InvalidInputError):  # no artifact: where one is broken, its time is not known
            found[name] = found.get(name, 0.0) + read_record(destination, task)["seconds"]
    return {name: round(found[name], 3) for name in STAGES if name in found}
