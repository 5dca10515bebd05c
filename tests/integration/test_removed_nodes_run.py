"""Runs over tables whose nodes have been removed since the run before."""

from __future__ import annotations

import json
import random
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

import partition_ops
from partition_ops.artifacts.verified_run import read_migration
from partition_ops.storage import open_store
from tests.command_line import Called
from tests.tables import keys
from tests.unit.stages.ingest.test_removed_nodes import write_web

OPTIONS = {"num_parts": 3, "on_defect": "warn", "ignore_estimate": True}
NEW = [f"new{n}" for n in range(10)]


@pytest.fixture(scope="module", params=["renumber", "isolate"])
def runs(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The action, and a folder with a run ``before`` and a run ``out`` that continues it."""
    folder, generator = tmp_path_factory.mktemp("runs"), random.Random(request.param)
    pages = [f"p{n:03}" for n in range(600)]
    write_web(folder / "old", generator, pages, pages, request.param, links=3000)
    partition_ops.run(folder / "old/graph.yaml", folder / "before", **OPTIONS)
    left = [page for page in pages if generator.random() < 0.9] + NEW
    write_web(folder / "new", generator, left, [*pages, *NEW], request.param)
    # most edges stay, so that most nodes do
    links = (folder / "old/links.csv").read_text().splitlines()[1:]
    (folder / "new/links.csv").write_text("\n".join(["a,b,w", *links, "new0,new1,0.5", ""]))
    (folder / "new/words.csv").write_text((folder / "old/words.csv").read_text())
    result = partition_ops.run(
        folder / "new/graph.yaml", folder / "out", previous=folder / "before", drift=100, **OPTIONS
    )
    assert result.quality["migration"]["mode"] == "incremental", read_migration(
        open_store(str(folder / "out"))
    )
    return request.param, folder


def nodes(run: Path) -> dict[str, tuple[int, int]]:
    """Return the type-wise new ID and the partition of each page by its key."""
    found = pq.read_table(run / "idmap/nodes/page.parquet").to_pydict()
    names = keys(run / "ingest", "page")
    rows = zip(found["orig_id"], found["type_new_id"], found["part_id"], strict=True)
    return {names[orig]: (new, part) for orig, new, part in rows}


def test_nodes_that_stay_keep_their_partitions(runs: tuple[str, Path]) -> None:
    action, folder = runs
    before, now = nodes(folder / "before"), nodes(folder / "out")
    stay = before.keys() & now.keys()
    assert (len(stay) < len(before)) == (action == "renumber")
    moved = sum(before[key][1] != now[key][1] for key in stay)
    assert moved < len(stay) / 3
    migration = read_migration(open_store(str(folder / "out")))
    assert migration is not None
    page = migration["node_types"]["page"]
    assert (page["old"], page["moved"], page["new"]) == (len(stay), moved, len(NEW))


def test_embeddings_are_carried_over_by_key(runs: tuple[str, Path], tmp_path: Path, called: Called) -> None:
    _, folder = runs
    before, now = nodes(folder / "before"), nodes(folder / "out")
    stay = before.keys() & now.keys()
    expected = {(before[key][0], now[key][0]) for key in stay}
    done = called(
        "idmap", "carry-over", folder / "before", folder / "out", "--output", tmp_path, "--nodes-only"
    )
    assert done.returncode == 0, done.stderr
    maps = folder / "out/idmap/carry_over/nodes/page.parquet", tmp_path / "nodes/page.parquet"
    for path in maps:
        found = pq.read_table(path).to_pydict()
        assert {*zip(found["old_type_new_id"], found["type_new_id"], strict=True)} == expected
        assert found["old_new_id"] == sorted(found["old_new_id"]) and len(found["new_id"]) == len(stay)
    tables = [pq.read_table(path) for path in maps]
    assert tables[0].equals(tables[1])


def test_edges_of_other_nodes_are_not_carried_over(
    runs: tuple[str, Path], tmp_path: Path, called: Called
) -> None:
    _, folder = runs
    refused = called("idmap", "carry-over", folder / "before", folder / "out", "--output", tmp_path)
    assert refused.returncode == 3 and "--nodes-only" in refused.stderr


def test_the_output_is_verified_with_its_tables(runs: tuple[str, Path]) -> None:
    _, folder = runs
    report = partition_ops.verify(folder / "new/graph.yaml", folder / "out", tables=True)
    assert report.passed, report.failed


def test_a_wrong_map_is_noticed(runs: tuple[str, Path], tmp_path: Path) -> None:
    action, folder = runs
    mask = folder / "out/assignment/still_there/page.npy"
    assert mask.exists() == (action == "renumber")
    if not mask.exists():
        return
    data = mask.read_bytes()
    wrong = np.load(mask)
    wrong[:2] = ~wrong[:2]
    np.save(mask, wrong)
    report = partition_ops.verify(folder / "new/graph.yaml", folder / "out")
    assert not report.passed and "carry-over" in {one.name for one in report.failed}
    mask.write_bytes(data)


def test_a_run_after_another_graph_is_a_full_run(runs: tuple[str, Path], tmp_path: Path) -> None:
    """The map belongs to one graph: it does not fit the run before that one."""
    action, folder = runs
    write_web(tmp_path / "tables", random.Random(3), NEW, [*nodes(folder / "out")], action)
    result = partition_ops.run(
        tmp_path / "tables/graph.yaml", tmp_path / "again", previous=folder / "out", **OPTIONS
    )
    assert result.quality["migration"]["node_types"]["page"]["old"] == (
        len(NEW) if action == "renumber" else len(nodes(folder / "out"))
    )
    other = partition_ops.run(
        tmp_path / "again/ingest", tmp_path / "other", previous=folder / "before", **OPTIONS
    )
    migration = other.quality["migration"]
    assert migration["mode"] == "full" or action == "isolate"
    if action == "renumber":
        document = json.loads((tmp_path / "other/assignment/migration.json").read_text())
        assert "renumbered after a graph with" in document["reason"]
