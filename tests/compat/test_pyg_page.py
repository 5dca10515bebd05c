"""Every block of docs/pyg.md runs, and PyG's stores of two processes look up each other's features."""

from __future__ import annotations

import multiprocessing
import os
import re
from pathlib import Path
from typing import Any

import pytest
import torch

from local_stack.processes import free_port
from tests.contributing import ROOT
from tests.e2e.guide import cluster, run_page, tools_on_path
from tests.graphs import Edges
from tests.integration.test_train_example import FUNCTIONS, planted

SECONDS = 900  # most of it compiles loops, which takes minutes on busy cores
PORT = "29531"  # of the page


def look_up(root: str, rank: int, port: int, answers: Any) -> None:
    """Look up the features of all functions, in a process that has one of two partitions."""
    from torch_geometric.distributed import LocalFeatureStore
    from torch_geometric.distributed.dist_context import DistContext
    from torch_geometric.distributed.rpc import (
        RPCRouter,
        global_barrier,
        init_rpc,
        rpc_partition_to_workers,
        shutdown_rpc,
    )

    store = LocalFeatureStore.from_partition(root, rank)
    for ntype, entry in torch.load(f"{root}/part_{rank}/node_feats.pt").items():
        store.put_global_id(entry["id"], ntype)
    context = DistContext(rank, rank, 2, 2, "readers")
    init_rpc(context, "127.0.0.1", port)
    store.set_rpc_router(RPCRouter(rpc_partition_to_workers(context, 2, rank)))
    global_barrier()
    found = store.lookup_features(torch.arange(FUNCTIONS).flip(0), True, "function").wait()
    global_barrier()
    shutdown_rpc(graceful=True)
    answers.put((rank, len(store.get_global_id("function")), found.numpy().tobytes()))


def test_every_block_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, reader = planted(), tmp_path / "reader"
    everyone = [*range(FUNCTIONS)]
    graph.edges["function:calls:function"] = Edges(everyone, everyone[7:] + everyone[:7])  # no self-loops
    graph.write(tmp_path / "graph")
    reader.mkdir()
    for name, value in {
        "INPUT": str(tmp_path / "graph"),
        "OUTPUT": str(tmp_path / "out"),
        "OMP_NUM_THREADS": "1",
        "HOME": str(tmp_path),  # of the cache
        "PATH": tools_on_path(os.environ["PATH"]),
        "PYTHONPATH": str(ROOT),
    }.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(reader)
    monkeypatch.syspath_prepend(reader)
    port = free_port()
    with cluster(reader, 1, {**os.environ, "CLUSTER": f"{os.getpid()}"}) as machines:
        names = run_page(ROOT / "docs/pyg.md", machines, {PORT: str(port)}, seconds=SECONDS)
    assert names["losses"][-1] < names["losses"][0] / 2
    logs = "".join(path.read_text(errors="replace") for path in (reader / "logs").iterdir())
    # the lines of two processes may stand in one
    ends = dict(re.findall(r"rank (\d): loss [^,]*, [^,]*, parameters (-?\d+\.\d{6})", logs))
    assert len(ends) == 2 and len({*ends.values()}) == 1  # both have the same model

    processes = multiprocessing.get_context("spawn")
    answers, port = processes.SimpleQueue(), free_port()
    root = str(tmp_path / "out/formats/pyg")
    workers = [processes.Process(target=look_up, args=(root, rank, port, answers)) for rank in range(2)]
    for worker in workers:
        worker.start()
    found = sorted(answers.get() for _ in workers)
    for worker in workers:
        worker.join()
    values = {value.name: value.array for value in graph.node_values if value.type_name == "function"}
    assert sum(count for _, count, _ in found) == FUNCTIONS
    assert min(count for _, count, _ in found) > 0
    assert {rows for *_, rows in found} == {values["feat"][::-1].tobytes()}
