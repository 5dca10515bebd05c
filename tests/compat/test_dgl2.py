"""DGL 2.1 loads outputs: its own servers and trainers, for the formats dgl and graphbolt."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from local_stack.processes import free_port
from tests.compat.conftest import HERE, ROOT, SECONDS
from tests.compat.expected import write_expected
from tests.e2e.guide import cluster
from tests.graphs import SmallGraph, library, social
from tests.train_graphs import partitioned

GRAPHS = {"library": library(papers=60), "social": social(people=70)}
SERVER = """
export DGL_ROLE=server DGL_SERVER_ID="$MACHINE"
python -c 'import dgl; dgl.distributed.initialize("ip_config.txt", use_graphbolt={graphbolt})'
"""
CLIENT = """
export RANK="$MACHINE"
python {client} {expected} {config} {form} {eids}
"""
SERVED: dict[str, dict[str, Any]] = {
    "coo": {},
    "csr": {"graph_formats": ("csr",)},
    "csc": {"graph_formats": ("csc",)},
    "all formats": {"graph_formats": ("coo", "csr", "csc")},
    "out-edges": {"out_edges": True},
}
CONVERTED: dict[str, dict[str, Any]] = {
    "eids": {},
    "none": {"graphbolt_attributes": ("none",)},
    "all": {"graphbolt_attributes": ("eids", "inner_node", "inner_edge")},
    "no halo": {"num_hops": 0},
    "two hops": {"num_hops": 2},
    "out-edges": {"out_edges": True},
    "csc": {"graph_formats": ("csc",)},
}


def serve(graph: SmallGraph, config: Path, form: str, folder: Path, dgl2: Path, *, eids: bool = True) -> None:
    """Start two servers and two trainers of DGL 2.1, which check everything."""
    write_expected(graph, str(folder / "output"), folder / "expected.npz")
    ports = [free_port() for _ in range(3)]
    env = {
        **os.environ,
        "PATH": f"{dgl2}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "tests/e2e/one_host"),
        "CLUSTER": f"{os.getpid()}",
        "DGLBACKEND": "pytorch",
        "OMP_NUM_THREADS": "1",
        "DGL_DIST_MODE": "distributed",
        "DGL_IP_CONFIG": "ip_config.txt",
        "DGL_CONF_PATH": str(config),
        "DGL_GRAPH_FORMAT": "csc",
        "DGL_NUM_SERVER": "1",
        "DGL_NUM_CLIENT": "2",
        "DGL_NUM_SAMPLER": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(ports[2]),
        "WORLD_SIZE": "2",
    }
    with cluster(folder / "machines", 2, env) as machines:
        machines.write("ip_config.txt", f"127.0.0.1 {ports[0]}\n127.0.0.1 {ports[1]}\n")
        servers = machines.start(SERVER.format(graphbolt=form == "graphbolt"))
        words = {"expected": folder / "expected.npz", "config": config, "form": form}
        client = HERE / "dist_client.py"
        clients = machines.start(CLIENT.format(client=client, eids="eids" if eids else "none", **words))
        machines.wait([*servers, *clients], seconds=SECONDS)
    logs = [path.read_text(errors="replace") for path in (folder / "machines/logs").iterdir()]
    values = len(graph.node_values) + len(graph.edge_values)
    assert sum(f"checked {values} features" in text for text in logs) == 2


@pytest.mark.parametrize("options", SERVED.values(), ids=SERVED)
def test_servers_load_the_format_dgl(options: dict[str, Any], dgl2: Path, tmp_path: Path) -> None:
    graph = GRAPHS["library"]
    partitioned(graph, tmp_path, num_parts=2, **options)
    form = "csr" if options.get("graph_formats") == ("csr",) else "dgl"
    serve(graph, tmp_path / "output/partitions/small.json", form, tmp_path, dgl2)


@pytest.mark.parametrize(("name", "eids"), [("library", True), ("library", False), ("social", True)])
def test_servers_load_the_format_graphbolt(name: str, eids: bool, dgl2: Path, tmp_path: Path) -> None:
    """From what ``fetch`` copies of it alone."""
    options = {} if eids else {"graphbolt_attributes": ("none",)}
    partitioned(GRAPHS[name], tmp_path, num_parts=2, formats=("graphbolt",), **options)
    config = tmp_path / "output/formats/graphbolt/small.json"
    serve(GRAPHS[name], config, "graphbolt", tmp_path, dgl2, eids=eids)


def test_dgl_makes_the_same_of_the_format_dgl(call: Callable[..., str], tmp_path: Path) -> None:
    cases = []
    for name, graph in GRAPHS.items():
        for case, options in CONVERTED.items():
            folder = tmp_path / f"{name} {case}"
            partitioned(graph, folder, num_parts=3, formats=("dgl", "graphbolt"), **options)
            shutil.copytree(folder / "output/partitions", folder / "copy")
            attributes = [a for a in options.get("graphbolt_attributes", ("eids",)) if a != "none"]
            ours = folder / "output/formats/graphbolt/small.json"
            cases.append([str(folder / "copy/small.json"), str(ours), attributes])
    (tmp_path / "cases.json").write_text(json.dumps(cases))
    assert f"compared {len(cases)} outputs" in call("to_graphbolt.py", tmp_path / "cases.json")
