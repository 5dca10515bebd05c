"""Files that cannot be read in their format."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="unreadable_files",
    finding="a file cannot be read in its format",
    harm="the run stops hours later",
)
