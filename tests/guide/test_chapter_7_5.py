"""Chapter 7.5, heterogeneous graph under the hood, in its order: its graph of types T0, T1 and R0 to R3.

`test_servers.py` has the chapter's last section, ``DistGraph`` and ``DistTensor`` on real servers, and
`test_two_servers.py` the example of sampling.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from partition_ops import IDConverter, PartitionBook, open_store
from partition_ops.system.dgl_import import import_dgl
from tests.graphs import Edges, SmallGraph, Values
from tests.train_graphs import partitioned

RNG = np.random.default_rng(0)
NODES = {"T0": 200, "T1": 200}
EDGES = {"T0:R0:T0": 300, "T0:R1:T1": 500, "T1:R2:T0": 400, "T1:R3:T1": 200}
GRAPH = SmallGraph(
    NODES,
    {name: Edges(*RNG.integers(0, 200, (2, count)).tolist()) for name, count in EDGES.items()},
    node_values=[Values("T0", "feat", RNG.normal(size=(200, 4)).astype(np.float32))],
)
dgl = import_dgl()


@pytest.fixture(scope="module")
def output(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return Path(partitioned(GRAPH, tmp_path_factory.mktemp("hood"), num_parts=2))


@pytest.fixture
def converter(output: Path) -> IDConverter:
    meta = json.loads((output.parent / "input/metadata.json").read_text())
    return IDConverter(meta)  # "meta is the JSON object loaded from metadata.json"


@pytest.fixture
def book(output: Path) -> Iterator[PartitionBook]:
    with open_store(str(output)) as store, PartitionBook(store) as found:
        yield found


def test_attributes_of_the_converter(converter: IDConverter) -> None:
    assert (converter.node_type, converter.edge_type) == ([*NODES], [*EDGES])
    assert converter.ntype2id_map == {"T0": 0, "T1": 1}
    assert converter.etype2id_map == {name: i for i, name in enumerate(EDGES)}
    assert (converter.num_nodes, converter.num_edges) == ([200, 200], [*EDGES.values()])
    assert converter.nid_offset.tolist() == [0, 200, 400]
    assert converter.eid_offset.tolist() == [0, 300, 800, 1200, 1400]


def test_conversion_of_types(converter: IDConverter) -> None:
    assert [converter.ntype2id(name) for name in NODES] == [0, 1]
    assert [converter.id2ntype(i) for i in range(2)] == [*NODES]
    assert [converter.etype2id(name) for name in EDGES] == [0, 1, 2, 3]
    assert [converter.id2etype(i) for i in range(4)] == [*EDGES]


@pytest.mark.parametrize(("kind", "types"), [("n", NODES), ("e", EDGES)])
def test_conversion_of_ids(converter: IDConverter, kind: str, types: dict[str, int]) -> None:
    """Every ID, the first of each type too, for which the chapter's code names the type before."""
    to_homogeneous, to_typed = (getattr(converter, f"{kind}id_{way}") for way in ("het2hom", "hom2het"))
    first = 0
    for name, count in types.items():
        for typed in (0, 1, count - 1):
            assert to_homogeneous(name, typed) == first + typed
            assert to_typed(first + typed) == (name, typed)
        for wrong in (-1, count):
            with pytest.raises(ValueError, match=name):
                to_homogeneous(name, wrong)
        first += count
    for wrong in (-1, first):
        with pytest.raises(ValueError, match=str(wrong)):
            to_typed(wrong)


def test_the_partition_book_of_dgl_and_ours(output: Path, book: PartitionBook) -> None:
    """The four conversions after partition loading, asked of DGL's book of each partition and of ours."""
    for part in range(2):
        gpb: Any = dgl.distributed.load_partition_book(str(output / "partitions/small.json"), part)[0]
        for each in (gpb, book):
            nodes = torch.arange(400)
            types, typed = each.map_to_per_ntype(nodes)
            for type_id, name in enumerate(NODES):
                mine = types == type_id
                assert sorted(typed[mine].tolist()) == [*range(200)]
                assert each.map_to_homo_nid(typed[mine], name).tolist() == nodes[mine].tolist()
            edges = torch.arange(1400)
            types, typed = each.map_to_per_etype(edges)
            for type_id, name in enumerate(EDGES):
                mine, triple = types == type_id, tuple(name.split(":"))
                assert sorted(typed[mine].tolist()) == [*range(EDGES[name])]
                assert each.map_to_homo_eid(typed[mine], triple).tolist() == edges[mine].tolist()


def test_new_ids_lead_back_to_the_input(output: Path, book: PartitionBook) -> None:
    """The chapter's homogeneous IDs before and after partitioning differ; the ID maps join them."""
    for name in NODES:
        assert book.nid_new2orig(book.nid_orig2new(np.arange(200), name), name).tolist() == [*range(200)]
    feats = GRAPH.node_values[0].array
    for part in range(2):
        _, node_feats, *_ = dgl.distributed.load_partition(str(output / "partitions/small.json"), part)
        mine = book.partid2nids(part, "T0")
        assert torch.equal(node_feats["T0/feat"], torch.from_numpy(feats[book.nid_new2orig(mine, "T0")]))
