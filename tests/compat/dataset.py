"""Load data sets of the format graphbolt-dataset with GraphBolt of DGL 2.1, and train on one.

``python dataset.py OURS RAW EDGES`` compares the data set OURS with what GraphBolt makes of the raw data set
RAW of the same graph. EDGES has the edges of the input by type.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from dgl import graphbolt as gb


def items(found: Any) -> dict[str, Any]:
    """The items of a set by type, as lists."""
    if found is None:
        return {}
    by_type = found._itemsets if isinstance(found, gb.ItemSetDict) else {"": found}
    return {name: (one.names, [*map(str, one)]) for name, one in by_type.items()}


def compare(ours: Any, theirs: Any) -> None:
    for name in ("csc_indptr", "indices", "type_per_edge", "node_type_offset"):
        one, other = getattr(ours.graph, name), getattr(theirs.graph, name)
        assert (one is None) == (other is None), name
        assert one is None or (one.dtype == other.dtype and torch.equal(one, other)), name
    assert ours.graph.node_type_to_id == theirs.graph.node_type_to_id
    assert ours.graph.edge_type_to_id == theirs.graph.edge_type_to_id
    one, other = (each.graph.edge_attributes[gb.ORIGINAL_EDGE_ID] for each in (ours, theirs))
    assert one.dtype == other.dtype and torch.equal(one, other)
    assert ours.feature._features.keys() == theirs.feature._features.keys()
    for key in ours.feature._features:
        one, other = ours.feature.read(*key), theirs.feature.read(*key)
        assert one.shape == other.shape, key
        assert one.numpy().tobytes() == other.numpy().tobytes(), key
    assert [task.metadata["name"] for task in ours.tasks] == [task.metadata["name"] for task in theirs.tasks]
    for one, other in zip(ours.tasks, theirs.tasks, strict=True):
        for name in ("train_set", "validation_set", "test_set"):
            assert items(getattr(one, name)) == items(getattr(other, name)), name


def train(dataset: Any, edges: dict[str, set[tuple[int, int]]]) -> int:
    """Train on the nodes of the training set; every sampled edge is in the input."""
    task = next(task for task in dataset.tasks if task.metadata["name"] == "node_classification")
    pipe = gb.ItemSampler(task.train_set, batch_size=8, shuffle=True)
    pipe = pipe.sample_neighbor(dataset.graph, [3, 3])
    pipe = pipe.fetch_feature(dataset.feature, node_feature_keys={"paper": ["feat"]})
    layer = torch.nn.Linear(8, 9)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.01)
    losses, sampled = [], 0
    loader = gb.DataLoader(pipe)
    for _ in range(3):
        for batch in loader:
            for subgraph in batch.sampled_subgraphs:
                for name, csc in subgraph.sampled_csc.items():
                    if not len(csc.indices):
                        continue
                    src_type, _, dst_type = name.split(":")
                    src = subgraph.original_row_node_ids[src_type][csc.indices]
                    dst = subgraph.original_column_node_ids[dst_type]
                    dst = dst.repeat_interleave(csc.indptr.diff())
                    assert {*zip(src.tolist(), dst.tolist(), strict=True)} <= edges[name], name
                    sampled += len(src)
            seeds = len(batch.labels["paper"])
            inputs = batch.node_features["paper", "feat"][:seeds].nan_to_num()
            loss = torch.nn.functional.cross_entropy(layer(inputs), batch.labels["paper"])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert np.mean(losses[-3:]) < np.mean(losses[:3])
    return sampled


def main(ours: str, raw: str, path: str) -> None:
    loaded = gb.OnDiskDataset(ours, force_preprocess=False).load()
    compare(loaded, gb.OnDiskDataset(raw, include_original_edge_id=True).load())
    try:
        gb.OnDiskDataset(ours)
        raise AssertionError("the data set would be made again")
    except json.JSONDecodeError:
        assert Path(ours, "preprocessed/metadata.yaml").is_file()
    arrays = np.load(path)
    edges = {name: {*zip(*arrays[name].tolist(), strict=True)} for name in arrays.files}
    sampled = train(loaded, edges) if "paper:cites:paper" in edges else 0
    print(f"compared; sampled {sampled} edges")


if __name__ == "__main__":
    main(*sys.argv[1:])
