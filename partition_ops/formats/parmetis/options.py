"""Options of ``convert-partition``."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from partition_ops.options.declare import MOST_PARTS, StageConfig, option

OnMissing = Literal["fail", "accept"]


@dataclass(frozen=True, kw_only=True)
class ConvertPartitionConfig(StageConfig):
    """Options of ``convert-partition``, with the meaning that the DGL guide gives them."""

    graph_name: str = option(help="Name of the graph in the names of the files.", metavar="NAME", form=None)
    num_parts: int = option(
        help="Number of partitions.", metavar="K", minimum=1, maximum=MOST_PARTS, form=None
    )
    num_node_weights: int = option(
        help="Number of weights of a node in the node files.", metavar="N", minimum=0, form=None
    )
    node_attr_dtype: str | None = option(
        None,
        help="NumPy's name of the dtype of the columns that follow in the node files: they become the feature"
        " <type>/feat of every node type.",
        metavar="DTYPE",
        empty="the columns are skipped",
        form=None,
    )
    edge_attr_dtype: str | None = option(
        None,
        help="The same for the edge files and the edge types.",
        metavar="DTYPE",
        empty="the columns are skipped",
        form=None,
    )
    attribute_name: str = option(
        "feat",
        help="Name of the feature that the columns become, in place of feat.",
        metavar="NAME",
        form=None,
    )
    removed_edges: str | None = option(
        None,
        help="Name of a file in --input-dir with edges that ParMETIS did not get, in the columns of the edge"
        " file of pm_dglpart's input: they are added again.",
        metavar="FILE",
        empty="<graph>_removed_edges.txt, if there is such a file",
        form=None,
    )
    missing_edges: OnMissing = option(
        "fail",
        help="Action if an edge that the schema counts is in no file: fail, or accept it, because"
        " ParMETIS drops duplicates.",
        form=None,
    )
