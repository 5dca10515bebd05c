"""Files that the metadata names and that do not exist."""

from partition_ops.stages.validate.check import Check, Finding, example

CHECK = Check(
    name="missing_files",
    finding="a file that the metadata names does not exist",
    harm="a later stage fails",
    graph=lambda facts: (
        Finding(name, [example(f"no file {key}", file=key, chunk=index)])
        for name, index, key, error in facts.unread_files()
        if error is None
    ),
    counted_in=("edge_types", "features"),
)
