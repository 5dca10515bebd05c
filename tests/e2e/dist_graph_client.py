"""A trainer that looks at a ``DistGraph`` from all sides; one runs on each machine.

``python dist_graph_client.py INPUT OUTPUT`` fails where the servers say anything else than the input graph
says, through the ID maps of the output.
"""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from typing import Any

import dgl
import numpy as np
import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import GraphMetadata, load_metadata
from partition_ops.chunked.names import EdgeType
from partition_ops.storage import Store, open_store

SEEDS = "function"
FANOUT = 3


def check_counts(graph: Any, metadata: GraphMetadata) -> None:
    assert graph.ntypes == list(metadata.node_types)
    assert graph.canonical_etypes == [edge_type.triple for edge_type in metadata.edge_types]
    assert (graph.num_nodes(), graph.num_edges()) == (sum(metadata.num_nodes), sum(metadata.num_edges))
    for name, count in zip(metadata.node_types, metadata.num_nodes, strict=True):
        assert graph.num_nodes(name) == count, name
    for edge_type, count in zip(metadata.edge_types, metadata.num_edges, strict=True):
        assert graph.num_edges(edge_type.triple) == count, edge_type


def check_features(graph: Any, metadata: GraphMetadata, source: Store, book: PartitionBook) -> int:
    """Every value of every feature, by type-wise ID, to the bit."""
    readers = feature_readers(source, metadata)
    for feature in (*metadata.node_features, *metadata.edge_features):
        of_nodes = feature in metadata.node_features
        if of_nodes:
            data = graph.nodes[feature.type_name].data[feature.name]
            orig = book.nid_new2orig(np.arange(len(data)), feature.type_name)
        else:
            data = graph.edges[tuple(feature.type_name.split(":"))].data[feature.name]
            orig = book.eid_new2orig(np.arange(len(data)), feature.type_name)
        found = data[torch.arange(len(data))].numpy()
        expected = readers[feature.key].take(np.arange(len(data)))[orig]
        assert found.shape == expected.shape, feature.key
        assert found.tobytes() == expected.tobytes(), feature.key
    return len(metadata.node_features) + len(metadata.edge_features)


def check_dist_tensor(graph: Any, book: PartitionBook) -> None:
    """Each machine writes its own rows of a tensor over one node type, and reads those of all."""
    part = graph.get_partition_book().partid
    count = graph.num_nodes(SEEDS)
    policy = graph.get_node_partition_policy(SEEDS)
    tensor = dgl.distributed.DistTensor((count, 2), torch.int64, "checked", part_policy=policy)
    mine = torch.from_numpy(book.partid2nids(part, SEEDS))
    rows = torch.stack([book.nid_new2orig(mine, SEEDS), mine], dim=1)
    tensor[mine] = rows
    torch.distributed.barrier()
    found = tensor[torch.arange(count)]
    assert found[:, 1].tolist() == list(range(count))
    assert found[:, 0].tolist() == book.nid_new2orig(np.arange(count), SEEDS).tolist()
    torch.distributed.barrier()


def check_sampling(graph: Any, metadata: GraphMetadata, source: Store, book: PartitionBook) -> int:
    """Every edge that is sampled is in the input; without a limit, every in-edge of the seeds is sampled."""
    seeds = torch.arange(graph.num_nodes(SEEDS))
    all_edges, some = (
        dgl.distributed.sample_neighbors(graph, {SEEDS: seeds}, fanout) for fanout in (-1, FANOUT)
    )
    degrees, sampled = np.zeros((2, len(seeds)), np.int64)
    for edge_type, src, dst in _edges(metadata, source):
        if edge_type.dst != SEEDS:
            continue
        whole = _sampled(all_edges, edge_type, book)
        assert sorted(whole) == list(zip(range(len(src)), src.tolist(), dst.tolist(), strict=True)), edge_type
        few = _sampled(some, edge_type, book)
        assert set(few) <= set(whole), edge_type
        assert len(set(few)) == len(few), edge_type
        degrees += np.bincount(dst, minlength=len(seeds))
        sampled += np.bincount(np.array([edge[2] for edge in few], np.int64), minlength=len(seeds))
    # the limit is one for the edges of all types together
    assert sampled.tolist() == np.minimum(degrees, FANOUT).tolist()
    return int(all_edges.num_edges())


def _sampled(frontier: Any, edge_type: EdgeType, book: PartitionBook) -> list[tuple[int, int, int]]:
    """Original IDs of the sampled edges of one type, of their sources and of their destinations."""
    if edge_type.triple not in frontier.canonical_etypes:
        return []
    src, dst = frontier.edges(etype=edge_type.triple)
    eids = frontier.edges[edge_type.triple].data[dgl.EID]
    originals = (
        book.eid_new2orig(eids, edge_type.triple),
        book.nid_new2orig(src, edge_type.src),
        book.nid_new2orig(dst, edge_type.dst),
    )
    return list(zip(*(ids.tolist() for ids in originals), strict=True))


def _edges(metadata: GraphMetadata, source: Store) -> Iterator[tuple[EdgeType, np.ndarray, np.ndarray]]:
    """The input's own edges, by type."""
    reader = EdgeReader(source, metadata)
    for type_id, edge_type in enumerate(metadata.edge_types):
        chunks = [chunk for chunk in reader.chunks() if chunk.edge_type_id == type_id]
        blocks = [block for chunk in chunks for block in reader.blocks(chunk)]
        empty = np.empty(0, np.int64)
        yield (
            edge_type,
            np.concatenate([empty, *(block.src for block in blocks)]),
            np.concatenate([empty, *(block.dst for block in blocks)]),
        )


def main(input_uri: str, output_uri: str) -> None:
    dgl.distributed.initialize("ip_config.txt")
    torch.distributed.init_process_group("gloo")
    with open_store(input_uri) as source, open_store(output_uri) as output, PartitionBook(output) as book:
        graph = dgl.distributed.DistGraph(book.graph_name)
        metadata = load_metadata(source)
        check_counts(graph, metadata)
        features = check_features(graph, metadata, source, book)
        check_dist_tensor(graph, book)
        edges = check_sampling(graph, metadata, source, book)
        torch.distributed.barrier()
    print(f"checked {features} features and {edges} sampled edges", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # DGL's way out waits for the other trainers, which wait for this one
