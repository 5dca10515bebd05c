"""Edges of several types between the same two nodes."""

from partition_ops.stages.validate.check import Check, Finding, example

CHECK = Check(
    name="parallel_edges",
    severity="information",
    actions=("warn", "fail"),
    finding="edges of several types join the same two nodes in the same direction",
    harm="nothing: the engine counts them as one edge",
    title="On edges of several types",
    graph=lambda facts: [
        Finding(
            facts.metadata.graph_name,
            [example(f"{facts.parallel:,} edges join the same two nodes as an edge of another type")],
            facts.parallel,
        )
    ],
    counted_in=("graph",),
)
