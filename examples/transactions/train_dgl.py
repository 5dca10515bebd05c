"""``python -m examples.transactions.train_dgl OUTPUT SCORES.npy`` predicts payments with DGL."""

import sys

import dgl
import numpy as np
import pyarrow.parquet as pq
import torch
from torch import nn

from partition_ops import PartitionedGraph
from partition_ops.train.samplers import ReverseTypes

PAYS = ("account", "pays", "account")
NAME = ":".join(PAYS)
torch.manual_seed(0)
np.random.seed(0)  # DGL's data loader shuffles with it
dgl.seed(0)
output, scores = sys.argv[1:]
graph = PartitionedGraph(output)
payments = graph.edges[PAYS].data
every = torch.arange(graph.num_edges(PAYS))
parts = {part: payments[f"{part}_mask"][every].bool() for part in ("train", "val", "test")}

# Messages go along payments of the training time only, and never along the payment that is predicted.
reverse = ReverseTypes(graph)
later = reverse({PAYS: every[~parts["train"]]})


def hidden(seeds):
    own = reverse(seeds)
    return {etype: torch.cat([own[etype], later[etype]]).unique() for etype in later}


negatives = pq.read_table(f"{output}/idmap/negatives/{NAME}.parquet")


def pairs_of(part):
    """Return the negatives of a part: (n, 2) type-wise new IDs."""
    chosen = negatives.filter(negatives[f"{part}_mask"])
    ends = [chosen[f"{end}_type_new_id"].to_numpy() for end in ("src", "dst")]
    return torch.from_numpy(np.stack(ends, axis=1))


class KnownNegatives:
    """Draws from known negatives, one for each edge."""

    def __init__(self, pairs):
        self.pairs = pairs

    def __call__(self, graph, seeds):
        drawn = self.pairs[torch.randint(len(self.pairs), (len(seeds[PAYS]),))]
        return {PAYS: (drawn[:, 0], drawn[:, 1])}


class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.sectors = nn.Linear(graph.nodes["account"].data["sector"].shape[1], width)
        self.bias = nn.Parameter(torch.zeros(()))
        self.layer = dgl.nn.HeteroGraphConv(
            {etype: dgl.nn.SAGEConv(width, width, "mean") for etype in graph.canonical_etypes}
        )

    def forward(self, block, pairs):
        start = self.sectors(block.srcnodes["account"].data["sector"])
        targets = start[: block.num_dst_nodes("account")]
        found = self.layer(block, ({"account": start}, {"account": targets}))["account"] + targets
        src, dst = pairs.edges(etype=PAYS)
        return (found[src] * found[dst]).sum(dim=1) + self.bias


def loader(edges, sampler, **options):
    return dgl.dataloading.DataLoader(graph, {PAYS: edges}, sampler, batch_size=512, **options)


def sampler(part):
    around = dgl.dataloading.NeighborSampler([15])
    negative = KnownNegatives(pairs_of(part))
    return dgl.dataloading.as_edge_prediction_sampler(around, exclude=hidden, negative_sampler=negative)


def scores_of(edges, part):
    """Return the scores of edges, and of as many negatives of a part."""
    with torch.no_grad():
        found = [(model(b[0], p), model(b[0], n)) for _, p, n, b in loader(edges, sampler(part))]
    return [torch.cat(some) for some in zip(*found, strict=True)]


model = Model()
optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
for _ in range(8):
    for _, positive, negative, blocks in loader(every[parts["train"]], sampler("train"), shuffle=True):
        right, wrong = model(blocks[0], positive), model(blocks[0], negative)
        loss = -(nn.functional.logsigmoid(right).mean() + nn.functional.logsigmoid(-wrong).mean())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

right, wrong = scores_of(every[parts["test"]], "test")
accuracy = ((right > 0).float().mean() + (wrong <= 0).float().mean()).item() / 2
print(f"DGL: accuracy {accuracy:.2f} on {len(right):,} test payments and as many negatives")
np.save(scores, torch.sigmoid(scores_of(every, "test")[0]).numpy())  # row i: the payment with the new ID i
