"""Nodes of the previous graph that are in no table any more: ``on_removed``."""

from __future__ import annotations

import json
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest

from partition_ops.errors import InvalidInputError
from partition_ops.stages.ingest.previous_graph import continued_graph
from partition_ops.storage import open_store
from partition_ops.storage.local_store import LocalStore
from tests.tables import ITEMS, RATINGS, SHOP, TAGS, USERS, Rows, edges, feature, ingest, keys, write_shop

GRAPH = """\
graph_name: web
nodes:
  page:
    table: pages.csv
    key: id
    features: {size: , kind: {transform: one-hot}, both: {columns: [size, weight], transform: min-max}}
    label: kind
    split: {shares: [0.6, 0.2, 0.2]}
  word:
edges:
  page:links:page: {table: links.csv, src: a, dst: b, weight: w}
  page:has:word: {table: words.csv, src: a, dst: word}
"""


def without(rows: Rows, column: str, *values: str) -> Rows:
    return [row for row in rows if row[column] not in values]


def removed(graph: Path) -> list[tuple[str, int, str]]:
    found = json.loads((graph / "ingest.json").read_text())["findings"]
    return [(one["about"], one["count"], one["action"]) for one in found if one["check"] == "removed_nodes"]


@pytest.fixture
def old(tmp_path: Path) -> Path:
    ingest(write_shop(tmp_path / "old"), tmp_path / "graph")
    return tmp_path / "graph"


def shrunk(tmp_path: Path, action: str, **tables: Rows) -> Path:
    return write_shop(tmp_path / action, graph=f"on_removed: {action}\n{SHOP}", **tables)


def test_a_node_that_is_gone_is_an_error_unless_graph_yaml_allows_it(old: Path, tmp_path: Path) -> None:
    tables = write_shop(tmp_path / "new", users=without(USERS, "user_id", "u7"))
    with pytest.raises(InvalidInputError, match="1 node of the previous graph have no row") as refused:
        ingest(tables, tmp_path / "again", previous=old)
    assert "'u7'" in str(refused.value) and "on_removed: isolate" in str(refused.value.remedy)
    ingest(tables, tmp_path / "again", previous=old, on_removed="isolate")
    assert keys(tmp_path / "again", "user") == keys(old, "user")


def test_isolated_nodes_keep_their_ids_and_have_nothing_else(old: Path, tmp_path: Path) -> None:
    users = [*without(USERS, "user_id", "u7"), {**USERS[1], "user_id": "a new one"}]
    tables = shrunk(tmp_path, "isolate", users=users, items=without(ITEMS, "sku", "x"))
    ingest(tables, tmp_path / "new", previous=old)
    assert keys(tmp_path / "new", "user") == ["u07", "u2", "u7", "ü1", "a new one"]
    gone = keys(old, "user").index("u7")
    assert edges(tmp_path / "new", "user:rated:item") == [(1, 0)]  # both of u7, and one of x, are left out
    assert edges(tmp_path / "new", "item:has:tag") == [(0, 0), (1, 1)]
    masks = [feature(tmp_path / "new", "user", f"{part}_mask") for part in ("train", "val", "test")]
    assert not any(mask[gone] for mask in masks) and masks[0][0]
    assert feature(tmp_path / "new", "user", "label")[gone] == -1
    assert feature(tmp_path / "new", "user", "age")[gone] == 0
    assert removed(tmp_path / "new") == [
        ("user", 1, "isolate"),
        ("item", 1, "isolate"),
        ("user:rated:item", 2, "drop"),
        ("user:rated:item", 1, "drop"),
        ("item:has:tag", 1, "drop"),
    ]
    write_shop(tmp_path / "back", users=USERS, graph=f"on_removed: isolate\n{SHOP}")
    ingest(tmp_path / "back", tmp_path / "newer", previous=tmp_path / "new")  # u7 has come back
    assert keys(tmp_path / "newer", "user") == keys(tmp_path / "new", "user")
    assert removed(tmp_path / "newer") == [("user", 1, "isolate")]  # the new one is gone
    assert len(edges(tmp_path / "newer", "user:rated:item")) == 4


def test_kept_nodes_have_the_edges_that_name_them(old: Path, tmp_path: Path) -> None:
    tables = shrunk(tmp_path, "keep", users=without(USERS, "user_id", "u7"))
    ingest(tables, tmp_path / "new", previous=old)
    assert edges(tmp_path / "new", "user:rated:item") == edges(old, "user:rated:item")
    assert removed(tmp_path / "new") == [("user", 1, "keep")]
    assert not feature(tmp_path / "new", "user", "train_mask")[2]


def test_renumbered_nodes_have_a_map(old: Path, tmp_path: Path) -> None:
    tags = [*without(TAGS, "tag", "new"), {"sku": "007", "tag": "more"}]
    tables = shrunk(tmp_path, "renumber", users=without(USERS, "user_id", "u07", "u7"), tags=tags)
    ingest(tables, tmp_path / "new", previous=old)
    assert keys(tmp_path / "new", "user") == ["u2", "ü1"]
    assert keys(tmp_path / "new", "tag") == ["old", "more"]  # of a type without a table
    metadata = json.loads((tmp_path / "new/metadata.json").read_text())
    assert {name: one["num_previous"] for name, one in metadata["previous_ids"].items()} == {
        "user": 4,
        "tag": 2,
    }
    (file,) = metadata["previous_ids"]["user"]["data"]
    found = pq.read_table(tmp_path / "new" / file).to_pydict()
    assert found == {"orig_id": [0, 1], "previous_id": [1, 3]}
    assert edges(tmp_path / "new", "user:rated:item") == [(0, 0), (1, 2)]


def test_absent_keys_that_never_were_nodes_are_an_error_as_before(old: Path, tmp_path: Path) -> None:
    ratings = [*RATINGS, {**RATINGS[0], "user_id": "nobody"}]
    tables = shrunk(tmp_path, "isolate", users=without(USERS, "user_id", "u7"), ratings=ratings)
    with pytest.raises(InvalidInputError, match=r"1 row of ratings.jsonl .*'nobody' in ratings.jsonl, row 4"):
        ingest(tables, tmp_path / "new", previous=old)


def test_the_ids_of_isolated_nodes_can_be_made_again(old: Path, tmp_path: Path) -> None:
    """As ``verify`` does with tables that were ingested before the run."""
    tables = shrunk(tmp_path, "isolate", users=without(USERS, "user_id", "u7"))
    ingest(tables, tmp_path / "new", previous=old)
    (tmp_path / "before").mkdir()
    before = continued_graph(open_store(str(tmp_path / "new")), LocalStore(tmp_path / "before"))
    assert before is not None
    ingest(tables, tmp_path / "again", previous=tmp_path / "before")
    assert (tmp_path / "again/metadata.json").read_bytes() == (tmp_path / "new/metadata.json").read_bytes()


def write_web(
    folder: Path, generator: random.Random, pages: list[str], known: list[str], action: str, links: int = 300
) -> None:
    """Write pages, and links between all that are known, also those whose page is gone."""
    folder.mkdir()
    lines = [
        f"{page},{generator.randrange(9)},{generator.random()},{generator.choice('ab')}" for page in pages
    ]
    generator.shuffle(lines)
    (folder / "pages.csv").write_text("\n".join(["id,size,weight,kind", *lines, ""]))
    rows = [f"{generator.choice(known)},{generator.choice(known)},{n}" for n in range(links)]
    (folder / "links.csv").write_text("\n".join(["a,b,w", *rows, ""]))
    words = [f"{generator.choice(known)},w{generator.randrange(20)}" for _ in range(60)]
    (folder / "words.csv").write_text("\n".join(["a,word", *words, ""]))
    (folder / "graph.yaml").write_text(f"on_removed: {action}\n{GRAPH}")


def rows_of(path: Path) -> list[list[str]]:
    return [line.split(",") for line in path.read_text().split()[1:]]


@pytest.mark.parametrize("action", ["keep", "isolate", "renumber"])
@pytest.mark.parametrize("seed", range(3))
def test_random_deletions(action: str, seed: int, tmp_path: Path) -> None:
    generator = random.Random(f"{action} {seed}")
    graph = GRAPH.replace("size: ,", "size: {missing: 0},") if action == "keep" else GRAPH
    graph = graph.replace("one-hot}", 'one-hot, missing: ""}').replace("min-max}", "min-max, missing: 0}")
    everyone = [f"p{n}" for n in range(120)]
    alive, known, previous = everyone[:80], everyone[:80], None
    used = len(known)
    for step in range(3):
        tables, output = tmp_path / f"tables{step}", tmp_path / f"graph{step}"
        write_web(tables, generator, alive, known, action)
        text = (tables / "graph.yaml").read_text()
        if action == "keep":
            (tables / "graph.yaml").write_text(text.replace(GRAPH, graph))
        ingest(tables, output, previous=previous)
        check(tables, output, previous, alive, action)
        previous = output
        new, used = everyone[used : used + 20], used + 20
        known = [*keys(output, "page"), *new]  # edges also name those that go now, or that have gone before
        alive = [*(page for page in known[:-20] if generator.random() < 0.7), *new]


def check(tables: Path, output: Path, previous: Path | None, alive: list[str], action: str) -> None:
    """Compare a graph with its tables, read without our code, and with the graph before."""
    found = keys(output, "page")
    before = [] if previous is None else keys(previous, "page")
    kept = [key for key in before if action != "renumber" or key in alive]
    assert found == [*kept, *sorted({*alive} - {*before})]
    usable = {*found} if action == "keep" else {*alive}
    expected = Counter((a, b, float(w)) for a, b, w in rows_of(tables / "links.csv") if {a, b} <= usable)
    weights = feature(output, "page:links:page", "weight", edges=True).tolist()
    ends = edges(output, "page:links:page")
    assert Counter((found[a], found[b], w) for (a, b), w in zip(ends, weights, strict=True)) == expected
    words = keys(output, "word")
    expected_words = Counter((a, w) for a, w in rows_of(tables / "words.csv") if a in usable)
    assert Counter((found[a], words[b]) for a, b in edges(output, "page:has:word")) == expected_words
    size: dict[str, Any] = {row[0]: float(row[1]) for row in rows_of(tables / "pages.csv")}
    assert feature(output, "page", "size").tolist() == [size.get(key, 0) for key in found]
    masks = sum(feature(output, "page", f"{part}_mask").astype(int) for part in ("train", "val", "test"))
    assert masks.tolist() == [int(key in alive) for key in found]
    metadata = json.loads((output / "metadata.json").read_text())
    left_out = action == "renumber" and any(key not in alive for key in before)
    assert ("page" in metadata.get("previous_ids", {})) == left_out
    if left_out:
        entry = metadata["previous_ids"]["page"]
        old = np.concatenate([pq.read_table(output / f)["previous_id"].to_numpy() for f in entry["data"]])
        assert [before[one] for one in old] == kept and entry["num_previous"] == len(before)
