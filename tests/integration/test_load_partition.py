"""DGL loads what DGL itself cannot write, and what it loads adds up; no code of ``verify`` is used here."""

from __future__ import annotations

import collections
from pathlib import Path
from typing import Any

import pytest

from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import SHAPES, SmallGraph, library, social
from tests.temporary import temporary_folder

GRAPHS = {"library": library(), "social": social(), **SHAPES}
NUM_PARTS = 3
Loaded = list[tuple[Any, ...]]


@pytest.fixture(scope="module", params=GRAPHS)
def graph_and_parts(request: pytest.FixtureRequest) -> tuple[SmallGraph, Loaded]:
    graph = GRAPHS[request.param]
    with temporary_folder() as folder, pytest.MonkeyPatch.context() as patch:
        source = open_store(str(graph.write(Path(folder) / "input")))
        config = RunConfig(num_parts=graph.parts(NUM_PARTS), engine="random", on_defect="warn")
        run_job(config, source, open_store(f"{folder}/output"))
        patch.setenv("DGL_DIST_DEBUG", "1")
        load = import_dgl().distributed.load_partition
        path = f"{folder}/output/partitions/{graph.name}.json"
        return graph, [load(path, part) for part in range(graph.parts(NUM_PARTS))]


def test_nothing_is_lost_and_nothing_is_there_twice(graph_and_parts: tuple[SmallGraph, Loaded]) -> None:
    graph, parts = graph_and_parts
    assert sum(int(part[0].ndata["inner_node"].sum()) for part in parts) == sum(graph.nodes.values())
    assert sum(part[0].num_edges() for part in parts) == sum(len(edges.src) for edges in graph.edges.values())
    new_nodes = [i for part in parts for i in part[0].ndata["_ID"][part[0].ndata["inner_node"] == 1].tolist()]
    assert new_nodes == list(range(sum(graph.nodes.values())))
    new_edges = [i for part in parts for i in part[0].edata["_ID"].tolist()]
    assert new_edges == list(range(len(new_edges)))


def test_the_edges_are_those_of_the_input(graph_and_parts: tuple[SmallGraph, Loaded]) -> None:
    """As a multiset of (edge type, original ID, original source, original destination), edge by edge."""
    graph, parts = graph_and_parts
    expected = collections.Counter(
        (name, edge, src, dst)
        for name, edges in graph.edges.items()
        for edge, (src, dst) in enumerate(zip(edges.src, edges.dst, strict=True))
    )
    found: collections.Counter[tuple[str, int, int, int]] = collections.Counter()
    for local, _, _, book, *_ in parts:
        types = book.map_to_per_etype(local.edata["_ID"])[0].tolist()
        orig = local.ndata["orig_id"].tolist()
        edges = zip(types, local.edata["orig_id"].tolist(), *(e.tolist() for e in local.edges()), strict=True)
        found.update((list(graph.edges)[t], edge, orig[src], orig[dst]) for t, edge, src, dst in edges)
    assert found == expected


def test_the_destination_owns_the_edge(graph_and_parts: tuple[SmallGraph, Loaded]) -> None:
    """And a halo node is the source of at least one edge."""
    for local, *_ in graph_and_parts[1]:
        src, dst = local.edges()
        assert bool((local.ndata["inner_node"][dst] == 1).all())
        halo = (local.ndata["inner_node"] == 0).nonzero().flatten().tolist()
        assert set(halo) <= set(src.tolist())


def test_every_inner_node_has_its_row_of_each_feature(graph_and_parts: tuple[SmallGraph, Loaded]) -> None:
    graph, parts = graph_and_parts
    for value in (*graph.node_values, *graph.edge_values):
        key = f"{value.type_name}/{value.name}"
        kept = [part[1 if value.type_name in graph.nodes else 2][key] for part in parts]
        assert sum(len(rows) for rows in kept) == len(value.array)
        assert {tuple(rows.shape[1:]) for rows in kept} == {value.array.shape[1:]}
