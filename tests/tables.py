"""Small tables and a ``graph.yaml`` for tests of ``ingest``."""

from __future__ import annotations

import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from partition_ops.artifacts.tasks import StageResult
from partition_ops.stages.ingest.options import IngestConfig
from partition_ops.stages.ingest.tables_task import ingest_task
from partition_ops.storage import open_store

Rows = list[dict[str, Any]]
SHOP = """\
graph_name: shop
nodes:
  user:
    table: users/*.parquet
    key: user_id
    features:
      age: {transform: standardise, missing: mean}
      country: {transform: one-hot, missing: ""}
    label: churned
    split: {column: part, train: [train], val: [valid], test: [test]}
    text: [about]
  item:
    table: items.csv
    key: sku
    features: {price: {transform: bucket, boundaries: [10, 20]}, brand: {transform: hash, buckets: 16}}
  tag:
edges:
  user:rated:item: {table: ratings.jsonl, src: user_id, dst: sku, weight: stars, time: at}
  item:has:tag: {table: tags.parquet, src: sku, dst: tag}
"""
USERS = [
    {"user_id": "u7", "age": 31, "country": "de", "churned": "yes", "part": "train", "about": "a, b"},
    {"user_id": "u07", "age": None, "country": "fr", "churned": "no", "part": "train", "about": None},
    {"user_id": "ü1", "age": 21, "country": "de", "churned": "no", "part": "train", "about": "x"},
    {"user_id": "u2", "age": 40, "country": None, "churned": "yes", "part": "test", "about": "y"},
]
ITEMS = [
    {"sku": "007", "price": 9.5, "brand": "acme"},
    {"sku": "7", "price": 10.0, "brand": "acme"},
    {"sku": "x", "price": 25.0, "brand": "none"},
]
RATINGS = [
    {"user_id": "u7", "sku": "7", "stars": 4.5, "at": "2024-01-01 00:00:01"},
    {"user_id": "u7", "sku": "7", "stars": 1.5, "at": "2024-01-02 00:00:01"},
    {"user_id": "u2", "sku": "007", "stars": 3.0, "at": "1970-01-01 00:01:00"},
    {"user_id": "ü1", "sku": "x", "stars": 2.0, "at": "2024-01-01 00:00:02"},
]
TAGS = [{"sku": "x", "tag": "new"}, {"sku": "7", "tag": "old"}, {"sku": "007", "tag": "new"}]


def write_parquet(path: Path, rows: Rows) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.Table.from_pylist(rows), path)


def write_csv(path: Path, rows: Rows) -> None:
    lines = [
        ",".join(rows[0]),
        *(",".join("" if v is None else str(v) for v in row.values()) for row in rows),
    ]
    path.write_text("\n".join(lines) + "\n")


def write_json_lines(path: Path, rows: Rows) -> None:
    import json

    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def write_shop(
    folder: Path,
    *,
    users: Rows | None = None,
    items: Rows | None = None,
    ratings: Rows | None = None,
    tags: Rows | None = None,
    graph: str = SHOP,
    seed: int | None = None,
) -> Path:
    """Write the tables, with rows in another order for each seed, and return the folder."""
    tables = [[*rows] for rows in (users or USERS, items or ITEMS, ratings or RATINGS, tags or TAGS)]
    if seed is not None:
        for rows in tables:
            random.Random(seed).shuffle(rows)
    users, items, ratings, tags = tables
    half = len(users) // 2
    schema = pa.Table.from_pylist(users).schema
    (folder / "users").mkdir(parents=True, exist_ok=True)
    for name, rows in (("a", users[:half]), ("b", users[half:])):
        pq.write_table(pa.Table.from_pylist(rows, schema=schema), folder / "users" / f"{name}.parquet")
    write_csv(folder / "items.csv", items)
    write_json_lines(folder / "ratings.jsonl", ratings)
    write_parquet(folder / "tags.parquet", tags)
    (folder / "graph.yaml").write_text(graph)
    return folder


def ingest(folder: Path, output: Path, **more: Any) -> StageResult:
    previous = more.pop("previous", None)
    config = IngestConfig(**{"memory": 1 << 30, **more})
    return ingest_task(
        config,
        open_store(str(folder)),
        open_store(str(output)),
        previous=None if previous is None else open_store(str(previous)),
    ).run()


def feature(graph: Path, type_name: str, name: str, *, edges: bool = False) -> Any:
    folder = graph / ("edge_data" if edges else "node_data") / type_name
    return np.concatenate([np.load(path) for path in sorted(folder.glob(f"{name}-*.npy"))])


def keys(graph: Path, node_type: str) -> list[Any]:
    found: list[Any] = pq.read_table(graph / f"node_ids/{node_type}-0.parquet").column("key").to_pylist()
    return found


def edges(graph: Path, edge_type: str) -> list[tuple[int, int]]:
    table = pq.read_table(graph / f"edges/{edge_type}-0.parquet")
    return [*zip(table.column("src").to_pylist(), table.column("dst").to_pylist(), strict=True)]


def contents(graph: Path) -> Mapping[str, bytes]:
    """Return the files of a graph but for records, which have times."""
    paths = [path for path in graph.rglob("*") if path.is_file() and "records" not in path.parts]
    return {path.relative_to(graph).as_posix(): path.read_bytes() for path in sorted(paths)}
