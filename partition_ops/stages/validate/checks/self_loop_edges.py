"""Edges that begin and end at the same node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from partition_ops.stages.validate.check import Check

if TYPE_CHECKING:
    from partition_ops.stages.validate.check import Mask
    from partition_ops.stages.validate.graph_facts import EdgeRows


def find(edges: EdgeRows) -> Mask | None:
    same_type = edges.edge_type.src == edges.edge_type.dst
    return edges.src == edges.dst if same_type else None


CHECK = Check(
    name="self_loop_edges",
    actions=("fail", "exclude", "drop", "warn"),
    finding="an edge begins and ends at the same node",
    harm="METIS and ParMETIS fail on them; layers that add self-loops count them twice",
    title="On self-loop edges",
    edges=find,
)
