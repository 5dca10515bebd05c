"""Rows of edges with an ID that is not an integer."""

from __future__ import annotations

import re
from collections.abc import Sequence

from partition_ops.stages.validate.check import Check

INTEGER = re.compile(r"\s*-?[0-9]{1,25}\s*")


def find(fields: Sequence[str]) -> bool:
    two_ids = len(fields) == 2 and all(field.strip() for field in fields)  # other checks find the others
    return two_ids and not all(map(_is_integer, fields))


def parse_integer(field: str) -> int:
    """Return the integer in a field in which the check finds nothing."""
    return int(field)


def _is_integer(field: str) -> bool:
    return INTEGER.fullmatch(field) is not None and -(2**63) <= parse_integer(field) < 2**63


CHECK = Check(
    name="non_integer_rows",
    finding="an ID is not an integer of 64 bits",
    harm="the row is not an edge, and the IDs of all later edges shift",
    text_row=find,
)
