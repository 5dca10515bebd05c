"""Pairs of nodes with edges in both directions."""

from partition_ops.stages.validate.check import Check, Finding, example

CHECK = Check(
    name="reversed_edges",
    severity="information",
    actions=("warn", "fail"),
    finding="two nodes have edges in both directions between them",
    harm="nothing: the engine counts them as one edge",
    title="On edges in both directions",
    graph=lambda facts: [
        Finding(
            facts.metadata.graph_name,
            [example(f"{facts.reversed:,} pairs of nodes have edges in both directions")],
            facts.reversed,
        )
    ],
    counted_in=("graph",),
)
