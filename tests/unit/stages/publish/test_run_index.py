"""The index of a graph's runs, which the page of all graphs reads."""

from __future__ import annotations

from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import latest_run
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.retention import RetentionConfig, delete_run, retain_runs
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_again, publish_run
from partition_ops.stages.publish.run_index import read_index, run_name
from partition_ops.storage import Store, open_store
from tests.graphs import library


@pytest.fixture(scope="module")
def _graph(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    folder = tmp_path_factory.mktemp("index")
    source = open_store(str(library().write(folder / "graph")))
    run_job(
        RunConfig(num_parts=2, engine="random", formats=("dgl",)), source, open_store(str(folder / "out"))
    )
    return source, folder / "out"


@pytest.fixture
def root(_graph: tuple[Store, Path], tmp_path: Path) -> Store:
    """The root of a graph with three published runs."""
    source, output = _graph
    for name in ("a", "b", "c"):
        run = tmp_path / "small" / "runs" / name
        run.mkdir(parents=True)
        for path in output.rglob("*"):
            if path.is_file() and path.name != layout.MANIFEST:
                copied = run / path.relative_to(output)
                copied.parent.mkdir(parents=True, exist_ok=True)
                copied.write_bytes(path.read_bytes())
        store = open_store(str(tmp_path / "small"))
        publish_run(PublishConfig(), source, store.child(f"runs/{name}"), latest=store)
    return store


def test_publishing_keeps_the_figures_of_every_run(root: Store) -> None:
    entries = root.read_json(layout.INDEX)["runs"]
    assert sorted(entry["run"] for entry in entries) == ["a", "b", "c"]
    report = root.read_json(f"runs/a/{layout.QUALITY_REPORT}")
    (found,) = [entry for entry in entries if entry["run"] == "a"]
    assert (found["edge_cut"], found["num_parts"]) == (report["edge_cut"]["fraction"], 2)
    assert (found["engine"], found["partition_config"]) == ("random", "partitions/small.json")
    assert found["defects"] == {"nonfinite_values": 40, "reversed_edges": 5}
    assert found["seconds"].keys() >= {"validate", "partition", "gather"}


def test_the_engine_that_auto_chose_is_named(root: Store) -> None:
    record = layout.record("partition")
    document = root.read_json(f"runs/a/{record}")
    document["counters"]["chosen"] = "metis"
    root.write_json(f"runs/a/{record}", document)
    root.delete([layout.INDEX, f"runs/b/{record}"])
    found = {entry["run"]: entry for entry in read_index(root)}
    assert found["a"]["chosen"] == "metis"
    assert "chosen" not in found["b"] and "broken" not in found["b"]
    assert "chosen" not in found["c"]


@pytest.mark.parametrize(
    "content",
    [
        None,
        b"",
        b"{}",
        b'{"version": 9, "runs": []}',
        b'{"version": 1, "runs": [{"run": "a", "published": "2026-01-01T00:00:00+00:00"}]}',
        b'{"version": 1, "runs": [{"run": "a", "published": "today", "broken": "so it says"}]}',
        b'{"version": 1, "runs": [{"run": "..", "published": "2026-01-01T00:00:00+00:00", "broken": ""}]}',
    ],
)
def test_an_index_that_is_gone_or_broken_is_read_from_the_runs(root: Store, content: bytes | None) -> None:
    before = read_index(root)
    root.delete([layout.INDEX])
    if content is not None:
        root.write_bytes(layout.INDEX, content)
    assert read_index(root) == before
    publish_run(
        PublishConfig(),
        open_store(root.read_json(f"runs/c/{layout.MANIFEST}")["input"]["uri"]),
        root.child("runs/c"),
        latest=root,
    )
    assert root.read_json(layout.INDEX)["runs"] == before


def test_a_broken_run_has_the_reason_and_breaks_nothing_else(root: Store) -> None:
    root.delete([layout.INDEX])
    root.write_bytes(f"runs/b/{layout.MANIFEST}", b"{")
    root.write_bytes(f"runs/c/{layout.QUALITY_REPORT}", b"[]")
    found = {entry["run"]: entry for entry in read_index(root)}
    assert "broken" not in found["a"]
    assert "manifest.json is damaged" in found["b"]["broken"]
    assert "quality/report.json" in found["c"]["broken"]


def test_retention_leaves_removed_runs_out(root: Store) -> None:
    retained = retain_runs(RetentionConfig(keep=1), root, now=2e10)
    gone = {uri.rpartition("/")[2] for uri in retained.removed}
    assert len(gone) == 2
    assert {entry["run"] for entry in read_index(root)} == {"a", "b", "c"} - gone


def test_an_older_run_is_published_again(root: Store) -> None:
    before = root.read_json(layout.INDEX)
    pointer = publish_again(root, "a")
    assert root.read_json(layout.LATEST) == pointer
    assert latest_run(root) == root.uri_of("runs/a")
    assert root.read_json(layout.INDEX) == before


@pytest.mark.parametrize(
    ("name", "missing"), [("none", None), ("a", layout.MANIFEST), ("a", "partitions/part0/graph.dgl")]
)
def test_only_a_whole_run_is_published_again(root: Store, name: str, missing: str | None) -> None:
    before = root.read_bytes(layout.LATEST)
    if missing:
        root.delete([f"runs/{name}/{missing}"])
    with pytest.raises(InvalidInputError):
        publish_again(root, name)
    assert root.read_bytes(layout.LATEST) == before


def test_one_run_is_deleted(root: Store) -> None:
    latest = run_name(str(latest_run(root)))
    (name, kept) = sorted({"a", "b", "c"} - {latest})
    size = sum(entry.size for entry in root.list(f"runs/{name}/"))
    assert delete_run(root, name) == size
    assert not [*root.list(f"runs/{name}/")]
    assert {entry["run"] for entry in read_index(root)} == {latest, kept}


def test_the_published_run_and_folders_of_others_are_not_deleted(root: Store) -> None:
    latest = run_name(str(latest_run(root)))
    root.write_bytes("runs/mine/notes.txt", b"")
    before = [entry.key for entry in root.list()]
    for name, reason in ((latest, "published last"), ("mine", "none of which"), ("none", "0 objects")):
        with pytest.raises(InvalidInputError, match=reason):
            delete_run(root, name)
    assert [entry.key for entry in root.list()] == before
