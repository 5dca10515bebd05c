"""Pairs of nodes that no edge joins."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

if TYPE_CHECKING:
    from partition_ops.train.graph_sampling import GraphSampling

TRIALS = 3  # as dgl 1.1.3


def non_edges(
    graph: GraphSampling,
    num_samples: int,
    exclude_self_loops: bool,
    replace: bool,
    etype: tuple[str, str, str],
    *,
    redundancy: float | None = None,
) -> tuple[Any, Any]:
    """Draw pairs uniformly and keep those that no edge joins.

    DGL's kernel for this sorts the graph in place, which mapped files do not allow.

    Returns:
        (n,) int64 sources and destinations, type-wise, n at most ``num_samples``. Peak memory: some arrays
        of ``num_samples`` entries.
    """
    src_type, _, dst_type = etype
    sources, destinations = graph.num_nodes(src_type), graph.num_nodes(dst_type)
    no_loops = exclude_self_loops and src_type == dst_type
    pairs = torch.empty((2, 0), dtype=torch.int64)
    if not sources or not destinations:
        return pairs[0], pairs[1]
    density = min(graph.num_edges(etype) / (sources * destinations), 0.9)
    more = 1.3 / (1 - density) if redundancy is None else 1 + redundancy
    for _ in range(TRIALS):
        drawn = int((num_samples - pairs.shape[1]) * more) + 1
        new = torch.stack([torch.randint(sources, (drawn,)), torch.randint(destinations, (drawn,))])
        wrong = graph.has_edges_between(new[0], new[1], etype)
        if no_loops:
            wrong |= new[0] == new[1]
        pairs = torch.cat([pairs, new[:, ~wrong]], dim=1)
        if not replace:
            pairs = _first_of_each(pairs, destinations)
        if pairs.shape[1] >= num_samples:
            break
    return pairs[0, :num_samples], pairs[1, :num_samples]


def _first_of_each(pairs: Any, destinations: int) -> Any:
    """Different pairs, in the order in which they were drawn."""
    keys = pairs[0] * destinations + pairs[1]
    _, inverse = torch.unique(keys, return_inverse=True)
    first = torch.full((int(inverse.max()) + 1 if len(inverse) else 0,), len(keys))
    first = first.scatter_reduce(0, inverse, torch.arange(len(keys)), "amin")
    return pairs[:, first.sort().values]
