"""`IDConverter`, compared with the definition of homogeneous IDs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.chunked.id_converter import IDConverter
from partition_ops.chunked.metadata import parse_metadata
from partition_ops.errors import InvalidInputError

META = {
    "node_type": ["author", "none", "paper"],
    "num_nodes_per_chunk": [[2, 1], [0, 0], [4]],
    "edge_type": ["author:writes:paper", "paper:cites:paper", "author:cites:paper"],
    "num_edges_per_chunk": [[5], [0, 2], [1]],
}
counts = st.lists(st.integers(0, 6), min_size=1, max_size=5)


def converter_of(nodes: list[int], edges: list[int]) -> IDConverter:
    """Return a converter for some counts, with types n0, n1, … and n0:r0:n0, n0:r1:n0, …"""
    return IDConverter(
        {
            "node_type": [f"n{i}" for i in range(len(nodes))],
            "num_nodes_per_type": nodes,
            "edge_type": [f"n0:r{i}:n0" for i in range(len(edges))],
            "num_edges_per_type": edges,
        }
    )


def laid_out(sizes: list[int]) -> list[tuple[int, int]]:
    """Return type ID and type-wise ID by homogeneous ID: this is the definition."""
    return [(type_id, i) for type_id, size in enumerate(sizes) for i in range(size)]


@given(nodes=counts, edges=counts)
def test_every_id_converts_and_converts_back(nodes: list[int], edges: list[int]) -> None:
    converter = converter_of(nodes, edges)
    for homogeneous, (type_id, typed) in enumerate(laid_out(nodes)):
        name = converter.id2ntype(type_id)
        assert converter.nid_hom2het(homogeneous) == (name, typed)
        assert converter.nid_het2hom(name, typed) == homogeneous
        assert type(converter.nid_het2hom(name, np.int32(typed))) is int
    for homogeneous, (type_id, typed) in enumerate(laid_out(edges)):
        name = converter.id2etype(type_id)
        assert converter.eid_hom2het(homogeneous) == (name, typed)
        assert converter.eid_het2hom(name, typed) == homogeneous


@given(nodes=counts, data=st.data(), kind=st.sampled_from(["list", "numpy", "uint8", "2-d", "torch"]))
def test_mixed_types_in_one_array(nodes: list[int], data: st.DataObject, kind: str) -> None:
    torch = pytest.importorskip("torch")
    converter = converter_of(nodes, [1])
    order = data.draw(st.permutations(range(sum(nodes))))
    make: dict[str, Any] = {
        "list": lambda ids: ids,
        "numpy": np.array,
        "uint8": lambda ids: np.array(ids, np.uint8),
        "2-d": lambda ids: np.array(ids).reshape(-1, 1),
        "torch": torch.tensor,
    }
    ids = make[kind](list(order)) if order or kind == "list" else np.array([], np.int64)
    types, typed = converter.nid_hom2het(ids)
    expected = [laid_out(nodes)[i] for i in order]
    assert list(zip(types.reshape(-1).tolist(), typed.reshape(-1).tolist(), strict=True)) == expected
    assert (type(typed) is torch.Tensor) == (type(ids) is torch.Tensor)
    back = converter.nid_het2hom(types, typed)
    assert str(back.dtype).endswith("int64")
    assert back.shape == np.shape(ids)
    assert back.reshape(-1).tolist() == list(order)
    names = converter.id2ntype(types)
    assert converter.nid_het2hom(names, typed).reshape(-1).tolist() == list(order)
    assert converter.ntype2id(names).tolist() == types.tolist()


@given(nodes=counts, outside=st.integers(-(2**63), 2**63 - 1))
def test_ids_out_of_range_are_rejected(nodes: list[int], outside: int) -> None:
    converter = converter_of(nodes, [1])
    if not 0 <= outside < sum(nodes):
        for ids in (outside, [outside], np.array([*range(sum(nodes)), outside])):
            with pytest.raises(
                ValueError, match=r"homogeneous node ID.*out of range.*Found: " + str(outside)
            ):
                converter.nid_hom2het(ids)
    for type_id, size in enumerate(nodes):
        if not 0 <= outside < size:
            expected = f"0 to {size - 1}" if size else "the type is empty"
            with pytest.raises(InvalidInputError, match=f"'n{type_id}'.*Found: {outside}.*{expected}"):
                converter.nid_het2hom(f"n{type_id}", outside)


def test_boundaries_of_the_guides_example() -> None:
    """The sample code of the guide fails at the first ID of a type."""
    converter = IDConverter(META)
    assert [converter.nid_hom2het(i) for i in (0, 2, 3, 6)] == [
        ("author", 0),
        ("author", 2),
        ("paper", 0),
        ("paper", 3),
    ]
    assert converter.eid_hom2het(5) == ("paper:cites:paper", 0)
    assert converter.nid_het2hom("paper", 0) == 3


def test_one_type_for_many_ids_and_many_types_for_many_ids() -> None:
    converter = IDConverter(META)
    assert converter.nid_het2hom("paper", [0, 3]).tolist() == [3, 6]
    assert converter.nid_het2hom(["paper", "author"], [0, 0]).tolist() == [3, 0]
    assert converter.nid_het2hom(np.array([2, 0]), [0, 0]).tolist() == [3, 0]
    assert converter.eid_het2hom([("author", "cites", "paper"), "author:writes:paper"], 0).tolist() == [7, 0]


def test_ways_to_name_an_edge_type() -> None:
    converter = IDConverter(META)
    for name in ("author:writes:paper", ("author", "writes", "paper"), "writes", 0):
        assert converter.etype2id(name) == 0
    with pytest.raises(ValueError, match="several have the relation 'cites'"):
        converter.etype2id("cites")


@pytest.mark.parametrize("ids", [1.0, [0.5], True, "3", None, [2**70], [None], np.array(["a"])])
def test_values_that_are_not_integers_are_rejected(ids: Any) -> None:
    with pytest.raises(InvalidInputError):
        IDConverter(META).nid_hom2het(ids)


def test_error_names_the_position() -> None:
    with pytest.raises(InvalidInputError, match=r"'author' at position 1 .*Found: 3. Expected: 0 to 2"):
        IDConverter(META).nid_het2hom(["paper", "author"], [3, 3])
    with pytest.raises(InvalidInputError, match="Found: 18446744073709551615"):
        IDConverter(META).nid_hom2het(np.array([2**64 - 1], np.uint64))
    with pytest.raises(InvalidInputError, match=r"no node type 'venue'.*'author', 'none', 'paper'"):
        IDConverter(META).ntype2id("venue")
    with pytest.raises(InvalidInputError, match="do not match"):
        IDConverter(META).nid_het2hom(["paper", "author"], [0, 0, 0])
    for type_id in (-1, 3):
        with pytest.raises(InvalidInputError, match="node type ID is out of range"):
            IDConverter(META).id2ntype(type_id)


def test_parsed_metadata_is_the_same_as_json() -> None:
    files = {name: {"format": {"name": "csv"}, "data": ["x"]} for name in META["edge_type"]}
    parsed = parse_metadata({"graph_name": "g", "edges": files, **META}, where="here")
    every = np.arange(7)
    for one, two in zip(
        IDConverter(parsed).nid_hom2het(every), IDConverter(META).nid_hom2het(every), strict=True
    ):
        assert one.tolist() == two.tolist()


def test_metadata_without_counts_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="no counts of edges"):
        IDConverter({key: value for key, value in META.items() if key != "num_edges_per_chunk"})


def test_attributes_of_the_guide() -> None:
    converter = IDConverter(META)
    assert converter.node_type == META["node_type"] and converter.edge_type == META["edge_type"]
    assert converter.ntype2id_map == {"author": 0, "none": 1, "paper": 2}
    assert converter.etype2id_map[META["edge_type"][2]] == 2
    assert (converter.num_nodes, converter.num_edges) == ([3, 0, 4], [5, 2, 1])
    assert converter.nid_offset.tolist() == [0, 3, 3, 7]
    assert converter.eid_offset.tolist() == [0, 5, 7, 8]
