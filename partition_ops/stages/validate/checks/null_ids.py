"""Rows of edges without one of their IDs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check

if TYPE_CHECKING:
    from partition_ops.stages.validate.check import Mask
    from partition_ops.stages.validate.graph_facts import EdgeRows


def find(rows: EdgeRows) -> Mask | None:
    if rows.missing is None:
        return None
    without_src, without_dst = rows.missing
    return without_src | without_dst


def find_in_text(fields: Sequence[str]) -> bool:
    return len(fields) == 2 and not all(field.strip() for field in fields)


CHECK = Check(
    name="null_ids",
    finding="an ID is missing",
    harm="the row is not an edge, and the IDs of all later edges shift",
    ids=find,
    text_row=find_in_text,
)
