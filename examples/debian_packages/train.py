"""``python -m examples.debian_packages.train OUTPUT`` trains on an output; docs/tutorial.md explains it."""

import sys

import dgl
import numpy as np
import torch
from torch import nn

from partition_ops import PartitionedGraph

torch.manual_seed(0)
np.random.seed(0)  # DGL's data loader shuffles with it
dgl.seed(0)
graph = PartitionedGraph(sys.argv[1])
packages = graph.nodes["package"].data
everyone = torch.arange(graph.num_nodes("package"))
labels = packages["label"][everyone]


class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.names = nn.ModuleDict({t: nn.Embedding(graph.num_nodes(t), width) for t in graph.ntypes})
        self.sizes = nn.Embedding(16, width)
        self.layers = nn.ModuleList(
            dgl.nn.HeteroGraphConv({e: dgl.nn.SAGEConv(width, width, "mean") for e in graph.canonical_etypes})
            for _ in range(2)
        )
        self.classify = nn.Linear(width, int(labels.max()) + 1)

    def forward(self, blocks):
        hidden = {t: self.names[t](blocks[0].srcnodes[t].data[dgl.NID]) for t in graph.ntypes}
        sizes = blocks[0].srcnodes["package"].data
        hidden["package"] = hidden["package"] + self.sizes(sizes["installed_size"])
        for block, layer in zip(blocks, self.layers, strict=True):
            targets = {t: rows[: block.num_dst_nodes(t)] for t, rows in hidden.items()}
            hidden = {t: torch.relu(rows) for t, rows in layer(block, (hidden, targets)).items()}
        return self.classify(hidden["package"])


def batches(nodes, shuffle=False):
    sampler = dgl.dataloading.NeighborSampler([10, 10])
    return dgl.dataloading.DataLoader(graph, {"package": nodes}, sampler, batch_size=2048, shuffle=shuffle)


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
train = everyone[packages["train_mask"][everyone].bool()]
for _ in range(4):
    for _, outputs, blocks in batches(train, shuffle=True):
        loss = nn.functional.cross_entropy(model(blocks), labels[outputs["package"]])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

with torch.no_grad():
    predictions = torch.cat([model(blocks).argmax(dim=1) for _, _, blocks in batches(everyone)])
test = everyone[packages["test_mask"][everyone].bool()]
accuracy = (predictions[test] == labels[test]).float().mean().item()
print(f"accuracy {accuracy:.2f} on {len(test):,} test packages")
