"""Chapter 7.1, preprocessing for distributed training, in its order; `partition_graph` beside our output.

The chapter's text for ParMETIS has its own tests, named in docs/guide.md.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from partition_ops import PartitionBook, open_store
from partition_ops.cli import main
from partition_ops.stages.idmap.return_mapping import return_mapping
from partition_ops.stages.partition.mpi.mpirun import mpi_environment, mpirun_command
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import Edges, SmallGraph, Values, library, social
from tests.mpi import needs_parmetis
from tests.train_graphs import in_memory, partitioned

dgl = import_dgl()
RNG = np.random.default_rng(0)
LIBRARY = library(papers=80)
MASKS = ("train_mask", "val_mask", "test_mask")


def labelled() -> SmallGraph:
    """A homogeneous graph in which the training, validation and test sets are communities."""
    nodes, group = 900, np.repeat([0, 1, 2, 3], [200, 100, 100, 500])
    src = RNG.integers(0, nodes, 5000)
    near = (
        np.searchsorted(group, group[src]) + RNG.integers(0, 1 << 30, 5000) % np.bincount(group)[group[src]]
    )
    dst = np.where(RNG.random(5000) < 0.95, near, RNG.integers(0, nodes, 5000))
    masks = [Values("_N", name, group == which) for which, name in enumerate(MASKS)]
    return SmallGraph(
        {"_N": nodes}, {"_N:_E:_N": Edges(src.tolist(), dst.tolist())}, masks, name="graph_name"
    )


def run(graph: SmallGraph, folder: Path, *options: str) -> Path:
    """Call the command line; return the folder of the output."""
    words = ["run", str(graph.write(folder / "in")), str(folder / "out"), "--on-defect", "warn", *options]
    assert main(words) == 0
    return folder / "out"


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The library in three partitions, with everything that `partition_graph` can write."""
    folder = tmp_path_factory.mktemp("library")
    found = run(LIBRARY, folder, "--num-parts", "3", "--engine", "metis")
    stores = [str(folder / "in"), "--output", str(found)]
    assert main(["idmap", *stores, "--vectors", "--part-maps"]) == 0
    assert main(["publish", *stores]) == 0
    return found


def load(output: Path, part: int) -> tuple[Any, ...]:
    config = next(path for path in (output / "partitions").glob("*.json"))
    loaded: tuple[Any, ...] = dgl.distributed.load_partition(str(config), part)
    return loaded


@pytest.mark.parametrize("method", ["random", "metis"])
def test_random_and_metis_partitioning(method: str, tmp_path: Path) -> None:
    found = run(social(), tmp_path, "--num-parts", "4", "--engine", method)
    config = json.loads(next((found / "partitions").glob("*.json")).read_text())
    assert (config["part_method"], config["num_parts"]) == (method, 4)


def test_new_ids_and_original_ids(output: Path) -> None:
    """``orig_id`` is in the data of the subgraphs; ``dgl.NID`` and ``dgl.EID`` are the new IDs."""
    for part in range(3):
        graph, _, _, book, *_ = load(output, part)
        inner = graph.ndata["inner_node"].bool()
        assert torch.equal(graph.ndata[dgl.NID][inner], book.partid2nids(part))
        assert torch.equal(graph.edata[dgl.EID], book.partid2eids(part))
        types, _ = book.map_to_per_ntype(graph.ndata[dgl.NID])
        assert torch.equal(types.int(), graph.ndata[dgl.NTYPE])
        counts = torch.tensor([*LIBRARY.nodes.values()])
        assert (graph.ndata["orig_id"] < counts[types]).all()


def test_files_of_the_output(output: Path) -> None:
    """The chapter's tree; DGL 1.1.3 writes node_feat.dgl for its node_feats.dgl, and so does this project."""
    names = {path.name for path in (output / "partitions").iterdir()}
    assert names == {"small.json", "node_map.npy", "edge_map.npy", "part0", "part1", "part2"}
    dgl.distributed.partition_graph(in_memory(social()), "social", 2, str(output.parent / "dgl"))
    theirs = {path.name for path in (output.parent / "dgl/part0").iterdir()}
    assert theirs == {"graph.dgl", "node_feat.dgl", "edge_feat.dgl"}
    assert theirs <= {path.name for path in (output / "partitions/part0").iterdir()}
    config = json.loads((output / "partitions/small.json").read_text())
    for part in range(3):  # readers take the names from the config
        named = {Path(config[f"part-{part}"][key]).name for key in ("part_graph", "node_feats", "edge_feats")}
        assert named == theirs


def test_node_map_and_edge_map(output: Path) -> None:
    """The partition of each node and edge, by homogeneous ID of the input."""
    node_map, edge_map = (np.load(output / f"partitions/{kind}_map.npy") for kind in ("node", "edge"))
    with open_store(str(output)) as store, PartitionBook(store) as book:
        expected = [
            book.nid2partid(book.nid_orig2new(np.arange(n), name), name) for name, n in LIBRARY.nodes.items()
        ]
        assert node_map.tolist() == np.concatenate(expected).tolist()
        expected = [
            book.eid2partid(book.eid_orig2new(np.arange(len(edges.src)), name), name)
            for name, edges in LIBRARY.edges.items()
        ]
        assert edge_map.tolist() == np.concatenate(expected).tolist()


@pytest.mark.parametrize("engine", [pytest.param("auto", marks=pytest.mark.long), "metis"])
def test_balance_ntypes(engine: str, tmp_path: Path) -> None:
    """``balance_ntypes=g.ndata['train_mask']``, and validation and test set as types of their own."""
    graph = labelled()
    groups = [np.flatnonzero(value.array) for value in graph.node_values]

    def uneven(folder: str, *names: str) -> list[float]:
        options = [word for name in names for word in ("--balance-ntypes", name)]
        found = run(graph, tmp_path / folder, "--num-parts", "2", "--engine", engine, *options)
        parts = np.loadtxt(found / "assignment/_N.txt", dtype=int)
        return [2 * np.bincount(parts[nodes]).max() / len(nodes) for nodes in groups]

    assert max(uneven("none", "none")) > 1.2
    assert max(uneven("default")) < 1.07
    assert uneven("one", "train_mask")[0] < 1.07
    assert max(uneven("two", "train_mask", "val_mask", "test_mask")) < 1.07


def test_balance_edges(tmp_path: Path) -> None:
    """``balance_edges``: in-degrees of the nodes of each type are even."""
    hubs = RNG.integers(0, 100, 4000)  # 100 of 1000 nodes have most in-edges
    edges = Edges(
        RNG.integers(0, 1000, 4500).tolist(), [*hubs.tolist(), *RNG.integers(0, 1000, 500).tolist()]
    )
    graph = SmallGraph({"_N": 1000}, {"_N:_E:_N": edges})
    found = run(graph, tmp_path, "--num-parts", "2", "--balance", "edges")
    report = json.loads((found / "quality/report.json").read_text())
    assert report["node_types"]["_N"]["imbalance"] < 1.07
    assert report["edge_types"]["_N:_E:_N"]["imbalance"] < 1.07


@pytest.mark.parametrize("name", ["graph-name", "1", "a b"])
def test_a_legal_graph_name(name: str, tmp_path: Path) -> None:
    words = ["run", str(social().write(tmp_path / "in")), str(tmp_path / "out"), "--num-parts", "2"]
    assert main([*words, "--graph-name", name]) in (2, 3)
    assert not (tmp_path / "out/partitions").exists()


@pytest.mark.parametrize("homogeneous", [True, False])
def test_return_mapping_restores_the_order(homogeneous: bool, output: Path, tmp_path: Path) -> None:
    """``orig_node_emb[node_map] = node_emb``, in Python and by ``idmap restore``."""
    graph = social() if homogeneous else LIBRARY
    out = Path(partitioned(graph, tmp_path, num_parts=4)) if homogeneous else output
    with open_store(str(out)) as store, PartitionBook(store) as book:
        node_map, edge_map = return_mapping(book)
        node_type = book.ntypes[-2 if not homogeneous else 0]
        node_map = node_map if homogeneous else node_map[node_type]
        assert isinstance(edge_map, torch.Tensor if homogeneous else dict)
        node_emb = torch.stack([node_map, 2 * node_map], dim=1)  # rows that say whose they are
        orig_node_emb = torch.zeros(node_emb.shape, dtype=node_emb.dtype)
        orig_node_emb[node_map] = node_emb
    assert orig_node_emb[:, 0].tolist() == [*range(len(node_emb))]
    np.save(tmp_path / "saved.npy", node_emb.numpy())
    words = ["--input", str(tmp_path / "saved.npy"), "--output", str(tmp_path / "restored.npy")]
    assert main(["idmap", "restore", str(out), "--node-type", node_type, *words]) == 0
    assert np.load(tmp_path / "restored.npy").tolist() == orig_node_emb.tolist()


TOY = SmallGraph(
    {"type0": 3, "type1": 4},
    {
        "type0:r:type1": Edges([0, 0, 1, 1, 2, 2], [0, 1, 1, 2, 2, 3]),
        "type1:s:type1": Edges([0, 1, 2], [1, 2, 3]),
    },
    name="toy",
)


@pytest.mark.parametrize(
    ("engine", "parts"),
    [("auto", 2), ("auto", 3), ("two-level", 3), ("metis", 2), ("metis", 3), ("random", 2)],
)
def test_the_toy_example_is_even(engine: str, parts: int, tmp_path: Path) -> None:
    """Three nodes of one type and four of the other: the same number of each in every partition."""
    found = run(TOY, tmp_path, "--num-parts", str(parts), "--engine", engine)
    for node_type in TOY.nodes:
        counts = np.bincount(np.loadtxt(found / f"assignment/{node_type}.txt", dtype=int), minlength=parts)
        assert counts.max() - counts.min() <= 1, (node_type, counts)


@needs_parmetis
def test_pm_dglpart_makes_the_toy_example_even(tmp_path: Path) -> None:
    text = tmp_path / "out/prepare"
    words = ["prepare", str(TOY.write(tmp_path / "in")), "--output", str(text.parent), "--format", "parmetis"]
    assert main(words) == 0
    command = [*mpirun_command(MpiOptions(ranks=1)), sys.executable, "-m", "partition_ops.cli"]
    subprocess.run(
        [*command, "pm-dglpart", "toy", "2"],
        cwd=text,
        env={**mpi_environment(), "PYTHONPATH": str(Path.cwd())},
        check=True,
    )
    parts = [(text / f"p{part}-toy_nodes.txt").read_text().splitlines() for part in range(2)]
    types = [[line.split()[1] for line in lines] for lines in parts]
    assert [found.count("1") for found in types] == [2, 2]
    assert sorted(found.count("0") for found in types) == [1, 2]


def test_the_schema_file_of_the_demo_code(tmp_path: Path) -> None:
    """``schema`` writes what the chapter's code makes of the same graph."""
    hg = in_memory(LIBRARY)
    g = dgl.to_homogeneous(hg)
    nid_ranges, eid_ranges = {}, {}
    for ntype in hg.ntypes:
        nid = torch.nonzero(g.ndata[dgl.NTYPE] == hg.get_ntype_id(ntype), as_tuple=True)[0]
        nid_ranges[ntype] = [int(nid[0]), int(nid[-1] + 1)]
    for etype in hg.etypes:
        eid = torch.nonzero(g.edata[dgl.ETYPE] == hg.get_etype_id(etype), as_tuple=True)[0]
        eid_ranges[etype] = [int(eid[0]), int(eid[-1] + 1)]
    written = tmp_path / "library.json"
    assert main(["schema", str(LIBRARY.write(tmp_path / "in")), "--output", str(written)]) == 0
    ours = json.loads(written.read_text())
    # DGL orders edge types by name, the schema by type ID
    sizes = {name: end - begin for name, (begin, end) in eid_ranges.items()}
    assert ours["nid"] == nid_ranges
    assert {name: end - begin for name, (begin, end) in ours["eid"].items()} == sizes


def test_features_by_the_code_of_the_chapter(output: Path) -> None:
    """The chapter's loops over our partitions give the features that are in our files."""
    hg = in_memory(LIBRARY)
    for part in range(3):
        graph, node_feats, edge_feats, *_ = load(output, part)
        node_data, edge_data = {}, {}
        for type_id, ntype in enumerate(LIBRARY.nodes):
            local_node_idx = torch.logical_and(
                graph.ndata["inner_node"].bool(), graph.ndata[dgl.NTYPE] == type_id
            )
            local_nodes = graph.ndata["orig_id"][local_node_idx].numpy()
            for name in hg.nodes[ntype].data:
                node_data[ntype + "/" + name] = hg.nodes[ntype].data[name][local_nodes]
        for type_id, etype in enumerate(LIBRARY.edges):
            triple = tuple(etype.split(":"))
            local_edges = graph.edata["orig_id"][graph.edata[dgl.ETYPE] == type_id]
            for name in hg.edges[triple].data:
                edge_data[etype + "/" + name] = hg.edges[triple].data[name][local_edges]
        for built, stored in ((node_data, node_feats), (edge_data, edge_feats)):
            assert built.keys() == stored.keys()
            for key, values in built.items():
                assert np.array_equal(
                    values.numpy(), stored[key].numpy(), equal_nan=values.is_floating_point()
                )


def test_every_option_of_partition_graph_is_somewhere() -> None:
    """docs/guide.md has a row for each argument of dgl 1.1.3."""
    import inspect

    page = (Path(__file__).parents[2] / "docs/guide.md").read_text()
    for name in inspect.signature(dgl.distributed.partition_graph).parameters:
        assert re.search(rf"`{name}`", page), name
