"""A trainer of DGL 2.1 that looks at a ``DistGraph`` from all sides; one runs on each machine.

``python dist_client.py EXPECTED CONFIG FORMAT EIDS`` fails if the servers say anything else than the input.
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

FANOUT = 3


class Expected:
    """The input by new IDs, as `tests.compat.expected` writes it."""

    def __init__(self, path: str) -> None:
        self.arrays = dict(np.load(path))
        self.ntypes = self.arrays["ntypes"].tolist()
        self.etypes = [tuple(name.split(":")) for name in self.arrays["etypes"].tolist()]

    def edges(self, etype: tuple[str, str, str]) -> tuple[np.ndarray, np.ndarray]:
        name = ":".join(etype)
        return self.arrays[f"src/{name}"], self.arrays[f"dst/{name}"]

    def count(self, ntype: str) -> int:
        return int(self.arrays["node_ranges"][self.ntypes.index(ntype), :, :].ptp(axis=1).sum())

    def features(self, kind: str) -> Iterator[tuple[str, str, np.ndarray]]:
        for key, array in self.arrays.items():
            if key.startswith(f"{kind}_feature/"):
                yield *key.split("/")[1:], array


def check_counts(graph: Any, expected: Expected) -> None:
    assert graph.ntypes == expected.ntypes
    assert graph.canonical_etypes == expected.etypes
    for ntype in expected.ntypes:
        assert graph.num_nodes(ntype) == expected.count(ntype)
    for etype in expected.etypes:
        assert graph.num_edges(etype) == len(expected.edges(etype)[0])


def check_book(graph: Any, expected: Expected) -> None:
    book = graph.get_partition_book()
    assert book.num_partitions() == expected.arrays["node_ranges"].shape[1]
    maps = (book.nid2partid, book.map_to_per_ntype, book.map_to_homo_nid)
    _check_ids(expected.ntypes, expected.arrays["node_ranges"], *maps)
    maps = (book.eid2partid, book.map_to_per_etype, book.map_to_homo_eid)
    _check_ids(expected.etypes, expected.arrays["edge_ranges"], *maps)


def _check_ids(
    types: list[Any], ranges: np.ndarray, part_of: Any, to_typed: Any, to_homogeneous: Any
) -> None:
    for type_id, (name, by_part) in enumerate(zip(types, ranges, strict=True)):
        new = torch.from_numpy(np.concatenate([np.arange(*pair) for pair in by_part]))
        if not len(new):
            continue
        typed = torch.arange(len(new))
        parts = np.repeat(np.arange(len(by_part)), by_part[:, 1] - by_part[:, 0])
        assert part_of(new).tolist() == part_of(typed, name).tolist() == parts.tolist()
        found_types, found_typed = to_typed(new)
        assert set(found_types.tolist()) == {type_id}
        assert found_typed.tolist() == typed.tolist()
        assert to_homogeneous(typed, name).tolist() == new.tolist()


def check_features(graph: Any, expected: Expected) -> int:
    count = 0
    for kind, data in (("node", graph.nodes), ("edge", graph.edges)):
        for type_name, name, array in expected.features(kind):
            key = type_name if kind == "node" else tuple(type_name.split(":"))
            found = data[key].data[name][torch.arange(len(array))].numpy()
            assert found.shape == array.shape, (type_name, name)
            assert found.tobytes() == array.tobytes(), (type_name, name)
            count += 1
    return count


def check_cache(graph: Any, expected: Expected) -> None:
    """Features that read cached rows are the same as before."""
    from partition_ops.train.cached_rows import attach_cache

    cached = attach_cache(graph, os.environ["CACHE"])
    check_features(graph, expected)
    assert cached and all(rows.found == len(rows) for rows in cached.values())
    if sum(rows.found for rows in cached.values()):
        print("cached rows were read")


def check_embeddings(graph: Any, expected: Expected, ntype: str) -> None:
    """Each machine updates the rows of its nodes, and reads those of all."""
    book, count = graph.get_partition_book(), expected.count(ntype)
    policy = graph.get_node_partition_policy(ntype)
    embedding = dgl.distributed.DistEmbedding(count, 2, name="embedding", part_policy=policy)
    optimizer = dgl.distributed.optim.SparseAdam([embedding], lr=1.0)
    mine = book.partid2nids(book.partid, ntype)
    loss = embedding(mine).sum()
    loss.backward()
    optimizer.step()
    torch.distributed.barrier()
    found = embedding(torch.arange(count)).detach()
    assert bool((found < 0).all()), "a row was not updated"
    torch.distributed.barrier()


def check_sampling(graph: Any, expected: Expected, use_graphbolt: bool, eids: bool, by_type: bool) -> int:
    """Every sampled edge is in the input; without a limit, every in-edge of the seeds is sampled."""
    hetero = len(expected.etypes) > 1
    sample = dgl.distributed.sample_etype_neighbors if hetero else dgl.distributed.sample_neighbors
    total = 0
    for ntype in expected.ntypes:
        seeds = torch.arange(expected.count(ntype))
        homogeneous = graph.get_partition_book().map_to_homo_nid(seeds, ntype)
        for fanout in (-1, FANOUT):
            options = {"etype_sorted": by_type} if hetero else {}
            ids = homogeneous if hetero else seeds
            found = sample(graph, ids, fanout, use_graphbolt=use_graphbolt, **options)
            for etype in expected.etypes:
                if etype[2] != ntype:
                    continue
                triples = (
                    _homogeneous_edges(graph, found, etype, eids) if hetero else _edges(found, etype, eids)
                )
                whole = _all_edges(expected, etype, eids)
                wanted = np.bincount(expected.edges(etype)[1], minlength=len(seeds))
                if fanout > 0:
                    wanted = np.minimum(wanted, fanout)
                assert len(set(triples)) == len(triples) or not eids
                assert set(triples) <= whole, etype
                degrees = np.bincount(np.array([t[1] for t in triples], np.int64), minlength=len(seeds))
                assert degrees.tolist() == wanted.tolist(), (etype, fanout)
                total += len(triples)
    return total


def _all_edges(expected: Expected, etype: Any, eids: bool) -> set[tuple[int, ...]]:
    src, dst = expected.edges(etype)
    ids = [np.arange(len(src))] if eids else []
    return {*zip(src.tolist(), dst.tolist(), *(i.tolist() for i in ids), strict=True)}


def _edges(frontier: Any, etype: Any, eids: bool) -> list[tuple[int, ...]]:
    src, dst = frontier.edges(etype=etype)
    ids = [frontier.edges[etype].data[dgl.EID]] if eids else []
    return [*zip(src.tolist(), dst.tolist(), *(i.tolist() for i in ids), strict=True)]


def _homogeneous_edges(graph: Any, frontier: Any, etype: Any, eids: bool) -> list[tuple[int, ...]]:
    return _edges(frontier, etype, eids) if etype in frontier.canonical_etypes else []


class Mean(torch.nn.Module):
    """One layer, from the features of all sources to a number for each seed."""

    def __init__(self, graph: Any, inputs: dict[str, str]) -> None:
        super().__init__()
        width = {ntype: graph.nodes[ntype].data[name].shape[1] for ntype, name in inputs.items()}
        self.layers = torch.nn.ModuleDict({ntype: torch.nn.Linear(size, 1) for ntype, size in width.items()})

    def forward(self, block: Any, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
        total = torch.zeros(())
        for src_type, etype, dst_type in block.canonical_etypes:
            if src_type in inputs and block.num_edges((src_type, etype, dst_type)):
                sub = block[src_type, etype, dst_type]
                sub.srcdata["h"] = self.layers[src_type](inputs[src_type])
                sub.update_all(dgl.function.copy_u("h", "m"), dgl.function.mean("m", "n"))
                total = total + sub.dstdata["n"].sum()
        return total


def check_training(graph: Any, expected: Expected, ntype: str, eids: bool) -> int:
    """Train one epoch with a loader; every edge of its blocks is in the input."""
    book = graph.get_partition_book()
    seeds = dgl.distributed.node_split(torch.ones(expected.count(ntype), dtype=torch.bool), book, ntype=ntype)
    assert len(seeds)
    inputs = {t: n for t, n, array in expected.features("node") if array.ndim == 2}
    model = Mean(graph, inputs)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    sampler = dgl.dataloading.NeighborSampler([FANOUT, FANOUT])
    hetero, batches, seen = len(expected.ntypes) > 1, 0, set()
    loader = dgl.dataloading.DistNodeDataLoader(
        graph, {ntype: seeds} if hetero else seeds, sampler, batch_size=8, shuffle=True
    )
    for source_ids, seed_ids, blocks in loader:
        batches += 1
        by_type = source_ids if hetero else {ntype: source_ids}
        seen |= {*(seed_ids[ntype] if hetero else seed_ids).tolist()}
        for block in blocks:
            for etype in block.canonical_etypes:
                src, dst = block.edges(etype=etype)
                src, dst = (
                    block.srcnodes[etype[0]].data[dgl.NID][src],
                    block.dstnodes[etype[2]].data[dgl.NID][dst],
                )
                found = [*zip(src.tolist(), dst.tolist(), strict=True)]
                assert {*found} <= {edge[:2] for edge in _all_edges(expected, etype, eids)}, etype
        values = {
            t: graph.nodes[t].data[name][by_type[t]].float().nan_to_num()
            for t, name in inputs.items()
            if t in by_type
        }
        loss = model(blocks[0], values)
        if loss.requires_grad:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    assert seen == {*seeds.tolist()}
    assert any(not torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))
    return batches


def main(path: str, config: str, form: str, eids: bool) -> None:
    use_graphbolt, by_type = form == "graphbolt", form != "csr"
    assert dgl.__version__.startswith("2.1")
    dgl.distributed.initialize("ip_config.txt", use_graphbolt=use_graphbolt)
    torch.distributed.init_process_group("gloo")
    expected = Expected(path)
    graph = dgl.distributed.DistGraph("small", part_config=config)
    ntype = max(expected.ntypes, key=expected.count)
    check_counts(graph, expected)
    check_book(graph, expected)
    features = check_features(graph, expected)
    edges = check_sampling(graph, expected, use_graphbolt, eids, by_type)
    check_embeddings(graph, expected, ntype)
    # the loaders do not tell DGL that a CSC made of CSR has no order by type
    batches = check_training(graph, expected, ntype, eids) if by_type else 0
    if os.environ["CACHE"]:
        check_cache(graph, expected)
    torch.distributed.barrier()
    print(f"checked {features} features, {edges} sampled edges, {batches} batches", flush=True)


if __name__ == "__main__":
    try:
        main(*sys.argv[1:4], sys.argv[4] == "eids")
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)  # DGL's exit waits for the other trainers, which wait for this one
