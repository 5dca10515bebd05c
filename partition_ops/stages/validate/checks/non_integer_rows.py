"""Rows of edges with an ID that is not an integer."""

import re
from collections.abc import Sequence

from partition_ops.stages.validate.check import Check

INTEGER = re.compile(r"\s*-?[0-9]{1,25}\s*")


def find(fields: Sequence[str]) -> bool:
    if len(fields) != 2 or not all(field.strip() for field in fields):
        return False  # other checks find these rows
    return not all(INTEGER.fullmatch(field) and -(2**63) <= int(field) < 2**63 for field in fields)


CHECK = Check(
    name="non_integer_rows",
    finding="an ID is not an integer of 64 bits",
    harm="the row is not an edge, and the IDs of all later edges shift",
    text_row=find,
)
