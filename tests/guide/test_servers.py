"""Real DGL servers: docs/distributed.md, and the degrees of the graph of chapter 6.4."""

from __future__ import annotations

import json
import os
import re
import shutil
from importlib.metadata import distribution
from pathlib import Path

import numpy as np
import pytest

from examples.python_environment.__main__ import main as make_graph
from local_stack.processes import StackError, free_port
from partition_ops import PartitionBook, open_store
from tests.e2e.airflow_site import wait_until
from tests.e2e.guide import cluster, run_page, tools_on_path, two_servers
from tests.graphs import Edges, SmallGraph, Values
from tests.guide.chapter_6_4 import DST, SRC
from tests.train_graphs import partitioned

pytestmark = pytest.mark.long

ROOT = Path(__file__).parents[2]
PORTS = ("30050", "30051", "30060")
SECONDS = 240.0
DISTRIBUTIONS = ("packaging", "tqdm", "requests", "idna", "jsonschema", "referencing")
SERVER = """
export DGL_ROLE=server DGL_SERVER_ID="$MACHINE"
python -c 'import dgl; dgl.distributed.initialize("ip_config.txt")'
"""
DEGREES = """
import dgl
dgl.distributed.initialize("ip_config.txt")
graph = dgl.distributed.DistGraph("small", part_config="data/small.json")
print("degrees", graph.out_degrees().tolist(), graph.in_degrees().tolist(), flush=True)
dgl.distributed.exit_client()
"""


def environment(**more: str) -> dict[str, str]:
    """Return the environment that makes this host several machines, whose servers have different ports."""
    return {
        **os.environ,
        "CLUSTER": f"{os.getpid()}",
        "DGLBACKEND": "pytorch",
        "OMP_NUM_THREADS": "1",
        "PATH": tools_on_path(os.environ["PATH"]),
        "PYTHONPATH": f"{ROOT / 'tests/e2e/one_host'}{os.pathsep}{ROOT}",
        **more,
    }


def python_environment(folder: Path) -> Path:
    """Write the graph of a few installed distributions."""
    packages = folder / "packages"
    for name in DISTRIBUTIONS:
        for file in distribution(name).files or ():
            source = Path(str(file.locate()))
            if ".." not in file.parts and source.is_file() and source.suffix != ".pyc":
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, packages / file)
    graph = folder / "graph"
    assert make_graph([str(graph), "--site-packages", str(packages), "--chunks", "1"]) == 0
    return graph


def logs(folder: Path) -> str:
    return "\n".join(path.read_text(errors="replace") for path in (folder / "logs").iterdir())


def test_every_block_of_the_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph, reader = python_environment(tmp_path), tmp_path / "reader"
    reader.mkdir()
    monkeypatch.chdir(reader)
    where = {"INPUT": str(graph), "OUTPUT": str(tmp_path / "out")}
    ports = dict(zip(PORTS, (str(free_port()) for _ in PORTS), strict=True))
    with cluster(reader, 2, environment(**where)) as machines:
        run_page(ROOT / "docs/distributed.md", machines, ports, seconds=SECONDS)
    document = json.loads((graph / "metadata.json").read_text())
    counts = {
        key: dict(zip(document[f"{key}_type"], document[f"num_{key}s_per_chunk"], strict=True))
        for key in ("node", "edge")
    }
    said = logs(reader)
    leaving = [int(n) for n in re.findall(r"(\d+) calls leave", said)]
    assert sum(leaving) == sum(counts["edge"]["function:calls:function"])  # each edge has one source
    losses = [[float(x) for x in re.findall(rf"epoch {epoch}: loss (\S+)", said)] for epoch in (0, 3)]
    assert len(losses[0]) == 2 and sum(losses[1]) < sum(losses[0])
    rows = np.load(reader / "functions.npy")
    assert rows.shape == (sum(counts["node"]["function"]), 16) and np.abs(rows).sum(axis=1).all()
    assert {path.name for path in reader.glob("machine*/optimizer_*")} == {"optimizer_0", "optimizer_1"}
    assert [*reader.glob("machine*/model.pt")] == [reader / "machine0/model.pt"]


def test_out_degrees_of_the_graph_of_chapter_6_4(tmp_path: Path) -> None:
    """38, as on an output of ``partition_graph``; without ``--out-edges``, edges that leave are missing."""
    graph = SmallGraph({"_N": 12}, {"_N:_E:_N": Edges(SRC, DST)})
    output = Path(partitioned(graph, tmp_path, num_parts=2, engine="random", out_edges=True))
    ports = [free_port() for _ in range(3)]
    env = environment(
        OUTPUT=str(output),
        **two_servers("data/small.json", port=ports[2]),
    )
    with cluster(tmp_path / "machines", 2, env) as machines:
        machines.write("ip_config.txt", "".join(f"127.0.0.1 {port}\n" for port in ports[:2]))
        machines.write("degrees.py", DEGREES)
        machines.run('partition-ops fetch "$OUTPUT" --part "$MACHINE" --to data', seconds=SECONDS)
        servers = machines.start(SERVER)
        machines.run("python degrees.py", seconds=SECONDS)
        machines.wait(servers, seconds=SECONDS)
    said = re.findall(r"^degrees (\[.*?\]) (\[.*?\])$", logs(tmp_path / "machines"), re.MULTILINE)
    assert len(said) == 2 and len(set(said)) == 1
    out_degrees, in_degrees = map(json.loads, said[0])
    cut = json.loads((output / "quality/report.json").read_text())["edge_cut"]["edges"]
    assert (sum(out_degrees), sum(in_degrees)) == (38, 38) and cut > 0
    with open_store(str(output)) as store, PartitionBook(store) as book:
        original = book.nid_new2orig(np.arange(12), "_N")
    assert out_degrees == np.bincount(SRC, minlength=12)[original].tolist()


EMPTY_SERVER = """
export DGL_ROLE=server DGL_SERVER_ID="$PART"
export DGL_CONF_PATH="$FOLDER/output$MACHINE/output/partitions/small.json"
exec python -c 'import dgl; dgl.distributed.initialize("ip_config.txt")'
"""


def test_a_server_fails_on_a_feature_without_rows(tmp_path: Path) -> None:
    """docs/training.md says so; if it no longer fails, remove the remark there."""
    papers, feature = Values("paper", "x", np.ones((12, 2), np.float32)), np.ones((1, 2), np.float32)
    for machine, values in enumerate(([papers, Values("venue", "x", feature)], [papers])):
        graph = SmallGraph(
            {"paper": 12, "venue": 1},
            {"paper:cites:paper": Edges([*range(11)], [*range(1, 12)])},
            node_values=values,
        )
        partitioned(graph, tmp_path / f"output{machine}", num_parts=2)
    owner = int((tmp_path / "output0/output/assignment/venue.txt").read_text())
    settings = two_servers("", port=free_port())
    env = environment(FOLDER=str(tmp_path), PART=str(1 - owner), **settings)
    with cluster(tmp_path / "machines", 2, env) as machines:
        machines.write("ip_config.txt", "".join(f"127.0.0.1 {free_port()}\n" for _ in range(2)))
        with_feature, without = machines.start(EMPTY_SERVER)
        with pytest.raises(StackError, match="Failed to map shared memory"):
            machines.wait([with_feature], seconds=SECONDS)
        log = tmp_path / "machines/logs/1.log"
        wait_until(lambda: "start graph service" in log.read_text(errors="replace"), seconds=SECONDS)
        assert without.status() is None
