"""Rows of edges without one of their IDs."""

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="null_ids",
    finding="an ID is missing",
    harm="the row is not an edge, and the IDs of all later edges shift",
    ids=lambda rows: rows.missing[0] | rows.missing[1] if rows.missing else None,
    text_row=lambda fields: len(fields) == 2 and not all(field.strip() for field in fields),
)
