"""From tables to a graph: numbering, features, labels, masks and texts."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.ingest.tables_task import ingest_task
from partition_ops.storage import open_store
from tests.dying_store import DyingStore, Killed
from tests.tables import RATINGS, USERS, contents, edges, feature, ingest, keys, write_shop


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    ingest(write_shop(folder / "tables"), folder / "graph")
    return folder / "graph"


def test_nodes_are_numbered_by_their_keys(shop: Path) -> None:
    assert keys(shop, "user") == ["u07", "u2", "u7", "ü1"]
    assert keys(shop, "item") == ["007", "7", "x"]  # text stays as it is
    assert keys(shop, "tag") == ["new", "old"]  # a type without a table
    metadata = load_metadata(open_store(str(shop)))
    assert metadata.node_types == ("user", "item", "tag")
    assert metadata.num_nodes == (4, 3, 2)


def test_edges_join_the_rows_of_their_keys(shop: Path) -> None:
    users, items = keys(shop, "user"), keys(shop, "item")
    found = [(users[src], items[dst]) for src, dst in edges(shop, "user:rated:item")]
    assert sorted(found) == sorted((row["user_id"], row["sku"]) for row in RATINGS)
    assert feature(shop, "user:rated:item", "weight", edges=True).tolist() == [3.0, 1.5, 4.5, 2.0]
    assert feature(shop, "user:rated:item", "time", edges=True)[0] == 60  # seconds since 1970


def test_features_belong_to_their_nodes(shop: Path) -> None:
    ages = feature(shop, "user", "age")
    assert ages.dtype == np.float32
    assert ages.tolist() == pytest.approx([0.0, 14 / 5, 1.0, -1.0])  # mean 26, deviation 5 of training rows
    assert feature(shop, "user", "country").tolist() == [[0, 1], [0, 0], [1, 0], [1, 0]]
    assert feature(shop, "item", "price").tolist() == [0, 1, 2]
    brands = feature(shop, "item", "brand")
    assert brands[0] == brands[1] != brands[2]


def test_labels_masks_and_texts(shop: Path) -> None:
    assert feature(shop, "user", "label").tolist() == [0, 1, 1, 0]
    assert feature(shop, "user", "train_mask").tolist() == [True, False, True, True]
    assert feature(shop, "user", "test_mask").tolist() == [False, True, False, False]
    assert not feature(shop, "user", "val_mask").any()
    assert pq.read_table(shop / "node_text/user/about-0.parquet").column("about").to_pylist() == [
        None,
        "y",
        "a, b",
        "x",
    ]
    assert json.loads((shop / "ingest.json").read_text())["node_types"]["user"]["classes"] == ["no", "yes"]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_order_of_rows_changes_nothing(shop: Path, tmp_path: Path, seed: int) -> None:
    ingest(write_shop(tmp_path / "tables", seed=seed), tmp_path / "graph")
    theirs, ours = contents(shop), contents(tmp_path / "graph")
    assert [key for key in theirs if theirs[key] != ours[key]] in ([], ["ingest.json", "metadata.json"])


def test_a_task_that_is_done_is_not_done_again(tmp_path: Path) -> None:
    write_shop(tmp_path / "tables")
    assert not ingest(tmp_path / "tables", tmp_path / "graph").skipped
    before = contents(tmp_path / "graph")
    assert ingest(tmp_path / "tables", tmp_path / "graph", memory=2 << 30).skipped
    write_shop(tmp_path / "tables", users=[*USERS, {**USERS[0], "user_id": "u9"}])
    again = ingest(tmp_path / "tables", tmp_path / "graph")
    assert "changed" in again.reason
    write_shop(tmp_path / "tables")
    ingest(tmp_path / "tables", tmp_path / "graph")
    assert contents(tmp_path / "graph") == before


@pytest.mark.parametrize("lives", [0, 5, 14])
def test_a_killed_ingest_leaves_no_graph_and_is_repeated(shop: Path, tmp_path: Path, lives: int) -> None:
    tables, graph = open_store(str(shop.parent / "tables")), tmp_path / "graph"
    with pytest.raises(Killed):
        ingest_task(IngestConfig(memory=1 << 30), tables, DyingStore(graph, lives)).run()
    assert not (graph / "metadata.json").exists()
    ingest_task(IngestConfig(memory=1 << 30), tables, open_store(str(graph))).run()
    found = {key: data for key, data in contents(graph).items() if ".partial" not in key}
    assert found == contents(shop)
