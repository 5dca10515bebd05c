"""Edge types whose files and counts differ in number."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="file_counts",
    finding="an edge type has more or fewer files than counts",
    harm="chunks are matched with the wrong counts, and IDs shift",
)
