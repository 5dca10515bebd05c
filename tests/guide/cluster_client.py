"""A trainer on a real ``DistGraph``: samplers of chapter 6.4, and the functions of docs/sampling.md.

``python cluster_client.py OUTPUT KIND`` fails if a sampler returns an edge that the graph does not have.
"""

from __future__ import annotations

import os
import sys
import traceback
from importlib import import_module
from pathlib import Path
from typing import Any

import dgl
import torch

from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.errors import UsageError
from partition_ops.storage import open_store
from partition_ops.train.samplers import (
    DropoutSampler,
    FanoutSampler,
    FrontierSampler,
    FullNeighborSampler,
    LocalitySampler,
    ReverseTypes,
    in_subgraph,
    remote_share,
    sample_neighbors,
)
from tests.train_graphs import assert_blocks_equal, both_ways, edges_of, in_memory, with_reverses

sys.path.insert(0, str(Path.cwd()))  # the functions of docs/sampling.md
link_prediction, locality, typed_sampling = map(
    import_module, ("link_prediction", "locality", "typed_sampling")
)

CITES, CITED = ("paper", "cites", "paper"), ("paper", "cited_by", "paper")
WRITES, WRITTEN = ("author", "writes", "paper"), ("paper", "written_by", "author")
REVERSE = {CITES: CITED, CITED: CITES, WRITES: WRITTEN, WRITTEN: WRITES}


class MultiLayerNeighborSampler(FrontierSampler):
    """The chapter's sampler, with functions that take a ``DistGraph``."""

    def __init__(self, fanouts: list[int | None]) -> None:
        super().__init__(len(fanouts))
        self.fanouts = fanouts

    def sample_frontier(self, block_id: int, g: Any, seed_nodes: Any) -> Any:
        fanout = self.fanouts[block_id]
        if fanout is None:
            return in_subgraph(g, seed_nodes)
        return sample_neighbors(g, seed_nodes, fanout)


def check_samplers(graph: Any, truth: Any, book: PartitionBook) -> int:
    """Sample the nodes of this machine's partition, and compare with the graph in memory."""
    gpb = graph.get_partition_book()
    seeds = {ntype: gpb.partid2nids(gpb.partid, ntype) for ntype in graph.ntypes}
    fanouts = [{CITES: 2, CITED: None, WRITES: 3, WRITTEN: 1, ("paper", "in", "venue"): 2}, 3]
    whole = [FullNeighborSampler(2), FanoutSampler([None, -1]), DropoutSampler(0, 2)]
    whole += [LocalitySampler([None, None]), MultiLayerNeighborSampler([None, None])]
    some = [FanoutSampler(fanouts), DropoutSampler(0.4, 2), LocalitySampler(fanouts)]
    some += [MultiLayerNeighborSampler([None, 2])]
    batches = 0
    for sampler in (*whole, *some):
        assert len(sampler) == 2
        loader = dgl.dataloading.DistNodeDataLoader(graph, seeds, sampler, batch_size=70)
        for _, outputs, blocks in loader:
            assert [block.canonical_etypes for block in blocks] == [truth.canonical_etypes] * 2
            if sampler in whole:
                own = dgl.dataloading.NeighborSampler([-1, -1], fused=False)
                assert_blocks_equal(blocks, own.sample(truth, outputs)[2])
            for block in blocks:
                check_edges(block, truth, gpb if isinstance(sampler, LocalitySampler) else None)
            batches += 1
    local = LocalitySampler([2], remote_weight=0).sample_blocks(graph, seeds)[2]
    assert remote_share(local) == 0 and local[0].num_edges(WRITES) > 0
    preferred, uniform = (sum(locality.remote_shares(graph, "paper", weight)) for weight in (0.01, 1))
    assert 0 < preferred < uniform
    return batches


def check_edges(block: Any, truth: Any, gpb: Any) -> None:
    for etype, edges in edges_of(block).items():
        src, dst, eids = torch.tensor(edges, dtype=torch.int64).reshape(-1, 3).T
        assert all(map(torch.equal, (src, dst), truth.find_edges(eids, etype=etype))), etype
        if gpb is not None:
            ends = [gpb.nid2partid(ids, t) for ids, t in ((src, etype[0]), (dst, etype[2]))]
            assert int(block.edges[etype].data["remote"].sum()) == int((ends[0] != ends[1]).sum())


def check_excluded(graph: Any) -> None:
    """DGL's own ``DistGraph.sample_neighbors`` draws excluded edges; ours does not."""
    seeds = {"paper": torch.arange(graph.num_nodes("paper"))}
    gone = {CITES: torch.arange(0, graph.num_edges(CITES), 2)}
    left = sample_neighbors(graph, seeds, -1, exclude_edges=gone).edges[CITES].data[dgl.EID]
    assert sorted(left.tolist()) == list(range(1, graph.num_edges(CITES), 2))
    # if this fails, DGL has fixed it: remove the remarks about it
    drawn = graph.sample_neighbors(seeds, -1, exclude_edges=gone).edges[CITES].data[dgl.EID]
    assert len(drawn) == graph.num_edges(CITES)


def check_link_prediction(graph: Any, truth: Any, output: Any) -> int:
    """Every in-edge of the seeds is in the block, except the edges of the batch and their reverses."""
    gpb = graph.get_partition_book()
    masks = {t: torch.ones(graph.num_edges(t), dtype=torch.bool) for t in (CITES, WRITES)}
    seeds = {t: dgl.distributed.edge_split(mask, gpb, etype=t) for t, mask in masks.items()}
    batches, mixed = 0, 0
    found_batches = link_prediction.batches(graph, output, seeds, REVERSE, fanouts=[None])
    for _, positive, negative, blocks in found_batches:
        gone: dict[Any, set[int]] = {etype: set() for etype in graph.canonical_etypes}
        for etype in set(positive.canonical_etypes) & set(REVERSE):
            eids = positive.edges[etype].data[dgl.EID]
            gone[etype] |= set(eids.tolist())
            src, dst = truth.find_edges(eids, etype=etype)
            reverse = truth.edge_ids(dst, src, etype=REVERSE[etype])
            gone[REVERSE[etype]] |= set(reverse.tolist())
            mixed += len(reverse) and not torch.equal(reverse, eids)
            assert negative.num_edges(etype) == 3 * len(eids)
        block = blocks[0]
        outputs = {t: block.dstnodes[t].data[dgl.NID] for t in truth.ntypes}
        for etype in truth.canonical_etypes:
            everything = truth.in_edges(outputs[etype[2]], form="eid", etype=etype).tolist()
            found = block.edges[etype].data[dgl.EID].tolist()
            assert sorted(found) == sorted(set(everything) - gone[etype]), etype
        batches += 1
    assert mixed  # new IDs of an edge and of its reverse differ
    return batches


def check_homogeneous(graph: Any, truth: Any, book: PartitionBook, reverse: Any) -> int:
    """The same with one type: seeds and edges are tensors, and reverse edges have other IDs."""
    gpb = graph.get_partition_book()
    whole = [FullNeighborSampler(2), FanoutSampler([None, -1]), LocalitySampler([None, None])]
    some = [FanoutSampler([3, 2], prob="weight"), DropoutSampler(0.4, 2), LocalitySampler([2, 3])]
    batches = 0
    for sampler in (*whole, *some):
        seeds = gpb.partid2nids(gpb.partid)
        for _, outputs, blocks in dgl.dataloading.DistNodeDataLoader(graph, seeds, sampler, batch_size=20):
            if sampler in whole:
                own = dgl.dataloading.NeighborSampler([-1, -1], fused=False)
                assert_blocks_equal(blocks, own.sample(truth, outputs)[2])
            for block in blocks:
                check_edges(block, truth, gpb if isinstance(sampler, LocalitySampler) else None)
            batches += 1
    sampler = FullNeighborSampler(1, reverse=ReverseTypes(book, {}, {"_E": reverse}))
    edges = dgl.distributed.edge_split(torch.ones(graph.num_edges(), dtype=torch.bool), gpb)
    loader = dgl.dataloading.DistEdgeDataLoader(graph, edges, sampler, batch_size=16, exclude="self")
    for _, positive, (block,) in loader:
        eids = positive.edata[dgl.EID]
        gone = {*eids.tolist(), *truth.edge_ids(*reversed(truth.find_edges(eids))).tolist()}
        assert len(gone) > len(eids)
        everything = truth.in_edges(block.dstdata[dgl.NID], form="eid").tolist()
        assert sorted(block.edata[dgl.EID].tolist()) == sorted(set(everything) - gone)
        batches += 1
    return batches


def check_refusals(graph: Any, book: PartitionBook) -> None:
    """What would leak silently is refused."""
    sampler = FullNeighborSampler(1, reverse=ReverseTypes(book, REVERSE))
    edges = {CITES: torch.arange(10)}
    wrong = FullNeighborSampler(1, reverse=ReverseTypes(book, {CITES: CITES}))
    for refused, exclude, text in ((sampler, None, 'exclude="self"'), (wrong, "self", "are not the reverse")):
        loader = dgl.dataloading.DistEdgeDataLoader(graph, edges, refused, batch_size=10, exclude=exclude)
        try:
            next(iter(loader))
        except UsageError as error:
            assert text in str(error), error
        else:
            raise AssertionError(f"not refused: exclude={exclude}")


def check_sampling_of_chapter_7_5(graph: Any, truth: Any) -> None:
    gpb = graph.get_partition_book()
    seeds, fanout = torch.arange(graph.num_nodes("paper")), -1
    cur = gpb.map_to_homo_nid(seeds, "paper")
    try:
        dgl.distributed.sample_neighbors(graph, cur, fanout, replace=False)
    except AssertionError:
        pass  # the chapter's call: dgl 1.1.3 takes homogeneous IDs of homogeneous graphs only
    else:
        raise AssertionError("DGL has fixed it: remove the remarks about it")
    block = typed_sampling.block_of(graph, seeds, fanout)
    check_edges(block, truth, None)
    assert sum(block.num_edges(t) for t in block.canonical_etypes) == sum(
        truth.num_edges(t) for t in truth.canonical_etypes if t[2] == "paper"
    )
    types, ids = typed_sampling.with_types(graph, block, "author")
    assert set(types.tolist()) == {graph.ntypes.index("author")}
    assert torch.equal(ids, block.srcnodes["author"].data[dgl.NID])


def check_sampling_with_homogeneous_ids(graph: Any, truth: Any) -> None:
    """The chapter's code, on a graph with one type."""
    gpb = graph.get_partition_book()
    seeds, fanout = torch.arange(10), 3
    cur = gpb.map_to_homo_nid(seeds, graph.ntypes[0])
    frontier = dgl.distributed.sample_neighbors(graph, cur, fanout, replace=False)
    block = dgl.to_block(frontier, cur)
    block.edata[dgl.EID] = frontier.edata[dgl.EID][block.edata[dgl.EID]]
    block.edata[dgl.ETYPE], block.edata[dgl.EID] = gpb.map_to_per_etype(block.edata[dgl.EID])
    block.srcdata[dgl.NTYPE], block.srcdata[dgl.NID] = gpb.map_to_per_ntype(block.srcdata[dgl.NID])
    block.dstdata[dgl.NTYPE], block.dstdata[dgl.NID] = gpb.map_to_per_ntype(block.dstdata[dgl.NID])
    check_edges(block, truth, None)
    assert block.num_edges() > 10 and not block.edata[dgl.ETYPE].any()
    assert torch.equal(block.dstdata[dgl.NID], seeds)


def check_policies(graph: Any) -> None:
    """DGL finds the partition policy by the number of rows, unless several types have that number."""
    found = dgl.distributed.DistTensor((graph.num_nodes("paper"), 1), torch.float32, "found")
    assert found.part_policy.policy_str == graph.get_node_partition_policy("paper").policy_str
    shape = (graph.num_edges(CITES), 1)  # as many as of its reverse
    try:
        dgl.distributed.DistTensor(shape, torch.float32, "ambiguous")
    except AssertionError as error:
        assert "Multiple partition policies" in str(error), error
    else:
        raise AssertionError("DGL has chosen one of several policies")
    policy = graph.get_edge_partition_policy(CITES)
    named = dgl.distributed.DistTensor(shape, torch.float32, "named", part_policy=policy)
    graph.edges[CITES].data["named"] = named
    assert graph.edges["cites"].data["named"][[0, 10, 20]].shape == (3, 1)


def main(output_uri: str, kind: str) -> None:
    dgl.distributed.initialize("ip_config.txt")
    torch.distributed.init_process_group("gloo")
    torch.manual_seed(int(os.environ["RANK"]))
    with open_store(output_uri) as output, PartitionBook(output) as book:
        graph = dgl.distributed.DistGraph(book.graph_name, part_config=f"data/{book.graph_name}.json")
        if kind == "homogeneous":
            source, reverse = both_ways()
            truth = in_memory(source, book)
            batches = check_homogeneous(graph, truth, book, reverse)
            check_sampling_with_homogeneous_ids(graph, truth)
        else:
            truth = in_memory(with_reverses(), book)
            batches = check_samplers(graph, truth, book)
            check_excluded(graph)
            batches += check_link_prediction(graph, truth, output)
            check_refusals(graph, book)
            check_sampling_of_chapter_7_5(graph, truth)
            check_policies(graph)
        torch.distributed.barrier()
    print(f"checked {batches} batches", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:])
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # DGL's way out waits for the other trainers, which wait for this one
