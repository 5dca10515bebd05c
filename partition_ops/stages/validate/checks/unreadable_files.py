"""Files that cannot be read in their format."""

from partition_ops.stages.validate.check import Check, Finding, example

CHECK = Check(
    name="unreadable_files",
    finding="a file cannot be read in its format",
    harm="a later stage fails",
    graph=lambda facts: (
        Finding(name, [example(error, file=key, chunk=index)])
        for name, index, key, error in facts.unread_files()
        if error is not None
    ),
    counted_in=("edge_types", "features"),
)
