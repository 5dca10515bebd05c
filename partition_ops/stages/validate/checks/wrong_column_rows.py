"""Rows of edges that do not have two columns."""

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="wrong_column_rows",
    finding="a row does not have two columns",
    harm="the row is not an edge, and the IDs of all later edges shift",
    text_row=lambda fields: len(fields) != 2,
)
