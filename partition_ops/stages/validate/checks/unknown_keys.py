"""Parts of ``metadata.json`` that no stage reads."""

from __future__ import annotations

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="unknown_keys",
    severity="warning",
    actions=("warn", "fail"),
    finding="metadata.json has a key that the format does not know, or edges of a type that it does not list",
    harm="the features of a misspelt section, or the edges, are lost without a word",
    title="On unknown keys in metadata.json",
)
