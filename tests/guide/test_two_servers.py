"""Chapters 6.4 and 7.5 on a ``DistGraph``, and docs/sampling.md: two real servers, and a trainer on each."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from local_stack.processes import free_port
from tests.e2e.guide import blocks_of, cluster, tools_on_path, two_servers
from tests.train_graphs import both_ways, partitioned, with_reverses

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
CLIENT = Path(__file__).with_name("cluster_client.py")
SECONDS = 240.0
FETCH = 'partition-ops fetch "$OUTPUT" --part "$MACHINE" --to data'
SERVER = """
export DGL_ROLE=server DGL_SERVER_ID="$MACHINE"
python -c 'import dgl; dgl.distributed.initialize("ip_config.txt")'
"""
TRAINER = f"""
export RANK="$MACHINE"
python {CLIENT} "$OUTPUT" "$KIND"
"""


@pytest.mark.parametrize("kind", ["heterogeneous", "homogeneous"])
def test_samplers_and_link_prediction_on_two_servers(kind: str, tmp_path: Path) -> None:
    graph = with_reverses() if kind == "heterogeneous" else both_ways()[0]
    output = partitioned(graph, tmp_path, num_parts=2)
    ports = [free_port() for _ in range(3)]
    env = {
        **os.environ,
        "CLUSTER": f"guide{os.getpid()}",
        "PATH": tools_on_path(os.environ["PATH"]),
        "PYTHONPATH": f"{ROOT / 'tests/e2e/one_host'}{os.pathsep}{ROOT}",
        "DGLBACKEND": "pytorch",
        "OMP_NUM_THREADS": "1",
        "OUTPUT": output,
        "KIND": kind,
        **two_servers("data/small.json", port=ports[2]),
    }
    with cluster(tmp_path / "machines", 2, env) as machines:
        machines.write("ip_config.txt", f"127.0.0.1 {ports[0]}\n127.0.0.1 {ports[1]}\n")
        for block in blocks_of(ROOT / "docs/sampling.md"):
            machines.write(block.how, block.text)
        machines.run(FETCH, seconds=SECONDS)
        servers = machines.start(SERVER)
        machines.run(TRAINER, seconds=SECONDS)
        machines.wait(servers, seconds=SECONDS)
    logs = [path.read_text(errors="replace") for path in (tmp_path / "machines/logs").iterdir()]
    checked = [int(n) for text in logs for n in re.findall(r"^checked (\d+) batches$", text, re.MULTILINE)]
    assert len(checked) == 2 and min(checked) > 12
