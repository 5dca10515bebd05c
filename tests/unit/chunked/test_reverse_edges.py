"""``reverse_edges`` of metadata.json: types of reverse edges that are read from the files of the edges."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import load_metadata, parse_metadata
from partition_ops.chunked.reversed_graph import with_reverses
from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import Store, open_store
from partition_ops.verification.input_graph import read_edges
from tests.graphs import Layout, library, social
from tests.unit.chunked.test_metadata import good


def all_edges(source: Store) -> dict[str, tuple[Any, Any]]:
    """Edges by type, as stages read them; ``verify`` reads the same with its own code."""
    metadata = load_metadata(source)
    reader = EdgeReader(source, metadata)
    found: dict[str, tuple[Any, Any]] = {}
    for index, kind in enumerate(metadata.edge_types):
        chunks = [chunk for chunk in reader.chunks() if chunk.edge_type_id == index]
        blocks = [block for chunk in chunks for block in reader.blocks(chunk)]
        ends = tuple(np.concatenate([getattr(block, end) for block in blocks]) for end in ("src", "dst"))
        again = read_edges(source, metadata, index)
        assert all(np.array_equal(*pair) for pair in zip(ends, again, strict=True))
        found[str(kind)] = ends
    return found


@pytest.mark.parametrize("edges", ["csv", "parquet"])
def test_each_type_has_a_type_of_its_reverse_edges(tmp_path: Path, edges: str) -> None:
    plain = open_store(str(library(layout=Layout(edges)).write(tmp_path)))
    before, bytes_before = all_edges(plain), (tmp_path / "metadata.json").read_bytes()
    with with_reverses(plain) as source:
        found, metadata = all_edges(source), load_metadata(source)
        reverses = {f"{d}:rev_{r}:{s}" for s, r, d in (name.split(":") for name in before)}
        assert {*found} == {*before} | reverses
        for name, (src, dst) in before.items():
            reverse = metadata.reverse_edges[name]
            assert metadata.reverse_edges[reverse] == name
            assert np.array_equal(found[reverse][0], dst) and np.array_equal(found[reverse][1], src)
            shared = [
                {one.name: one.data.files for one in metadata.edge_features if one.type_name == kind}
                for kind in (name, reverse)
            ]
            assert shared[0] == shared[1]
        assert metadata.files() == load_metadata(plain).files()  # nothing is there twice
        assert source.stat("metadata.json") != plain.stat("metadata.json")
    assert (tmp_path / "metadata.json").read_bytes() == bytes_before


def test_a_homogeneous_graph_gets_its_reverse_edges_in_its_type(tmp_path: Path) -> None:
    plain = open_store(str(social().write(tmp_path)))
    ((name, (src, dst)),) = all_edges(plain).items()
    with with_reverses(plain) as source:
        ((found, ends),) = all_edges(source).items()
        assert found == name and load_metadata(source).is_homogeneous
        assert np.array_equal(ends[0], np.concatenate([src, dst]))
        assert np.array_equal(ends[1], np.concatenate([dst, src]))
        (weight,) = load_metadata(source).edge_features
        assert weight.data.files == load_metadata(plain).edge_features[0].data.files * 2


def test_wrong_rows_are_found_in_both_directions(tmp_path: Path) -> None:
    folder = library(layout=Layout("csv")).write(tmp_path / "graph")
    metadata = json.loads((folder / "metadata.json").read_text())
    file = folder / metadata["edges"]["author:writes:paper"]["data"][0]
    lines = file.read_text().splitlines()
    lines[3] = "x y"
    file.write_text("\n".join(lines) + "\n")
    with with_reverses(open_store(str(folder))) as source, open_store(str(tmp_path / "out")) as out:
        with pytest.raises(InvalidInputError, match="x y"):
            validate_graph(ValidateConfig(), source, out)
        found = json.loads((tmp_path / "out/validation/report.json").read_text())["defects"]
        assert {one["name"] for one in found} >= {"author:writes:paper", "paper:rev_writes:author"}


@pytest.mark.parametrize(
    ("reverses", "message"),
    [
        ({"a:x:b": "b:rev:a"}, "unknown edge type.*'a:x:b'"),
        ({"a:r:b": "a:rev:b"}, "cannot be the reverse.*'a' to 'b'.*'b' to 'a'"),
        ({"a:r:b": "b:a"}, "not canonical"),
        ({"a:r:b": "c:rev:a"}, "unknown node type"),
        ({"a:r:b": "b:x/y:a"}, "cannot be the name of a file"),
        ({"a:r:b": 1}, "reverse_edges"),
    ],
)
def test_messages(reverses: Any, message: str) -> None:
    with pytest.raises(InvalidInputError, match=f"(?s){message}"):
        parse_metadata({**good(), "reverse_edges": reverses}, where="m")


def test_a_type_that_is_there_is_the_reverse_if_it_has_as_many_edges() -> None:
    document = {**good(), "edge_type": ["a:r:b", "b:s:a"], "reverse_edges": {"a:r:b": "b:s:a"}}
    document["edges"]["b:s:a"] = document["edges"].pop("b:s:b")
    with pytest.raises(InvalidInputError, match=r"(?s)not each other's reverse.*5 and 0 edges"):
        parse_metadata(document, where="m")
    document["num_edges_per_chunk"] = [[3, 2], [5]]
    found = parse_metadata(document, where="m")
    assert found.reverse_edges == {"a:r:b": "b:s:a", "b:s:a": "a:r:b"} and len(found.edge_types) == 2


def test_labels_and_masks_stay_with_one_direction() -> None:
    document = good()
    document["edge_data"]["a:r:b"]["train_mask"] = {"format": {"name": "csv"}, "data": ["m/0.csv", "m/1.csv"]}
    document["edge_type"][1] = "b:s:b"
    found = parse_metadata({**document, "reverse_edges": {"a:r:b": "b:rev_r:a"}}, where="m")
    assert [one.key for one in found.edge_features] == ["a:r:b/w", "a:r:b/train_mask", "b:rev_r:a/w"]
    document = {**document, "edge_type": ["a:r:a", "b:s:b"]}
    document["edges"]["a:r:a"] = document["edges"].pop("a:r:b")
    document["edge_data"]["a:r:a"] = document["edge_data"].pop("a:r:b")
    with pytest.raises(InvalidInputError, match=r"(?s)would share 'train_mask'"):
        parse_metadata({**document, "reverse_edges": {"a:r:a": "a:r:a"}}, where="m")
