"""The cached rows: which they are, what they save, and how they get to a trainer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import partition_ops
from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import Assignment
from partition_ops.chunked.metadata import load_metadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.storage import open_store
from partition_ops.traffic.hot_rows import Cacheable
from partition_ops.train.cached_rows import CachedRows, CachedTensor, attach_cache
from tests.graphs import Edges, SmallGraph, Values

USERS = 60
FEAT = np.random.default_rng(1).random((USERS, 3)).astype(np.float32)
AGE = np.arange(USERS, dtype=np.int64)


def shop(edges: int = 300) -> SmallGraph:
    random = np.random.default_rng(2)
    pairs = np.unique(
        np.column_stack([random.zipf(1.5, edges) % USERS, random.integers(0, 40, edges)]), axis=0
    )
    return SmallGraph(
        {"user": USERS, "item": 40},
        {"user:buys:item": Edges(pairs[:, 0].tolist(), pairs[:, 1].tolist())},
        name="shop",
        node_values=[Values("user", "feat", FEAT), Values("user", "age", AGE)],
    )


def run(folder: Path, share: float, graph: SmallGraph | None = None, **options: Any) -> Path:
    """Return the root of an output in three partitions."""
    source = folder / "graph"
    if not source.exists():
        (graph or shop()).write(source)
    output = folder / "out"
    settings = {"num_parts": 3, "engine": "random", "fanouts": (3,), "batch_size": 5, **options}
    partition_ops.run(str(source), str(output), cache_share=share, **settings)
    return output


def cached(output: Path, part: int, kind: str, name: str) -> np.ndarray:
    found: np.ndarray = np.load(output / layout.cache_folder(part) / kind / f"{name}.npy")
    return found


def test_the_most_read_remote_rows_are_chosen(tmp_path: Path) -> None:
    metadata = load_metadata(open_store(str(shop().write(tmp_path / "graph"))))
    parts = np.tile(np.array([0, 1], np.int32), 50)
    cacheable = Cacheable.of(metadata, Assignment(2, "metis", parts))
    reads = np.zeros(100, np.float32)
    reads[[1, 3, 5, 7]] = 2, 1, 3, 1
    reads[[0, 61]] = 9  # an own row, and a node without features
    assert [cacheable.room(0, share) for share in (0, 0.09, 0.1)] == [0, 2, 3]
    assert cacheable.hottest(0, reads, 0.09).tolist() == [1, 5]
    assert cacheable.hottest(0, reads, 0.1).tolist() == [1, 3, 5]  # 7 is read as often as 3
    assert cacheable.hottest(0, reads, 1).tolist() == [1, 3, 5, 7]


def test_files_have_the_rows_of_the_input(tmp_path: Path) -> None:
    output = run(tmp_path, 0.3)
    assignment = np.loadtxt(output / "assignment/user.txt", np.int64)
    order = np.argsort(assignment, kind="stable")  # original IDs by new ID
    for part in range(3):
        orig, new = (cached(output, part, kind, "user") for kind in ("orig_nids", "nids"))
        assert 0 < len(orig) <= 0.3 * (assignment == part).sum()
        assert (order[new] == orig).all() and (assignment[orig] != part).all()
        assert (np.diff(orig) > 0).all()
        assert cached(output, part, "node_feat", "user/feat").tobytes() == FEAT[orig].tobytes()
        assert cached(output, part, "node_feat", "user/age").tolist() == orig.tolist()
        assert not (output / layout.cache_folder(part) / "nids" / "item.npy").exists()
    listed = {one["key"] for one in json.loads((output / layout.MANIFEST).read_text())["artifacts"]}
    assert {key for key in listed if key.startswith("cache/")} == {
        str(path.relative_to(output)) for path in output.glob("cache/**/*.npy")
    }


def test_the_report_says_what_a_share_saves(tmp_path: Path) -> None:
    output = run(tmp_path, 0.0)
    assert not (output / "cache").exists()
    training = json.loads((output / layout.QUALITY_REPORT).read_text())["training"]
    curve = training["cache"]
    assert curve[0]["slowest"] == training["slowest"]["remote_rows_per_batch"] > 0
    assert curve[0]["remote_rows_per_batch"] == training["total"]["remote_rows_per_batch"]
    for key in ("slowest", "remote_rows_per_batch"):
        values = [one[key] for one in curve]
        assert values == sorted(values, reverse=True) and values[-1] < 0.6 * values[0]
    assert "--cache-share" in (output / layout.QUALITY_PAGE).read_text()


def test_fetch_brings_the_cache_of_the_partition(tmp_path: Path) -> None:
    output, folder = run(tmp_path, 0.3), tmp_path / "machine"
    fetch_partitions(open_store(str(output)), [1], folder)
    found = {str(path.relative_to(folder)) for path in folder.glob("cache/**/*.npy")}
    assert found and found == {str(path.relative_to(output)) for path in output.glob("cache/part1/**/*.npy")}
    assert fetch_partitions(open_store(str(output)), [1], folder)["bytes"] == 0


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_out_of_range_is_rejected(tmp_path: Path, share: float) -> None:
    with pytest.raises(UsageError, match="--cache-share"):
        run(tmp_path, share)


class Served:
    """A tensor that counts the rows that are read from it."""

    def __init__(self, rows: torch.Tensor) -> None:
        self.rows, self.shape, self.dtype = rows, rows.shape, rows.dtype
        self.asked: list[int] = []

    def __getitem__(self, ids: Any) -> torch.Tensor:
        self.asked += ids.tolist()
        return self.rows[ids]

    def __len__(self) -> int:
        return len(self.rows)


class Graph:
    """As much of a ``DistGraph`` as `attach_cache` uses."""

    class Of:
        def __init__(self, data: dict[str, Any]) -> None:
            self.data = data

    def __init__(self, data: dict[str, dict[str, Any]]) -> None:
        self.nodes = {ntype: self.Of(features) for ntype, features in data.items()}


def test_cached_rows_are_not_read_from_the_tensor(tmp_path: Path) -> None:
    output = run(tmp_path, 0.3)
    order = np.argsort(np.loadtxt(output / "assignment/user.txt", np.int64), kind="stable")
    served = {name: Served(torch.from_numpy(rows[order])) for name, rows in (("feat", FEAT), ("age", AGE))}
    graph = Graph({"user": dict(served)})
    rows = attach_cache(graph, output, 2)
    new = cached(output, 2, "nids", "user")
    ids = torch.randint(USERS, (200,))
    hot = np.isin(ids.numpy(), new)
    for name, tensor in served.items():
        found = graph.nodes["user"].data[name]
        assert torch.equal(found[ids], tensor.rows[ids])
        assert tensor.asked == ids[~hot].tolist()
        assert (rows[f"user/{name}"].found, rows[f"user/{name}"].missed) == (hot.sum(), (~hot).sum())
        assert len(found) == USERS and found.shape == tensor.shape
        assert torch.equal(found[new.tolist()], tensor.rows[new]) and len(tensor.asked) == (~hot).sum()
    assert 0 < hot.sum() < 200


def test_an_empty_cache_and_damaged_files(tmp_path: Path) -> None:
    ids, rows = tmp_path / "ids.npy", tmp_path / "rows.npy"
    np.save(ids, np.empty(0, np.int64))
    np.save(rows, np.empty((0, 2), np.float32))
    served = Served(torch.ones(4, 2))
    assert torch.equal(CachedTensor(served, CachedRows(ids, rows))[torch.arange(4)], torch.ones(4, 2))
    np.save(rows, np.empty((1, 2), np.float32))
    with pytest.raises(InvalidInputError, match="does not have a row for each ID"):
        CachedRows(ids, rows)
