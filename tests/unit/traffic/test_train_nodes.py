"""Which nodes are train nodes."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import UsageError
from partition_ops.storage import open_store
from partition_ops.traffic.train_nodes import read_train_nodes, train_types
from tests.graphs import Edges, Layout, SmallGraph, Values

MASK = np.array([True, False, True, False])


def graph(*values: Values) -> SmallGraph:
    edges = {"a:r:b": Edges([0, 1], [1, 1]), "b:s:a": Edges([], [])}
    return SmallGraph({"a": 4, "b": 2, "c": 1}, edges, node_values=list(values))


def chosen(folder: Path, made: SmallGraph, *wanted: str) -> tuple[list[str], list[int]]:
    source = open_store(str(made.write(folder / "graph")))
    metadata = load_metadata(source)
    types = train_types(metadata, wanted)
    mask = read_train_nodes(source, metadata, types)
    return [str(one) for one in types], np.flatnonzero(mask).tolist()


TRAIN = Values("a", "train_mask", MASK)
LABEL = Values("b", "label", np.array([3, 4]))


@pytest.mark.parametrize("layout", [Layout("numpy"), Layout("csv", (1, 3)), Layout("parquet")])
def test_masks_come_first(tmp_path: Path, layout: Layout) -> None:
    mask = Values("a", "train_mask", MASK.astype(np.int8), layout)
    assert chosen(tmp_path, graph(LABEL, mask)) == (["a:train_mask"], [0, 2])


def test_labels_come_second(tmp_path: Path) -> None:
    assert chosen(tmp_path, graph(LABEL)) == (["b"], [4, 5])


def test_otherwise_types_with_in_edges(tmp_path: Path) -> None:
    assert chosen(tmp_path, graph()) == (["b"], [4, 5])


def test_types_and_masks_by_name(tmp_path: Path) -> None:
    other = Values("a", "val_mask", np.array([[0], [0], [0], [1]]))
    made = graph(TRAIN, other)
    assert chosen(tmp_path / "1", made, "c", "a") == (["a:train_mask", "c"], [0, 2, 6])
    assert chosen(tmp_path / "2", made, "a:val_mask") == (["a:val_mask"], [3])


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (["d"], "no node type 'd'"),
        (["a:mask"], "'a' has no feature 'mask'"),
        (["b:mask"], "it has no features"),
        (["a", "a:train_mask"], "twice"),
        (["a:wide"], "is not a mask"),
    ],
)
def test_wrong_names(tmp_path: Path, wanted: list[str], message: str) -> None:
    made = graph(TRAIN, Values("a", "wide", np.zeros((4, 2))))
    with pytest.raises(UsageError) as caught:
        chosen(tmp_path, made, *wanted)
    assert message in str(caught.value)
