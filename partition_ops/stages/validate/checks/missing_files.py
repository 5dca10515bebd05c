"""Files that the metadata names and that do not exist."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="missing_files",
    finding="a file that the metadata names does not exist",
    harm="the run stops hours later",
)
