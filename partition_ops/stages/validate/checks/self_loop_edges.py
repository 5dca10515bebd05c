"""Edges that begin and end at the same node."""

from partition_ops.stages.validate.check import Check

CHECK = Check(
    name="self_loop_edges",
    actions=("fail", "exclude", "drop", "warn"),
    finding="an edge begins and ends at the same node",
    harm="METIS and ParMETIS fail on them; layers that add self-loops count them twice",
    title="On self-loop edges",
    edges=lambda rows: rows.src == rows.dst if rows.edge_type.src == rows.edge_type.dst else None,
)
