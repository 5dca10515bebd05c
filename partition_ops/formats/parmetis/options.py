"""Options of ``convert-partition``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from partition_ops.errors import UsageError
from partition_ops.options.stage_config import StageConfig, check_choice, check_num_parts

OnMissing = Literal["fail", "accept"]


@dataclass(frozen=True, kw_only=True)
class ConvertPartitionConfig(StageConfig):
    """Options of ``convert-partition``, with the meaning that the DGL guide gives them.

    Attributes:
        graph_name: Name of the graph, by which the files of ParMETIS are found.
        num_parts: Number of partitions.
        num_node_weights: Number of weights in the node files.
        node_attr_dtype: NumPy's name of the dtype of what follows in the node files; None passes over it.
        edge_attr_dtype: The same of the edge files.
        missing_edges: What to do when an edge that the schema counts is in no file: ``fail``, or ``accept``.
    """

    graph_name: str
    num_parts: int
    num_node_weights: int
    node_attr_dtype: str | None = None
    edge_attr_dtype: str | None = None
    missing_edges: OnMissing = "fail"

    def __post_init__(self) -> None:
        check_num_parts(self.num_parts)
        if self.num_node_weights < 0:
            raise UsageError(
                "--num-node-weights is out of range", found=self.num_node_weights, expected="0 or more"
            )
        check_choice("--missing-edges", self.missing_edges, OnMissing)
