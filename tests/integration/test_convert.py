"""Scatter and gather: the same bytes with any memory, from anywhere, and after any death."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import StageResult
from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.metadata import METADATA
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.convert import feature_buckets, ranges
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.convert import convert_graph, gather_partitions, scatter_groups
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.convert.plan import make_plan, task_groups
from partition_ops.stages.convert.write_book import write_book
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.system.dgl_import import import_dgl
from partition_ops.verification import verify_output
from tests.dying_store import DyingStore, Killed
from tests.graphs import SmallGraph, in_chunks, library
from tests.strategies import graphs
from tests.uploads import upload_folder

NUM_PARTS = 4  # more than make it worth while to scatter features
EDGE_CHUNKS = 12  # a group each
DECODED_CHUNKS = 8  # of features in Parquet and CSV
FEATURE_CHUNKS = 16  # from S3, all
TINY = 1  # bytes: the smallest segments, one task at a time


@pytest.fixture(autouse=True)
def small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ranges, "GROUP_BYTES", 1)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Store:
    folder = tmp_path_factory.mktemp("convert") / "graph"
    return open_store(str(in_chunks(library(papers=300), 4).write(folder)))


def assigned(source: Store, folder: Path, num_parts: int = NUM_PARTS) -> Store:
    """A run up to ``partition``."""
    destination = open_store(str(folder))
    partition_nodes(PartitionConfig(num_parts=num_parts, engine="random"), source, destination)
    return destination


def partitions(store: Store) -> dict[str, bytes]:
    return {entry.key: store.read_bytes(entry.key) for entry in store.list(f"{layout.PARTITIONS}/")}


@pytest.fixture(scope="module")
def expected(source: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """With every gather reading the features themselves."""
    destination = assigned(source, tmp_path_factory.mktemp("expected"))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(feature_buckets, "READS_WORTH_IT", 1000)
        convert_graph(ConvertConfig(), source, destination)
    assert destination.read_json(layout.CONVERT_PLAN)["features"] == []
    return partitions(destination)


def test_tiny_memory_means_many_segments_and_the_same_bytes(
    source: Store, expected: dict[str, bytes], tmp_path: Path
) -> None:
    destination = assigned(source, tmp_path)
    convert_graph(ConvertConfig(memory=TINY), source, destination)
    plan = destination.read_json(layout.CONVERT_PLAN)
    assert (len(plan["edges"]), len(plan["features"])) == (EDGE_CHUNKS, DECODED_CHUNKS)
    index = destination.read_json(layout.bucket(EDGE_CHUNKS, layout.ROW_INDEX))["chunks"][0]
    assert len(index["counts"]) > 1
    segments = [
        len(destination.read_json(layout.bucket(g, layout.EDGE_INDEX))["edge_types"])
        for g in range(EDGE_CHUNKS)
    ]
    assert min(segments) > 1
    assert partitions(destination) == expected


def test_memory_is_no_reason_to_do_it_again(source: Store, tmp_path: Path) -> None:
    destination, results = assigned(source, tmp_path), []
    convert_graph(ConvertConfig(), source, destination)
    convert_graph(ConvertConfig(memory=TINY), source, destination, report=results.append)
    assert all(result.skipped for result in results)


@pytest.fixture(scope="module")
def published_once(source: Store, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ranges, "GROUP_BYTES", 1)
        run_job(RunConfig(num_parts=NUM_PARTS, engine="random"), source, open_store(str(folder)))
    return folder


@pytest.fixture
def published(published_once: Path, tmp_path: Path) -> Store:
    """A finished output of the test's own, with the scratch of its making gone."""
    return open_store(str(shutil.copytree(published_once, tmp_path / "published")))


def tags(store: Store) -> dict[str, str]:
    return {entry.key: entry.tag for entry in store.list()}


def done_again(config: ConvertConfig, source: Store, destination: Store) -> list[str]:
    """The tasks that a call has done."""
    results: list[StageResult] = []
    convert_graph(config, source, destination, report=results.append)
    return [result.task for result in results if not result.skipped]


def test_nothing_of_a_published_output_is_done_again(source: Store, published: Store) -> None:
    before = tags(published)
    assert not done_again(ConvertConfig(memory=TINY), source, published)
    assert tags(published) == before


def test_a_published_output_on_s3_is_left_as_it_is(
    source: Store, s3_root: str, s3_settings: StorageSettings
) -> None:
    with open_store(f"{s3_root}/out", s3_settings) as out:
        partition_nodes(PartitionConfig(num_parts=2, engine="random"), source, out)
        assert done_again(ConvertConfig(), source, out)
    with open_store(f"{s3_root}/out", s3_settings) as out:
        before = tags(out)
        assert not done_again(ConvertConfig(), source, out)
        assert tags(out) == before


def test_only_a_lost_partition_is_made_again(source: Store, published: Store) -> None:
    manifest, before, expected = (
        published.read_bytes(layout.MANIFEST),
        tags(published),
        partitions(published),
    )
    lost = "partitions/part1/node_feat.dgl"
    published.delete([lost])
    again = done_again(ConvertConfig(memory=TINY), source, published)
    assert not published.exists(layout.MANIFEST)
    assert again == ["convert-plan", "convert-scatter", "convert-part1"]
    assert partitions(published) == expected
    changed = {key for key, tag in tags(published).items() if before.get(key) != tag}
    ours = (layout.partition_folder(1), f"{layout.RECORDS}/convert-", layout.SCRATCH)
    assert lost in changed and all(key.startswith(ours) for key in changed)
    publish_run(PublishConfig(), source, published)
    assert published.read_bytes(layout.MANIFEST) == manifest


def test_a_lost_partition_config_needs_no_buckets(source: Store, published: Store) -> None:
    expected = partitions(published)
    published.delete(["partitions/small.json"])
    assert done_again(ConvertConfig(), source, published) == ["convert-config"]
    assert partitions(published) == expected


def test_tasks_of_a_published_run_that_are_cleared(source: Store, published: Store) -> None:
    """As in Airflow, where the setups of a gather make their scratch once more."""
    before = tags(published)
    groups = make_plan(Conversion(ConvertConfig(), source, published)).counters["groups"]
    for task in tasks(source, ConvertConfig(), groups):
        task(published)
        assert published.exists(layout.MANIFEST)
    publish_run(PublishConfig(), source, published)
    scattered = f"{layout.RECORDS}/convert-scatter", layout.record("convert-plan")
    changed = {key for key, tag in tags(published).items() if before.get(key) != tag}
    assert all(key.startswith(scattered) for key in changed)


def test_without_an_assignment_there_is_nothing_to_convert(source: Store, tmp_path: Path) -> None:
    with pytest.raises(InvalidInputError, match="'partition' has not been done"):
        convert_graph(ConvertConfig(), source, open_store(str(tmp_path)))


@pytest.mark.parametrize("plan_again", [False, True])
def test_buckets_of_another_assignment_are_refused(plan_again: bool, source: Store, tmp_path: Path) -> None:
    destination = assigned(source, tmp_path)
    convert_graph(ConvertConfig(), source, destination)
    other = PartitionConfig(num_parts=NUM_PARTS, engine="random", seed=1)
    partition_nodes(other, source, destination)
    if plan_again:
        make_plan(Conversion(ConvertConfig(), source, destination))
    refused = r"'convert-scatter0' has not been done" if plan_again else r"'convert-plan' .* is out of date"
    with pytest.raises(InvalidInputError, match=refused):
        [*gather_partitions(Conversion(ConvertConfig(), source, destination), [0])]


def test_another_name_of_the_graph_is_another_config(tmp_path: Path) -> None:
    graph = library(papers=20)
    source = open_store(str(graph.write(tmp_path / "in")))
    destination = assigned(source, tmp_path / "out", 2)
    convert_graph(ConvertConfig(), source, destination)
    metadata = source.read_json(METADATA)
    source.write_json(METADATA, {**metadata, "graph_name": "other"})
    convert_graph(ConvertConfig(), source, destination)
    configs = [key for key in partitions(destination) if key.count("/") == 1]
    assert configs == ["partitions/other.json"]


def tasks(source: Store, config: ConvertConfig, groups: int) -> list[Callable[[Store], Any]]:
    """Run the tasks as Airflow does: each in a process of its own, in an order that it might choose."""
    return [
        lambda out: make_plan(Conversion(config, source, out)),
        *(
            lambda out, g=g: scatter_groups(Conversion(config, source, out), [g])
            for g in reversed(range(groups))
        ),
        *(
            lambda out, p=p: [*gather_partitions(Conversion(config, source, out), [p])]
            for p in reversed(range(NUM_PARTS))
        ),
        lambda out: write_book(Conversion(config, source, out)),
    ]


@pytest.mark.parametrize("lives", [0, 1, 4])
def test_every_task_killed_and_run_again_gives_the_same_bytes(
    lives: int, source: Store, expected: dict[str, bytes], tmp_path: Path
) -> None:
    destination, died = assigned(source, tmp_path), 0
    for task in tasks(source, ConvertConfig(memory=TINY), EDGE_CHUNKS + DECODED_CHUNKS):
        dying = DyingStore(tmp_path, lives)
        with suppress(Killed):
            task(dying)
        died += dying.lives < 0
        task(destination)
    assert died >= NUM_PARTS
    found = partitions(destination)
    assert {key: data for key, data in found.items() if ".partial-" not in key} == expected


@pytest.mark.parametrize("lives", [0, 2, 4, 9])
def test_several_in_one_task_killed_and_run_again_give_the_same_bytes(
    lives: int, source: Store, expected: dict[str, bytes], tmp_path: Path
) -> None:
    destination, died, config = assigned(source, tmp_path), 0, ConvertConfig()
    make_plan(Conversion(config, source, destination))
    groups, parts = [*range(EDGE_CHUNKS + DECODED_CHUNKS)], [*range(NUM_PARTS)]
    several: list[Callable[[Store], list[StageResult]]] = [
        lambda out: scatter_groups(Conversion(config, source, out), groups),
        lambda out: [*gather_partitions(Conversion(config, source, out), parts)],
    ]
    for task in several:
        dying = DyingStore(tmp_path, lives)
        with suppress(Killed):
            task(dying)
        died += dying.lives < 0
        done = {entry.key for entry in destination.list(f"{layout.RECORDS}/")}
        results = task(destination)
        assert [one.skipped for one in results] == [layout.record(one.task) in done for one in results]
    write_book(Conversion(config, source, destination))
    assert died == 2
    found = partitions(destination)
    assert {key: data for key, data in found.items() if ".partial-" not in key} == expected


def test_fewer_tasks_write_the_same_partitions(
    source: Store, expected: dict[str, bytes], tmp_path: Path
) -> None:
    destination, config = assigned(source, tmp_path), ConvertConfig(convert_tasks=2)
    make_plan(Conversion(config, source, destination))
    groups = task_groups(Conversion(config, source, destination))
    for scatter in groups.scatters:
        scatter_groups(Conversion(config, source, destination), scatter)
    for gather in groups.gathers:
        done = [*gather_partitions(Conversion(ConvertConfig(), source, destination), gather)]
        assert not any(result.skipped for result in done)
    write_book(Conversion(ConvertConfig(convert_tasks=1), source, destination))  # the same record
    assert partitions(destination) == expected


def test_small_graphs_have_one_scatter_and_one_gather(
    source: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    destination, config = assigned(source, tmp_path), ConvertConfig()
    make_plan(Conversion(config, source, destination))
    groups = task_groups(Conversion(config, source, destination))
    assert groups.scatters == [[number] for number in range(EDGE_CHUNKS + DECODED_CHUNKS)]
    assert groups.gathers == [[part] for part in range(NUM_PARTS)]
    two = task_groups(Conversion(ConvertConfig(convert_tasks=2), source, destination))
    assert [len(groups) for groups in (two.scatters, two.gathers)] == [2, 2]
    assert [*chain(*two.scatters)] == [*range(EDGE_CHUNKS + DECODED_CHUNKS)]
    assert [*chain(*two.gathers)] == [*range(NUM_PARTS)]
    monkeypatch.setattr(ranges, "GROUP_BYTES", 1 << 30)
    groups = task_groups(Conversion(config, source, destination))  # of the same plan
    assert groups.scatters == [[*range(EDGE_CHUNKS + DECODED_CHUNKS)]]
    assert groups.gathers == [[*range(NUM_PARTS)]]


def test_another_assignment_leaves_nothing_of_the_one_before(
    source: Store, expected: dict[str, bytes], tmp_path: Path
) -> None:
    destination = assigned(source, tmp_path, num_parts=5)
    convert_graph(ConvertConfig(), source, destination)
    assigned(source, tmp_path)
    make_plan(Conversion(ConvertConfig(), source, destination))
    assert not list(destination.list(layout.record("convert-part").removesuffix(".json")))
    assert not list(destination.list(f"{layout.PARTITIONS}/part"))
    convert_graph(ConvertConfig(), source, destination)
    assert partitions(destination) == expected


@pytest.mark.long
def test_from_s3_to_s3(
    expected: dict[str, bytes], tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    """Also from other chunks: fewer, since each task makes clients of its own, which takes the most time."""
    folder = in_chunks(library(papers=300), 2).write(tmp_path / "in")
    with open_store(f"{s3_root}/in", s3_settings) as remote, open_store(f"{s3_root}/out", s3_settings) as out:
        upload_folder(folder, remote)
        partition_nodes(PartitionConfig(num_parts=NUM_PARTS, engine="random"), remote, out)
    groups = (EDGE_CHUNKS + FEATURE_CHUNKS) // 2
    for number in range(groups + NUM_PARTS + 2):  # on machines that share nothing else
        with (
            open_store(f"{s3_root}/in", s3_settings) as remote,
            open_store(f"{s3_root}/out", s3_settings) as out,
        ):
            tasks(remote, ConvertConfig(), groups)[number](out)
    with open_store(f"{s3_root}/out", s3_settings) as out:
        assert len(out.read_json(layout.CONVERT_PLAN)["features"]) == FEATURE_CHUNKS // 2
        assert partitions(out) == expected


def test_chunks_without_counts_are_counted_once(
    expected: dict[str, bytes], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = replace(in_chunks(library(papers=300), 4), counts="type")
    source, read = open_store(str(graph.write(tmp_path / "in"))), []
    destination = assigned(source, tmp_path / "out")
    batches = EdgeReader.batches
    monkeypatch.setattr(EdgeReader, "batches", lambda self, chunk: read.append(chunk) or batches(self, chunk))
    convert_graph(ConvertConfig(), source, destination)
    assert max(Counter(read).values()) == 2  # once by the plan, once to be scattered
    assert partitions(destination) == expected


@pytest.mark.parametrize("number", [-1, EDGE_CHUNKS + DECODED_CHUNKS])
def test_there_is_no_such_group_or_partition(number: int, source: Store, tmp_path: Path) -> None:
    destination = assigned(source, tmp_path)
    make_plan(Conversion(ConvertConfig(), source, destination))
    with pytest.raises(UsageError, match="no group"):
        scatter_groups(Conversion(ConvertConfig(), source, destination), [number])
    with pytest.raises(UsageError, match="no partition"):
        [*gather_partitions(Conversion(ConvertConfig(), source, destination), [number])]


@pytest.mark.parametrize(
    ("num_hops", "formats"),
    [(0, ("csc",)), (1, ("coo", "csr", "csc")), (2, ("csr", "coo")), (255, ("csc",))],
)
def test_every_format_is_the_same_graph(
    num_hops: int, formats: tuple[str, ...], source: Store, tmp_path: Path
) -> None:
    config = RunConfig(num_parts=NUM_PARTS, num_hops=num_hops, graph_formats=formats, engine="random")
    as_coo, asked = assigned(source, tmp_path / "coo"), open_store(str(tmp_path / "asked"))
    convert_graph(ConvertConfig(num_hops=num_hops, graph_formats=("coo",)), source, as_coo)
    run_job(config, source, asked)
    assert verify_output(source, asked).passed
    for part in range(NUM_PARTS):
        graphs = [
            import_dgl().load_graphs(str(store.local_copy(f"partitions/part{part}/graph.dgl")))[0][0]
            for store in (as_coo, asked)
        ]
        assert set(graphs[1].formats()["created"]) == set(formats)
        ends = [[end.tolist() for end in graph.edges(order="eid")] for graph in graphs]
        assert ends[0] == ends[1]


@pytest.mark.parametrize("num_hops", [-1, 256])
def test_hops_out_of_range(num_hops: int) -> None:
    with pytest.raises(UsageError, match="--num-hops"):
        ConvertConfig(num_hops=num_hops)


def test_out_edges_need_a_halo() -> None:
    with pytest.raises(UsageError, match="--out-edges needs a halo"):
        RunConfig(num_parts=2, out_edges=True, num_hops=0)


@pytest.mark.parametrize(("hops", "engine"), [(1, "metis"), (2, "two-level")])
def test_out_edges(hops: int, engine: str, source: Store, tmp_path: Path) -> None:
    """Each partition knows all out-edges of its nodes; the report and the features do not depend on it."""
    config = RunConfig(num_parts=NUM_PARTS, num_hops=hops, engine=engine, memory=TINY)
    plain, found = open_store(str(tmp_path / "plain")), open_store(str(tmp_path / "out"))
    run_job(config, source, plain)
    run_job(replace(config, out_edges=True), source, found)
    missed = 0
    for part in range(NUM_PARTS):
        graph, without = (
            import_dgl().load_graphs(str(store.local_copy(f"partitions/part{part}/graph.dgl")))[0][0]
            for store in (found, plain)
        )
        inner = int(graph.ndata["inner_node"].sum())
        missed += int(graph.out_degrees()[:inner].sum() - without.out_degrees()[:inner].sum())
        assert (graph.in_degrees()[:inner] == without.in_degrees()[:inner]).all()
    report, bare = (_without_bytes(store.read_json(layout.QUALITY_REPORT)) for store in (found, plain))
    assert report == bare
    cut = report["edge_cut"]["edges"]
    assert missed == cut if hops == 1 else 0 < missed < cut
    assert verify_output(source, found).passed
    for store, claim in ((found, False), (plain, True)):
        manifest = store.read_json(layout.MANIFEST)
        manifest["options"]["convert-config"]["out_edges"] = claim
        store.write_json(layout.MANIFEST, manifest)
        assert "edge-ids" in {check.name for check in verify_output(source, store).failed}


def _without_bytes(report: dict[str, Any]) -> dict[str, Any]:
    """Return a quality report without the sizes of the partitions."""
    del report["balance"]["fullest"]["bytes"]
    return {
        **report,
        "partitions": [
            {name: value for name, value in entry.items() if name != "bytes"}
            for entry in report["partitions"]
        ],
    }


@pytest.mark.parametrize("formats", [(), ("dense",), ("coo", "")])
def test_no_such_format(formats: tuple[str, ...]) -> None:
    with pytest.raises(UsageError, match="--graph-formats"):
        RunConfig(num_parts=2, graph_formats=formats)


@pytest.mark.long
@settings(max_examples=40)
@given(
    graph=graphs(),
    num_parts=st.integers(1, 5),
    memory=st.sampled_from([TINY, 10**5, None]),
    num_hops=st.integers(0, 4),
    out_edges=st.booleans(),
    formats=st.sets(st.sampled_from(["coo", "csr", "csc"]), min_size=1).map(tuple),
)
def test_any_graph_with_any_options(
    graph: SmallGraph,
    num_parts: int,
    memory: int | None,
    num_hops: int,
    out_edges: bool,
    formats: tuple[str, ...],
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    folder = tmp_path_factory.mktemp("any")
    source, destination = open_store(str(graph.write(folder / "in"))), open_store(str(folder / "out"))
    config = RunConfig(
        num_parts=graph.parts(num_parts),
        engine="random",
        memory=memory,
        on_defect="warn",
        num_hops=num_hops,
        out_edges=out_edges and num_hops > 0,
        graph_formats=formats,
    )
    run_job(config, source, destination)
    report = verify_output(source, destination)
    assert report.passed, report.summary()
