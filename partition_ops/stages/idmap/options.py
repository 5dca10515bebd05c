"""Options of ``idmap``."""

from __future__ import annotations

from dataclasses import dataclass

from partition_ops.errors import UsageError
from partition_ops.options.stage_config import StageConfig


@dataclass(frozen=True, kw_only=True)
class IdMapConfig(StageConfig):
    """Options of ``idmap``.

    Attributes:
        vectors: Also write ``idmap/nodes/<type>.npy`` and ``idmap/edges/<src:rel:dst>.npy``: the vectors that
            ``dgl.distributed.partition_graph`` returns with ``return_mapping=True``.
        part_maps: Also write ``partitions/node_map.npy`` and ``partitions/edge_map.npy``: the partition of
            every node and edge, by homogeneous ID of the input graph.
    """

    vectors: bool = False
    part_maps: bool = False


@dataclass(frozen=True, kw_only=True)
class RemapConfig:
    """Options of ``idmap restore`` and ``idmap apply``: one of the two.

    Attributes:
        node_type: Name of the node type whose rows are put in another order.
        edge_type: The edge type, as ``src:rel:dst``.
    """

    node_type: str | None = None
    edge_type: str | None = None

    def __post_init__(self) -> None:
        if (self.node_type is None) == (self.edge_type is None):
            raise UsageError("Name one type", expected="either --node-type or --edge-type")
