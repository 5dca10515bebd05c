"""Runs that follow an earlier one over a graph that has grown since."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from partition_ops.artifacts import layout
from partition_ops.cli import main
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.options.declare import StageConfig
from partition_ops.stages.convert.convert import convert_graph
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.write_assignment import import_assignment
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.verification import verify_output
from tests.graphs import SmallGraph, library
from tests.growth import grown
from tests.strategies import graphs

ENGINES = ("auto", "metis", "random", "two-level")


def run(
    graph: SmallGraph, folder: Path, previous: Store | None = None, **options: Any
) -> tuple[Store, Store]:
    """Input and output of a whole job."""
    source, output = open_store(str(graph.write(folder / "in"))), open_store(str(folder / "out"))
    config = RunConfig(**{"num_parts": 3, "engine": "metis", "on_defect": "warn", **options})
    run_job(config, source, output, previous=previous)
    return source, output


def migration(output: Store) -> dict[str, Any]:
    found: dict[str, Any] = output.read_json("assignment/migration.json")
    return found


def parts_of(output: Store, node_type: str) -> np.ndarray:
    return np.loadtxt(output.local_copy(f"assignment/{node_type}.txt"), np.int64, ndmin=1)


def files_below(output: Store, prefix: str) -> dict[str, bytes]:
    return {entry.key: output.read_bytes(entry.key) for entry in output.list(prefix)}


@pytest.mark.long
@settings(max_examples=3, suppress_health_check=list(HealthCheck))
@given(
    graph=graphs(),
    engine=st.sampled_from(ENGINES),
    parts=st.integers(1, 4),
    share=st.sampled_from([0.0, 0.3, 2.0]),
    seed=st.integers(0, 99),
)
def test_any_graph_may_grow(
    graph: SmallGraph,
    engine: str,
    parts: int,
    share: float,
    seed: int,
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("growth")
    parts = graph.parts(parts)
    _, before = run(graph, folder / "before", num_parts=parts, engine=engine)
    larger = grown(graph, share=share, seed=seed)
    source, after = run(larger, folder / "after", before, num_parts=parts, engine=engine)
    report = verify_output(source, after)
    assert report.passed, report.summary()
    found = migration(after)
    if found["mode"] == "incremental":
        for name, count in graph.nodes.items():
            moved = np.count_nonzero(parts_of(after, name)[:count] != parts_of(before, name)[:count])
            assert found["node_types"][name]["moved"] == moved
            assert moved == 0 or engine != "random"


def test_embeddings_carried_over_sit_on_the_right_nodes(tmp_path: Path) -> None:
    graph = library(papers=200)
    _, before = run(graph, tmp_path / "before")
    _, after = run(grown(graph), tmp_path / "after", before)
    rng = np.random.default_rng(0)
    for name, count in graph.nodes.items():
        by_name = rng.normal(size=(count, 3))  # what is learned about each original node
        old = pq.read_table(before.local_copy(layout.node_id_map(name)))
        learned = by_name[old["orig_id"].to_numpy()]  # by type-wise new ID of the run before
        carried = pq.read_table(after.local_copy(layout.carry_over_map(name)))
        new = pq.read_table(after.local_copy(layout.node_id_map(name)))
        table = np.full((new.num_rows, 3), np.nan)
        table[carried["type_new_id"].to_numpy()] = learned[carried["old_type_new_id"].to_numpy()]
        originals = new["orig_id"].to_numpy()
        expected = np.where((originals < count)[:, None], by_name[originals.clip(max=count - 1)], np.nan)
        np.testing.assert_array_equal(table, expected)


def test_new_types_may_come_anywhere_and_edges_may_go(tmp_path: Path) -> None:
    graph = library(papers=200)
    _, before = run(graph, tmp_path / "before")
    nodes = {"author": 100, "keyword": 7, "paper": 200, "venue": 5, "year": 3}
    edges = {name: ends for name, ends in graph.edges.items() if "cites" not in name}
    source, after = run(replace(graph, nodes=nodes, edges=edges, edge_values=[]), tmp_path / "after", before)
    found = migration(after)
    assert found["mode"] == "incremental"
    assert [one["old"] for one in found["node_types"].values()] == [100, 0, 200, 5, 0]
    report = verify_output(source, after)
    assert report.passed, report.summary()


def test_a_run_that_is_gone_or_damaged_is_noticed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, before = run(library(), tmp_path / "before")
    source, after = run(grown(library()), tmp_path / "after", before)
    manifest = before.read_bytes(layout.MANIFEST)
    before.delete([layout.MANIFEST])
    after.delete([layout.record("idmap")])
    assert verify_output(source, after).passed  # as far as this is known without the other run
    export = ["idmap", "export", source.uri, "--output", after.uri]
    assert main(export) == 3
    before.write_bytes(layout.MANIFEST, manifest)
    flip_a_bit(before, "assignment/paper.npy")
    capsys.readouterr()
    assert main(export) == 3
    assert "assignment/paper.npy is not the file that the run wrote" in capsys.readouterr().err


def with_more_edges(graph: SmallGraph) -> SmallGraph:
    name = "author:writes:paper"
    edges = graph.edges[name]
    more = replace(edges, src=[*edges.src, *range(9)], dst=[*edges.dst, *range(30, 39)])
    return replace(graph, edges={**graph.edges, name: more})


def without_an_edge_feature(graph: SmallGraph) -> SmallGraph:
    return replace(graph, edge_values=[])


def flip_a_bit(run: Store, key: str) -> None:
    data = bytearray(run.read_bytes(key))
    data[-1] ^= 1
    run.write_bytes(key, bytes(data))


@pytest.mark.parametrize(
    ("where", "change", "same"),
    [
        ("local", with_more_edges, {"node_feat.dgl", "orig_nids.dgl"}),
        ("s3", without_an_edge_feature, {"graph.dgl", "node_feat.dgl", "orig_nids.dgl", "orig_eids.dgl"}),
    ],
)
def test_files_that_stay_the_same_are_copied_and_nothing_shows_it(
    where: str,
    change: Callable[[SmallGraph], SmallGraph],
    same: set[str],
    tmp_path: Path,
    caplog: pytest.LogCaptureFixture,
    s3_root: str,
    s3_settings: StorageSettings,
) -> None:
    graph = library(papers=200)
    root = str(tmp_path) if where == "local" else s3_root
    source = open_store(str(graph.write(tmp_path / "in")))
    before, after, plain = (
        open_store(f"{root}/{name}", s3_settings) for name in ("before", "after", "plain")
    )
    run_job(RunConfig(num_parts=3, engine="two-level", on_defect="warn"), source, before)
    damaged = "partitions/part1/node_feat.dgl"
    flip_a_bit(before, damaged)
    larger = open_store(str(change(graph).write(tmp_path / "larger")))
    copied: list[str] = []

    def watch(self: Any, other: Store, key: str, size: int) -> bool:
        done = original(self, other, key, size)
        copied.extend([key] if done else [])
        return done

    original = type(after).copy_from
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(after), "copy_from", watch)
        run_job(RunConfig(num_parts=3, engine="two-level", on_defect="warn"), larger, after, previous=before)
    assert {f"partitions/part{part}/{name}" for part in range(3) for name in same} <= {*copied}
    counted = [after.read_json(layout.record(f"convert-part{part}"))["counters"] for part in range(3)]
    assert sum(one["files_reused"] for one in counted) == len(copied) - 1
    assert [one.get("damaged_in_previous") for one in counted] == [None, [damaged], None]
    assert f"{damaged} is not the file that the run wrote" in caplog.text
    validate_graph(ValidateConfig(on_defect="warn"), larger, plain)
    prepare_graph(PrepareConfig(), larger, plain)
    import_assignment(StageConfig(), larger, after.child("assignment"), plain)
    convert_graph(ConvertConfig(), larger, plain)
    assert files_below(after, "partitions/") == files_below(plain, "partitions/")
    assert verify_output(larger, after).passed


@settings(max_examples=2, suppress_health_check=list(HealthCheck))
@example(graph=library(papers=20), share=0.2, seed=1, hops=3)
@given(graph=graphs(), share=st.sampled_from([0.0, 0.2]), seed=st.integers(0, 9), hops=st.integers(0, 3))
def test_reuse_never_changes_a_byte(
    graph: SmallGraph, share: float, seed: int, hops: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("reuse")
    halo: dict[str, Any] = {"num_hops": hops} if hops < 3 else {"out_edges": True}
    options = {"num_parts": graph.parts(2), "engine": "random", **halo}
    _, before = run(graph, folder / "before", **options)
    larger = grown(graph, share=share, seed=seed)
    source, after = run(larger, folder / "after", before, **options)
    plain = open_store(str(folder / "plain"))
    validate_graph(ValidateConfig(on_defect="warn"), source, plain)
    import_assignment(StageConfig(), source, after.child("assignment"), plain)
    convert_graph(ConvertConfig(**halo), source, plain)
    assert files_below(after, "partitions/") == files_below(plain, "partitions/")
    assert verify_output(source, after).passed


def test_the_command_follows_the_newest_run_of_a_graph(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, before = run(library(), tmp_path / "before")
    larger = grown(library()).write(tmp_path / "larger")
    arguments = [str(larger), str(tmp_path / "after"), "--num-parts", "3", "--on-defect", "warn"]
    assert main(["run", *arguments, "--previous", before.uri]) == 0
    assert "since the run before" in capsys.readouterr().out
    flip_a_bit(before, "assignment/paper.npy")
    arguments[1] = str(tmp_path / "again")
    assert main(["run", *arguments, "--previous", before.uri]) == 3
    assert "assignment/paper.npy is not the file that the run wrote" in capsys.readouterr().err
    assert not (tmp_path / "again").exists()
