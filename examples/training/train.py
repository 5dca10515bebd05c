"""Predict the distribution of functions, trained on mini-batches of a `PartitionedGraph`."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import nn

from examples.training.models import Model
from partition_ops.system.dgl_import import import_dgl
from partition_ops.train import PartitionedGraph

dgl = import_dgl()

TARGET = "function"
FEATURES = {"module": "feat", "class": "words", "function": "feat"}
FANOUT, BATCH = 5, 1024


def split(graph: PartitionedGraph, mask: str) -> Any:
    """Return the type-wise IDs of the functions of a split."""
    everyone = np.arange(graph.num_nodes(TARGET))
    return torch.from_numpy(np.flatnonzero(graph.node_rows(mask, TARGET).take(everyone)))


def in_memory(graph: PartitionedGraph) -> Any:
    """Return the same graph as a ``DGLGraph`` with the used features, for comparison."""
    edges = {t: graph.find_edges(torch.arange(graph.num_edges(t)), t) for t in graph.canonical_etypes}
    made = dgl.heterograph(edges, {ntype: graph.num_nodes(ntype) for ntype in graph.ntypes})
    for ntype, name in [*FEATURES.items(), (TARGET, "label")]:
        rows = graph.node_rows(name, ntype).take(np.arange(graph.num_nodes(ntype)))
        made.nodes[ntype].data[name] = torch.from_numpy(rows)
    return made


def relations(graph: Any) -> list[tuple[str, str, str]]:
    """Return the edge types between nodes with features."""
    return [t for t in graph.canonical_etypes if t[0] in FEATURES and t[2] in FEATURES]


def loader(graph: Any, seeds: Any, *, shuffle: bool) -> Any:
    """Yield mini-batches with features and labels."""
    used = relations(graph)
    fanout = {etype: FANOUT if etype in used else 0 for etype in graph.canonical_etypes}
    sampler = dgl.dataloading.NeighborSampler(
        [fanout, fanout],
        prefetch_node_feats={ntype: [name] for ntype, name in FEATURES.items()},
        prefetch_labels={TARGET: ["label"]},
    )
    return dgl.dataloading.DataLoader(graph, {TARGET: seeds}, sampler, batch_size=BATCH, shuffle=shuffle)


def inputs(block: Any) -> dict[str, Any]:
    return {ntype: block.srcnodes[ntype].data[name].float() for ntype, name in FEATURES.items()}


def train(graph: Any, kind: str, splits: Mapping[str, Any], *, epochs: int, seed: int = 0) -> dict[str, Any]:
    """Train a model and test it.

    Args:
        graph: A `PartitionedGraph` or a ``DGLGraph``.
        kind: ``sage`` or ``rgcn``.
        splits: Type-wise IDs of the functions to learn from (``train``) and to test with (``test``).
        epochs: Number of epochs.
        seed: Seed of parameters, order and neighbours.

    Returns:
        ``accuracy`` on the test split, ``seconds`` and ``batches``.
    """
    torch.manual_seed(seed)
    np.random.seed(seed)  # DGL's data loader shuffles with it
    dgl.seed(seed)
    rows = {t: graph.get_node_storage(name, t).fetch(torch.arange(1), "cpu") for t, name in FEATURES.items()}
    widths = {ntype: one.shape[1] for ntype, one in rows.items()}
    everyone = torch.arange(graph.num_nodes(TARGET))
    labels = graph.get_node_storage("label", TARGET).fetch(everyone, "cpu")
    model = Model(kind, widths, relations(graph), TARGET, int(labels.max()) + 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.005)
    began, batches = time.perf_counter(), 0
    for _ in range(epochs):
        for _, _, blocks in loader(graph, splits["train"], shuffle=True):
            loss = nn.functional.cross_entropy(
                model(blocks, inputs(blocks[0])), blocks[-1].dstnodes[TARGET].data["label"]
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            batches += 1
    seconds = time.perf_counter() - began
    return {"accuracy": accuracy(graph, model, splits["test"]), "seconds": seconds, "batches": batches}


@torch.no_grad()
def accuracy(graph: Any, model: Model, seeds: Any) -> float:
    """Return the share of functions whose distribution is predicted correctly."""
    right = 0
    for _, _, blocks in loader(graph, seeds, shuffle=False):
        found = model(blocks, inputs(blocks[0])).argmax(dim=1)
        right += int((found == blocks[-1].dstnodes[TARGET].data["label"]).sum())
    return right / len(seeds)
