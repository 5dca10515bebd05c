"""``python -m examples.transactions.train_pyg OUTPUT SCORES.npy`` predicts payments with PyG."""

import sys

import numpy as np
import pyarrow.parquet as pq
import torch
from torch import nn
from torch_geometric.loader import LinkLoader
from torch_geometric.nn import HeteroConv, SAGEConv

from partition_ops.train.pyg_stores import PartitionedNeighborSampler, open_pyg_stores

PAYS = ("account", "pays", "account")
NAME = ":".join(PAYS)
torch.manual_seed(0)
output, scores = sys.argv[1:]
features, store = stores = open_pyg_stores(output)  # IDs are those of the input
graph = features.graph
src, dst, ids = (found[PAYS] for found in store.coo([PAYS]))
ends = torch.stack([src, dst])[:, torch.argsort(ids)]  # column e: the ends of payment e
parts = {part: features.get_tensor(PAYS, f"{part}_mask", None).bool() for part in ("train", "val", "test")}
negatives = pq.read_table(f"{output}/idmap/negatives/{NAME}.parquet")


def pairs_of(part):
    """Return the negatives of a part: (2, n) IDs of the input."""
    chosen = negatives.filter(negatives[f"{part}_mask"])
    return torch.from_numpy(np.stack([chosen[f"{end}_orig_id"].to_numpy() for end in ("src", "dst")]))


class Model(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.sectors = nn.LazyLinear(width)
        self.bias = nn.Parameter(torch.zeros(()))
        self.layer = HeteroConv({etype: SAGEConv(width, width) for etype in graph.canonical_etypes})

    def forward(self, batch, seeds):
        """Return the logits of the pairs of a batch; ``seeds`` are the payments among them."""
        start = self.sectors(batch["account"].sector)
        edges = {}
        for etype in graph.canonical_etypes:  # edge e of the reverse type is the reverse of payment e
            ids = batch[etype].e_id
            # messages go along payments of the training time only, and never along those of the batch
            shown = parts["train"][ids] & ~torch.isin(ids, seeds)
            edges[etype] = batch[etype].edge_index[:, shown]
        found = self.layer({"account": start}, edges)["account"] + start
        src, dst = batch[PAYS].edge_label_index
        return (found[src] * found[dst]).sum(dim=1) + self.bias


def batches(edges, pairs, **options):
    """Yield batches of payments and negatives, and the payments of each."""
    labels = torch.cat([torch.ones(len(edges)), torch.zeros(pairs.shape[1])])
    loader = LinkLoader(
        stores,
        PartitionedNeighborSampler(store, [15]),
        edge_label_index=(PAYS, torch.cat([ends[:, edges], pairs], dim=1)),
        edge_label=labels,
        batch_size=1024,
        **options,
    )
    for batch in loader:
        rows = batch[PAYS].input_id
        yield batch, edges[rows[rows < len(edges)]]


model = Model()
train = parts["train"].nonzero().reshape(-1)
optimizer = None
for _ in range(8):
    for batch, seeds in batches(train, pairs_of("train"), shuffle=True):
        logits = model(batch, seeds)
        loss = nn.functional.binary_cross_entropy_with_logits(logits, batch[PAYS].edge_label)
        optimizer = optimizer or torch.optim.Adam(model.parameters(), lr=0.02)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

test, others = parts["test"].nonzero().reshape(-1), pairs_of("test")
with torch.no_grad():
    logits = torch.cat([model(*batch) for batch in batches(test, others)])
    labels = torch.arange(len(logits)) < len(test)
    right = ((logits > 0) == labels).float()
    accuracy = ((right[labels].mean() + right[~labels].mean()) / 2).item()
    print(f"PyG: accuracy {accuracy:.2f} on {len(test):,} test payments and {others.shape[1]:,} negatives")
    every = torch.arange(ends.shape[1])
    by_input = torch.sigmoid(torch.cat([model(*batch) for batch in batches(every, others[:, :0])])).numpy()
ids = pq.read_table(f"{output}/idmap/edges/{NAME}.parquet")["orig_id"].to_numpy()
np.save(scores, by_input[ids])  # row i: the payment with the new ID i
