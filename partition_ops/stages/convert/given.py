"""What the tasks of a conversion are given: all that their results depend on.

A partition does not depend on how the edges were grouped: it stays what it is when they are grouped
otherwise, or scattered with other memory.
"""

from __future__ import annotations

from typing import Any

from partition_ops.artifacts.tasks import StageResult, find_done, part_task
from partition_ops.stages.convert.context import Conversion

PLAN_TASK = "convert-plan"
SCATTER_TASK = "convert-scatter"  # then the number of the group
Given = dict[str, Any]


def scatter_task(group: int) -> str:
    return f"{SCATTER_TASK}{group}"


def given_to_plan(conversion: Conversion) -> Given:
    return {"options": _options(conversion), "inputs": conversion.inputs, "after": ["partition"]}


def given_to_scatter(conversion: Conversion, group: int) -> Given:
    return {
        "options": {**_options(conversion), "group": group},
        "inputs": conversion.inputs,
        "after": ["partition", PLAN_TASK],
    }


def given_to_gather(conversion: Conversion, part: int) -> Given:
    return {
        "options": {**_options(conversion), "part": part},
        "inputs": conversion.inputs,
        "after": ["partition", *(["prepare"] if conversion.prepared else [])],
    }


def find_part(conversion: Conversion, part: int) -> StageResult | None:
    """The result of a gather that need not be done again, or None."""
    return find_done(part_task(part), conversion.destination, **given_to_gather(conversion, part))


def _options(conversion: Conversion) -> dict[str, Any]:
    return {**conversion.config.options(), "dropped": conversion.dropped.digests}
