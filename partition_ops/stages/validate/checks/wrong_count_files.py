"""Files that have other numbers of rows than the metadata says."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="wrong_count_files",
    finding="a file, or all files of a type together, have another number of rows than the metadata says",
    harm="IDs and features shift silently",
)
