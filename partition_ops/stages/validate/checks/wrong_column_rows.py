"""Rows of edges that do not have two columns."""

from __future__ import annotations

from collections.abc import Sequence

from partition_ops.stages.validate.check import Check


def find(fields: Sequence[str]) -> bool:
    return len(fields) != 2


CHECK = Check(
    name="wrong_column_rows",
    finding="a row does not have two columns",
    harm="the row is not an edge, and the IDs of all later edges shift",
    text_row=find,
)
