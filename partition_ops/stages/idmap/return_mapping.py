"""The vectors that ``dgl.distributed.partition_graph`` returns with ``return_mapping=True``."""

from __future__ import annotations

from typing import Any

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.system.extras import check_installed


def return_mapping(book: PartitionBook) -> tuple[Any, Any]:
    """Return original IDs by new ID, in the form that dgl 1.1.3 returns them.

    With them, ``restored[node_map] = saved`` puts the rows of ``saved`` into the order of the input graph.

    Args:
        book: The book of a finished output. The tensors are mapped from its files, so they may be larger
            than memory; do not write to them.

    Returns:
        The mappings of nodes and of edges. For a homogeneous graph, an int64 torch tensor each: original
        ID by new ID. Else a dictionary each: by node type, or by ``(src, rel, dst)``, an int64 torch tensor
        of type-wise original IDs by type-wise new ID. Inside a type and a partition, DGL leaves the order
        to its partitioner; here it is that of the original IDs.

    Raises:
        InvalidInputError: An ID map is missing or broken.
    """
    check_installed("return_mapping", "torch")
    import torch

    nodes = {name: torch.from_numpy(book.node_id_map(name).orig) for name in book.ntypes}
    edges = {triple: torch.from_numpy(book.edge_id_map(triple).orig) for triple in book.canonical_etypes}
    if len(nodes) == len(edges) == 1:
        return next(iter(nodes.values())), next(iter(edges.values()))
    return nodes, edges
