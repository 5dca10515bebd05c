"""DGL 2.1 loads outputs: its own servers and trainers, for the formats dgl and graphbolt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from examples.python_environment.__main__ import main as make_graph
from local_stack.processes import free_port
from tests.compat.conftest import HERE, ROOT, SECONDS
from tests.compat.expected import write_expected
from tests.e2e.guide import cluster, run_page, tools_on_path, two_servers
from tests.graphs import Edges, SmallGraph, Values, library, social
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


def serve(
    graph: SmallGraph,
    config: Path,
    form: str,
    folder: Path,
    dgl2: Path,
    *,
    eids: bool = True,
    cache: bool = False,
) -> None:
    """Start two servers and two trainers of DGL 2.1, which check everything, also with cached rows."""
    write_expected(graph, str(folder / "output"), folder / "expected.npz")
    ports = [free_port() for _ in range(3)]
    env = {
        **os.environ,
        "PATH": f"{dgl2}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": f"{ROOT / 'tests/e2e/one_host'}{os.pathsep}{ROOT}",
        "CACHE": str(folder / "output") if cache else "",
        "CLUSTER": f"{os.getpid()}",
        "DGLBACKEND": "pytorch",
        "OMP_NUM_THREADS": "1",
        **two_servers(str(config), port=ports[2]),
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
    assert sum("cached rows were read" in text for text in logs) == (2 if cache else 0)


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
    settings = {"cache_share": 0.3}
    partitioned(GRAPHS[name], tmp_path, num_parts=2, formats=("graphbolt",), **options, **settings)
    config = tmp_path / "output/formats/graphbolt/small.json"
    serve(GRAPHS[name], config, "graphbolt", tmp_path, dgl2, eids=eids, cache=True)


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


def test_every_block_of_the_guide(dgl2: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packages = tmp_path / "packages"
    for name in ("packaging", "tqdm", "requests", "idna", "jsonschema", "referencing"):
        for file in distribution(name).files or ():
            source = Path(str(file.locate()))
            if ".." not in file.parts and source.is_file() and source.suffix != ".pyc":
                (packages / file).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(source, packages / file)
    words = ["--site-packages", str(packages), "--chunks", "2"]
    assert make_graph([str(tmp_path / "graph"), *words]) == 0
    (tmp_path / "reader").mkdir()
    monkeypatch.chdir(tmp_path / "reader")
    env = {
        **os.environ,
        "INPUT": str(tmp_path / "graph"),
        "OUTPUT": str(tmp_path / "out"),
        "CLUSTER": f"{os.getpid()}",
        "DGLBACKEND": "pytorch",
        "OMP_NUM_THREADS": "1",
        "PATH": f"{dgl2}{os.pathsep}{tools_on_path(os.environ['PATH'])}",
        "PYTHONPATH": f"{ROOT / 'tests/e2e/one_host'}{os.pathsep}{ROOT}",
    }
    ports = {port: str(free_port()) for port in ("30050", "30051", "30060")}
    with cluster(tmp_path / "reader", 2, env) as machines:
        run_page(ROOT / "docs/graphbolt.md", machines, ports, seconds=SECONDS)
    logs = [path.read_text(errors="replace") for path in (tmp_path / "reader/logs").iterdir()]
    assert sum("epoch 1: loss" in text for text in logs) == 3
    assert sum("single, epoch 1: loss" in text for text in logs) == 1


def test_a_server_fails_on_a_feature_without_rows(dgl2: Path, tmp_path: Path) -> None:
    """docs/training.md says so of both versions; if it no longer fails, remove the remark there."""
    values = [Values("venue", "x", np.ones((1, 2), np.float32))]
    edges = {"paper:in:venue": Edges([*range(12)], [0] * 12)}
    graph = SmallGraph({"paper": 12, "venue": 1}, edges, values)
    partitioned(graph, tmp_path, num_parts=2, formats=("dgl", "graphbolt"))
    owner = int((tmp_path / "output/assignment/venue.txt").read_text())
    (tmp_path / "ip_config.txt").write_text("".join(f"127.0.0.1 {free_port()}\n" for _ in range(2)))
    config = tmp_path / "output/formats/graphbolt/small.json"
    settings = {**two_servers(str(config), port=free_port()), "DGL_ROLE": "server", "DGLBACKEND": "pytorch"}
    script = "import dgl; dgl.distributed.initialize('ip_config.txt', use_graphbolt=True)"
    done = subprocess.run(
        [dgl2 / "python", "-c", script],
        env={**os.environ, **settings, "DGL_SERVER_ID": str(1 - owner)},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode != 0 and "Failed to map shared memory" in done.stderr


def with_sets() -> SmallGraph:
    """A graph with all three sets of nodes, and one of edges."""
    graph, rng = GRAPHS["library"], np.random.default_rng(0)
    edges = len(graph.edges["paper:cites:paper"].src)
    return replace(
        graph,
        node_values=[
            *graph.node_values,
            Values("paper", "val_mask", rng.random(graph.nodes["paper"]) < 0.2),
            Values("author", "test_mask", (rng.random(graph.nodes["author"]) < 0.5).astype(np.uint8)),
        ],
        edge_values=[*graph.edge_values, Values("paper:cites:paper", "train_mask", rng.random(edges) < 0.5)],
    )


@pytest.mark.parametrize("name", ["library", "social"])
def test_graphbolt_makes_the_same_data_set(name: str, call: Callable[..., str], tmp_path: Path) -> None:
    graph = with_sets() if name == "library" else GRAPHS[name]
    partitioned(graph, tmp_path, formats=("dgl", "graphbolt-dataset"))
    write_raw(graph, tmp_path / "raw")
    np.savez(
        tmp_path / "edges.npz", **{e: np.array([edges.src, edges.dst]) for e, edges in graph.edges.items()}
    )
    ours = tmp_path / "output/formats/graphbolt-dataset"
    said = call("dataset.py", ours, tmp_path / "raw", tmp_path / "edges.npz")
    assert "compared; sampled" in said
    assert name == "social" or "sampled 0" not in said


def write_raw(graph: SmallGraph, folder: Path) -> None:
    """Write a graph as the raw data set that GraphBolt's documentation describes."""
    folder.mkdir()
    typed = len(graph.nodes) > 1
    kinds = {"train_mask": "train_set", "val_mask": "validation_set", "test_mask": "test_set"}
    tasks: dict[str, Any] = {"node_classification": {}, "link_prediction": {}}
    document: dict[str, Any] = {
        "dataset_name": graph.name,
        "graph": {"nodes": [], "edges": []},
        "feature_data": [],
    }

    def save(name: str, array: Any) -> dict[str, str]:
        np.save(folder / f"{name}.npy", array)
        return {"format": "numpy", "path": f"{name}.npy"}

    for ntype, count in graph.nodes.items():
        document["graph"]["nodes"].append({**({"type": ntype} if typed else {}), "num": count})
    for etype, edges in graph.edges.items():
        entry = save(etype, np.array([edges.src, edges.dst], np.int64))
        document["graph"]["edges"].append({**({"type": etype} if typed else {}), **entry})
    for domain, values in (("node", graph.node_values), ("edge", graph.edge_values)):
        for value in values:
            stem, of_type = f"{value.type_name}-{value.name}", {"type": value.type_name} if typed else {}
            entry = {"domain": domain, **of_type, "name": value.name, **save(stem, value.array)}
            document["feature_data"].append(entry)
            if value.name in kinds:
                ids = np.flatnonzero(value.array)
                if domain == "node":
                    labels = [
                        v.array[ids] for v in values if (v.type_name, v.name) == (value.type_name, "label")
                    ]
                    data = [{"name": "seed_nodes", **save(f"{stem}-ids", ids)}]
                    data += [{"name": "labels", **save(f"{stem}-labels", label)} for label in labels]
                else:
                    ends = graph.edges[value.type_name]
                    pairs = np.array([ends.src, ends.dst]).T[ids]
                    data = [{"name": "node_pairs", **save(f"{stem}-pairs", pairs)}]
                task = tasks["node_classification" if domain == "node" else "link_prediction"]
                task.setdefault(kinds[value.name], []).append({**of_type, "data": data})
    document["tasks"] = [{"name": name, **sets} for name, sets in tasks.items() if sets]
    (folder / "metadata.yaml").write_text(json.dumps(document))
