"""Cached rows: what ``verify`` finds, incremental runs, and real DGL servers whose trainers read them."""

from __future__ import annotations

import os
import pickle
import re
from pathlib import Path

import numpy as np
import pytest
import torch

from local_stack.processes import free_port
from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.storage import open_store
from partition_ops.train.pyg_stores import open_pyg_stores
from partition_ops.verification.verify import verify_output
from tests.e2e.guide import cluster, tools_on_path, two_servers
from tests.unit.stages.cache.test_cache_stage import FEAT, run, shop

ROOT = Path(__file__).parents[2]
SECONDS = 240.0
TRAINER = """
import sys

import dgl
import numpy as np
import torch

from partition_ops.train.cached_rows import attach_cache

dgl.distributed.initialize("ip_config.txt")
graph = dgl.distributed.DistGraph("shop", part_config="data/shop.json")
plain = graph.nodes["user"].data["feat"]
rows = attach_cache(graph, "data")["user/feat"]
ids = torch.arange(graph.num_nodes("user"))
found = graph.nodes["user"].data["feat"][ids]
assert torch.equal(found, plain[ids])
assert found.numpy().tobytes() == np.load(sys.argv[1]).tobytes()
pulled = []
pull = plain.kvstore.pull
plain.kvstore.pull = lambda name, id_tensor: pulled.append(len(id_tensor)) or pull(name, id_tensor)
hot = torch.from_numpy(np.load(f"data/cache/part{graph.get_partition_book().partid}/nids/user.npy"))
assert torch.equal(graph.nodes["user"].data["feat"][hot], found[hot]) and not pulled
graph.nodes["user"].data["feat"][ids]
assert pulled == [len(ids) - len(hot)] and len(hot) > 0
print("cached", rows.found, rows.missed, len(hot), flush=True)
dgl.distributed.exit_client()
"""
SERVER = """
export DGL_ROLE=server DGL_SERVER_ID="$MACHINE"
python -c 'import dgl; dgl.distributed.initialize("ip_config.txt")'
"""


def failed(folder: Path) -> list[str]:
    source, output = open_store(str(folder / "graph")), open_store(str(folder / "out"))
    return [check.name for check in verify_output(source, output).checks if not check.passed]


def test_verify_finds_wrong_rows_and_wrong_values(tmp_path: Path) -> None:
    output = run(tmp_path, 0.3)
    paths = [output / layout.cache_folder(1) / name for name in ("node_feat/user/feat.npy", "nids/user.npy")]
    for path in paths:
        before = path.read_bytes()
        values = np.load(path)
        values[-1] += 1
        np.save(path, values)
        assert "cached-rows" in failed(tmp_path)
        path.write_bytes(before)
    assert failed(tmp_path) == []
    paths[0].unlink()
    assert "cached-rows" in failed(tmp_path)


def test_another_assignment_forgets_a_cache_that_is_not_asked_for(tmp_path: Path) -> None:
    output = run(tmp_path, 0.3)
    run(tmp_path, 0.0)  # the same partitions: the cache still fits
    assert failed(tmp_path) == [] and (output / "cache").exists()
    run(tmp_path, 0.0, seed=5)
    assert failed(tmp_path) == [] and not [*output.glob("cache/**/*.npy")]


def test_an_incremental_run_has_its_own_cache(tmp_path: Path) -> None:
    before = run(tmp_path / "before", 0.3)
    output = run(tmp_path / "after", 0.3, shop(320), previous=str(before))
    assert failed(tmp_path / "after") == []
    assert [*output.glob("cache/part2/**/*.npy")]


@pytest.mark.parametrize("ids", ["original", "new"])
def test_stores_of_pyg_read_cached_rows(ids: str, tmp_path: Path) -> None:
    output = run(tmp_path, 0.3)
    fetch_partitions(open_store(str(output)), [1], tmp_path / "data")
    plain, _ = open_pyg_stores(str(output), ids=ids)
    stores, _ = open_pyg_stores(str(output), cached_rows=tmp_path / "data", part=1, ids=ids)
    order = np.argsort(np.loadtxt(output / "assignment/user.txt", np.int64), kind="stable")
    everyone = torch.arange(len(FEAT)).flip(0)
    for store in (stores, pickle.loads(pickle.dumps(stores))):  # as workers of a data loader do
        found = store.get_tensor("user", "x", everyone)
        assert torch.equal(found, plain.get_tensor("user", "x", everyone))
        assert found.numpy().tobytes() == (FEAT if ids == "original" else FEAT[order])[::-1].tobytes()
        rows = store.cached["user", "feat"]
        assert rows.found == len(rows) > 0 and rows.missed == len(FEAT) - len(rows)
        ages = store.get_tensor("user", "age", everyone[:9])
        assert torch.equal(ages, plain.get_tensor("user", "age", everyone[:9]))
    kind = layout.cached_orig_nodes if ids == "original" else layout.cached_nodes
    hot = np.load(tmp_path / "data" / kind(1, "user"))
    missed = rows.missed
    store.get_tensor("user", "x", torch.from_numpy(hot))
    assert rows.missed == missed  # nothing of the output was read
    with pytest.raises(InvalidInputError, match="There is no folder"):
        open_pyg_stores(str(output), cached_rows=tmp_path / "elsewhere", part=1)


@pytest.mark.long
def test_trainers_read_cached_rows_without_their_servers(tmp_path: Path) -> None:
    output = run(tmp_path, 0.3, num_parts=2)
    order = np.argsort(np.loadtxt(output / "assignment/user.txt", np.int64), kind="stable")
    np.save(tmp_path / "feat.npy", FEAT[order])  # by new ID
    ports = [free_port() for _ in range(3)]
    env = {
        **os.environ,
        "CLUSTER": f"{os.getpid()}",
        "DGLBACKEND": "pytorch",
        "OMP_NUM_THREADS": "1",
        "PATH": tools_on_path(os.environ["PATH"]),
        "PYTHONPATH": f"{ROOT / 'tests/e2e/one_host'}{os.pathsep}{ROOT}",
        "OUTPUT": str(output),
        **two_servers("data/shop.json", port=ports[2]),
    }
    with cluster(tmp_path / "machines", 2, env) as machines:
        machines.write("ip_config.txt", "".join(f"127.0.0.1 {port}\n" for port in ports[:2]))
        machines.write("trainer.py", TRAINER)
        machines.run('partition-ops fetch "$OUTPUT" --part "$MACHINE" --to data', seconds=SECONDS)
        servers = machines.start(SERVER)
        machines.run(f"python trainer.py {tmp_path}/feat.npy", seconds=SECONDS)
        machines.wait(servers, seconds=SECONDS)
    logs = "\n".join(path.read_text(errors="replace") for path in (tmp_path / "machines/logs").iterdir())
    counts = [
        tuple(map(int, found)) for found in re.findall(r"^cached (\d+) (\d+) (\d+)", logs, re.MULTILINE)
    ]
    assert len(counts) == 2
    for found, missed, hot in counts:
        assert found == 3 * hot > 0 and missed == 2 * (60 - hot)
