"""GraphSAGE and R-GCN over the relations of a heterogeneous graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import nn

from partition_ops.system.dgl_import import import_dgl

dgl = import_dgl()
EType = tuple[str, str, str]


def sage(width: int) -> Any:
    """GraphSAGE: the mean of the neighbours, and a weight of its own for the node itself."""
    return dgl.nn.SAGEConv(width, width, "mean")


def rgcn(width: int) -> Any:
    """R-GCN: neighbours weighted by one over their number, a weight for each relation."""
    return dgl.nn.GraphConv(width, width, norm="right", allow_zero_in_degree=True)


CONVOLUTIONS = {"sage": sage, "rgcn": rgcn}


class Model(nn.Module):
    """Two layers of messages over the relations, then a classifier.

    Args:
        kind: ``sage`` or ``rgcn``.
        widths: Width of the input feature by node type.
        etypes: The relations that pass messages.
        target: Node type that is classified.
        classes: Number of classes.
        width: Of the hidden layers.
    """

    def __init__(
        self,
        kind: str,
        widths: Mapping[str, int],
        etypes: Sequence[EType],
        target: str,
        classes: int,
        width: int = 64,
    ) -> None:
        super().__init__()
        self.target = target
        self.project = nn.ModuleDict({ntype: nn.Linear(size, width) for ntype, size in widths.items()})
        convolution = CONVOLUTIONS[kind]
        self.layers = nn.ModuleList(
            dgl.nn.HeteroGraphConv({etype: convolution(width) for etype in etypes}) for _ in range(2)
        )
        self.own = nn.ModuleList(
            nn.ModuleDict({ntype: nn.Linear(width, width) for ntype in widths}) for _ in range(2)
        )
        self.classify = nn.Linear(width, classes)

    def forward(self, blocks: Sequence[Any], features: Mapping[str, Any]) -> Any:
        """Return logits of the outputs of the last block: (n, classes) float32."""
        hidden = {ntype: torch.relu(self.project[ntype](rows)) for ntype, rows in features.items()}
        for block, layer, own in zip(blocks, self.layers, self.own, strict=True):
            outputs = {ntype: rows[: block.num_dst_nodes(ntype)] for ntype, rows in hidden.items()}
            found = layer(block, (hidden, outputs))
            hidden = {t: torch.relu(own[t](rows) + found.get(t, 0)) for t, rows in outputs.items()}
        return self.classify(hidden[self.target])
