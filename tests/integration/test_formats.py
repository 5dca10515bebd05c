"""The output format dgl behind the protocol of formats, and the book, against what DGL loads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import in_group
from partition_ops.formats.format import reading_format
from partition_ops.storage import open_store
from tests.graphs import SmallGraph, library, social
from tests.train_graphs import partitioned

OPTIONS: list[dict[str, Any]] = [
    {},
    {"graph_formats": ("csc",)},
    {"graph_formats": ("csr", "coo")},
    {"num_hops": 0},
    {"num_hops": 2},
]


@pytest.mark.parametrize("options", OPTIONS, ids=str)
@pytest.mark.parametrize("graph", [library(papers=80), social(people=90)], ids=["library", "social"])
def test_arrays_are_what_dgl_loads(graph: SmallGraph, options: dict[str, Any], tmp_path: Path) -> None:
    output = open_store(partitioned(graph, tmp_path, **options))
    book = read_book(output)
    dgl = reading_format(book)
    for part in range(book.num_parts):
        found = {name: array.map(output) for name, array in dgl.arrays(output, part).items()}
        loaded = dgl.load(output, part)
        for name in loaded.keys() & found.keys():
            np.testing.assert_array_equal(found[name], loaded[name], err_msg=name)
        missing = loaded.keys() - found.keys() - {"nodes/inner", "edges/inner"}
        if "coo" in options.get("graph_formats", ("coo",)):
            assert not missing
        else:
            assert missing == {"edges/src", "edges/dst"}
            ids, indptr = found["edges/csc/edge_ids"], found["edges/csc/indptr"]
            np.testing.assert_array_equal(found["edges/csc/indices"], loaded["edges/src"][ids])
            dst = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
            np.testing.assert_array_equal(dst, loaded["edges/dst"][ids])


def test_one_group_is_found_alone(tmp_path: Path) -> None:
    output = open_store(partitioned(library(), tmp_path))
    dgl = reading_format(read_book(output))
    everything = dgl.arrays(output, 1)
    for group in ("node_features", "edge_features", "node_orig_ids", "edge_orig_ids"):
        assert in_group(dgl.arrays(output, 1, group=group), group) == in_group(everything, group) != {}


@pytest.mark.parametrize("published", [True, False])
def test_the_book_of_an_output_of_version_0_1_0(tmp_path: Path, *, published: bool) -> None:
    """It has none: what the partitions, the manifest and the records say is the same book."""
    uri = partitioned(library(), tmp_path, num_hops=2)
    output = open_store(uri)
    output.delete([layout.BOOK, *([] if published else [layout.MANIFEST])])
    book = read_book(output)
    config = output.read_json(f"partitions/{book.graph_name}.json")
    assert (book.num_hops, book.part_method) == (config["halo_hops"], config["part_method"])
    assert (book.node_ranges(), book.edge_ranges()) == (config["node_map"], config["edge_map"])
    assert book.node_types == list(config["ntypes"])
    assert book.edge_types == list(config["etypes"])
    assert book.formats == ("dgl",)


def test_a_book_of_another_graph_is_refused(tmp_path: Path) -> None:
    output = open_store(partitioned(library(), tmp_path))
    with pytest.raises(InvalidInputError, match="another graph"):
        read_book(output, "unknown")
