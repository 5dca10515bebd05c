"""Documents that cannot be used; the reader of ``metadata.json`` rejects them."""

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="metadata",
    finding="metadata.json does not match its schema, contradicts itself, or names a forbidden file",
    harm="a later stage fails, features get lost, or files outside the graph's folder are read",
)
