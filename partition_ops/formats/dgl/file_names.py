"""Names and keys of the files that DGL's distributed training loads."""

from __future__ import annotations

from partition_ops.artifacts import layout

GRAPH = "graph.dgl"
TENSOR_FILES = {  # by the group of columns that each holds
    "node_features": "node_feat.dgl",
    "edge_features": "edge_feat.dgl",
    "node_orig_ids": "orig_nids.dgl",
    "edge_orig_ids": "orig_eids.dgl",
}
PARTITION_FILES = (GRAPH, *TENSOR_FILES.values())


def partition_config(graph_name: str) -> str:
    """Return the key of the JSON file that ``dgl.distributed.load_partition`` takes."""
    return f"{layout.PARTITIONS}/{graph_name}.json"


def partition_file(part: int, name: str) -> str:
    """Return the key of one of `PARTITION_FILES` of a partition."""
    return f"{layout.partition_folder(part)}/{name}"
