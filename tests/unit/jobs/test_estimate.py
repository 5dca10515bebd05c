"""The estimate of a job: what it says of real jobs, and what it refuses."""

from __future__ import annotations

import io
import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from partition_ops.artifacts.cost import Sizes, StageEstimate
from partition_ops.artifacts.tasks import Task
from partition_ops.chunked.metadata import GraphMetadata, load_metadata, parse_metadata
from partition_ops.cli import main
from partition_ops.errors import NotEnoughRoomError, UsageError
from partition_ops.jobs.estimate import check_job, check_stage, estimate_job
from partition_ops.jobs.estimate.result import Room
from partition_ops.jobs.options import RunConfig
from partition_ops.stages.convert.cost import expected_halo
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import check_options
from partition_ops.stages.partition.problem import feature_classes
from partition_ops.stages.prepare.cost import range_half_edges
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.storage import Store
from partition_ops.storage.local_store import LocalStore
from tests.command_line import Called
from tests.graphs import Layout, Values, library

GIB = 1 << 30
FACTOR = 1.5
PLENTY = Room(
    memory=64 * GIB, available=64 * GIB, output=900 * GIB, temporary=900 * GIB, same_disk=False, cores=2
)
HEADERS = 16 << 10  # of a partition, which count in a graph as small as here


def described(nodes: int, edges: int, **changes: Any) -> dict[str, Any]:
    """Metadata of a graph of people and pages, with one file of edges."""
    return {
        "graph_name": "web",
        "node_type": ["person", "page"],
        "num_nodes_per_type": [nodes // 10, nodes - nodes // 10],
        "edge_type": ["person:likes:page"],
        "num_edges_per_type": [edges],
        "edges": {"person:likes:page": {"format": {"name": "parquet"}, "data": ["likes.parquet"]}},
        **changes,
    }


def graph_of(folder: Path, nodes: int, edges: int) -> LocalStore:
    """A graph that has no more than its metadata and a file that is no Parquet."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "metadata.json").write_text(json.dumps(described(nodes, edges)))
    (folder / "likes.parquet").write_bytes(b"none")
    return LocalStore(folder)


def parsed(nodes: int, edges: int) -> GraphMetadata:
    return parse_metadata(described(nodes, edges), where="metadata.json")


def stage(estimate: Any, name: str) -> StageEstimate:
    return next(one for one in estimate.stages if one.stage == name)


def test_nothing_is_refused_where_there_is_plenty(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 10**6, 10**7)
    estimate = check_job(RunConfig(num_parts=4), source, LocalStore(tmp_path / "out"), room=PLENTY)
    assert estimate is not None
    assert estimate.fits
    assert [one.stage for one in estimate.stages] == [
        *("validate", "schema", "prepare", "partition", "convert", "idmap", "quality", "publish"),
    ]
    assert not (tmp_path / "out").exists()


def test_the_time_of_the_search_depends_on_effort_size_partitions_and_cores(tmp_path: Path) -> None:
    """Measured on history, 11,240 nodes and 36,353 edges: 1.0 s on two processors."""
    source = graph_of(tmp_path / "in", 11_240, 36_353)

    def seconds(cores: int = 2, **options: Any) -> float:
        room = replace(PLENTY, cores=cores)
        estimate = check_job(
            RunConfig(**{"num_parts": 4, **options}), source, LocalStore(tmp_path / "out"), room=room
        )
        return stage(estimate, "partition").seconds

    assert 1.0 / FACTOR < seconds() < 1.0 * FACTOR
    assert seconds(effort="fast") < seconds() < seconds(effort="best")
    assert seconds(num_parts=4, effort="fast") < seconds(num_parts=16, effort="fast")
    assert seconds(cores=1) > seconds()
    assert seconds(engine="two-level") < seconds(effort="fast")  # which searches for moves


def test_the_tasks_of_validate_share_the_edges(tmp_path: Path) -> None:
    source, found = graph_of(tmp_path, 10**6, 10**9), []
    for tasks in (1, 4, 16):
        config = RunConfig(num_parts=2, validation_tasks=tasks, engine="random")
        found.append(stage(estimate_job(config, source, room=PLENTY), "validate"))
    whole, four, sixteen = found
    assert four.held < 0.1 * whole.held
    assert sixteen.held <= four.held
    assert four.scratch > 12 * 10**9
    assert whole.scratch == 0


def test_ranks_share_the_edges_and_hosts_their_memory(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 10**7, 10**9)

    def partition(ranks: int | None, hostfile: str | None = None) -> StageEstimate:
        mpi = MpiOptions(ranks=ranks, hostfile=hostfile)
        config = RunConfig(num_parts=4, engine="two-level", mpi=mpi)
        return stage(estimate_job(config, source, LocalStore(tmp_path / "out"), room=PLENTY), "partition")

    def of_a_rank(ranks: int) -> float:
        found = re.search(r"each MPI rank takes about ([\d.]+) GiB, rank 0", partition(ranks).note or "")
        assert found is not None
        return float(found[1])

    assert of_a_rank(2) > of_a_rank(4) > of_a_rank(16)
    here, elsewhere = partition(4), partition(4, "hosts")
    assert here.held - elsewhere.held >= (4 * of_a_rank(4) - 1) * GIB  # all ranks are on this machine
    small = replace(PLENTY, memory=GIB, available=GIB)
    alone = estimate_job(RunConfig(num_parts=4), source, LocalStore(tmp_path / "out"), room=small)
    assert any("--engine two-level --mpi-ranks N" in one for one in stage(alone, "partition").remedies)


def test_a_probe_counts_if_the_job_has_one(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 10**6, 10**7)
    config = RunConfig(num_parts=4, probe=True)
    probe = stage(estimate_job(config, source, LocalStore(tmp_path / "out"), room=PLENTY), "probe")
    assert probe.temporary == 32 * 10**7 + 8 * 900_000  # an edge, and a page, which edges lead to
    assert probe.held <= probe.memory - probe.temporary  # the cache is mapped


def test_a_search_counts_where_there_is_one(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 3 * 10**6, 15 * 10**6)

    def memory(engine: str, **options: Any) -> int:
        config = RunConfig(engine=engine, **options)
        return stage(
            estimate_job(config, source, LocalStore(tmp_path / "out"), room=PLENTY), "partition"
        ).memory

    assert memory("auto", num_parts=4) > memory("two-level", num_parts=4)
    assert memory("auto", num_parts=32) == memory("auto", num_parts=4, num_trainers_per_machine=8)
    # so many sums are not searched
    assert memory("auto", num_parts=1024) < memory("auto", num_parts=32)


@pytest.mark.parametrize("people", [7, 8])
def test_a_type_with_fewer_nodes_than_partitions_is_noted(tmp_path: Path, people: int) -> None:
    source = graph_of(tmp_path / "in", 10 * people, 20)
    estimate = estimate_job(RunConfig(num_parts=8), source, LocalStore(tmp_path / "out"), room=PLENTY)
    noted = "so that some will have none of a type: 'person' (7)"
    assert any(noted in warning for warning in estimate.warnings) == (people == 7)


def test_the_verb_refuses_a_graph_whose_files_are_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    graph_of(tmp_path / "in", 100, 200)
    arguments = ["estimate", str(tmp_path / "in"), "--num-parts", "2"]
    assert main(arguments) == 0
    (tmp_path / "in" / "likes.parquet").unlink()
    assert main(arguments) == 3
    assert "no likes.parquet" in capsys.readouterr().err


@pytest.mark.parametrize("verb", ["estimate", "run"])
@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--balance-ntypes", "nope"], "one of 'age' (person)"),
        (["--engine", "random", "--objective", "vol"], "does not support --objective"),
        (["--engine", "nope"], "one of auto, two-level"),
        (["--engine", "parmetis", "--mpirun", "true", "--hostfile", "/nowhere/hosts"], "/nowhere/hosts"),
        (["--num-parts", "101"], "101 partitions, 100 nodes"),
        (["--formats", "pyg", "--num-hops", "0"], "--num-hops 1 or more"),
        (["--num-trainers-per-machine", "51"], "2 partitions of 51 trainers each, 100 nodes"),
    ],
)
def test_options_that_do_not_fit_are_refused_before_anything_is_done(
    tmp_path: Path, verb: str, options: list[str], expected: str, capsys: pytest.CaptureFixture[str]
) -> None:
    ages = {"person": {"age": {"format": {"name": "numpy"}, "data": ["age.npy"]}}}
    source = graph_of(tmp_path / "in", 100, 200)
    source.write_json("metadata.json", described(100, 200, node_data=ages))
    output = [str(tmp_path / "out")] if verb == "run" else []
    parts = [] if "--num-parts" in options else ["--num-parts", "2"]
    assert main([verb, str(tmp_path / "in"), *output, *parts, *options]) == 2
    assert expected in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


UNFIT = {
    "float": np.zeros(40, np.float32),
    "wide": np.zeros((40, 3), np.int64),
    "mask": np.zeros((40, 1), np.bool_),
}


@pytest.mark.parametrize("verb", ["estimate", "run"])
@pytest.mark.parametrize("file_format", ["numpy", "parquet", "csv"])
def test_a_feature_that_cannot_be_balanced_by_is_refused_before_anything_is_done(
    tmp_path: Path, verb: str, file_format: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = [Values("paper", name, array, Layout(file_format)) for name, array in UNFIT.items()]
    graph = str(replace(library(), node_values=values).write(tmp_path / "in"))
    output = [str(tmp_path / "out")] if verb == "run" else []
    for name in ("float", "wide"):
        assert main([verb, graph, *output, "--num-parts", "2", "--balance-ntypes", name]) == 2
        said = capsys.readouterr().err
        assert f"'paper/{name}' cannot be balanced by" in said
        assert "one integer or boolean a node" in said
    assert not (tmp_path / "out").exists()
    source = LocalStore(Path(graph))
    check_options(PartitionConfig(num_parts=2, balance_ntypes="mask"), load_metadata(source), source)


class Counting(LocalStore):
    """A root of which nothing is copied, and every byte that is read is counted."""

    count = 0

    def local_copy(self, key: str) -> Path:
        raise AssertionError(f"{key} is fetched")

    def read_range(self, key: str, begin: int, end: int, **more: Any) -> bytes:
        data = self.path(key).read_bytes()[begin:end]
        self.count += len(data)
        return data


@pytest.mark.parametrize("file_format", ["numpy", "parquet", "csv"])
def test_of_a_feature_to_balance_by_only_the_header_is_fetched(tmp_path: Path, file_format: str) -> None:
    ages = Values("paper", "age", np.random.default_rng(1).integers(0, 10**6, 10**5), Layout(file_format))
    graph = replace(library(), nodes={"author": 20, "paper": 10**5, "venue": 5}, node_values=[ages])
    source = Counting(graph.write(tmp_path / "in"))
    metadata = load_metadata(LocalStore(source.root))
    check_options(PartitionConfig(num_parts=2, balance_ntypes="age"), metadata, source)
    assert 0 < source.count < 100_000


def npy(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    np.save(file, array)
    return file.getvalue()


def parquet(array: np.ndarray) -> bytes:
    file = io.BytesIO()
    pq.write_table(pa.table({"age": array}), file)
    return file.getvalue()


NO_ROWS = {
    "csv": b"",
    "csv with a header": b"age\n",
    "numpy": npy(np.array([])),
    "parquet": parquet(np.zeros(0, np.float32)),
}


@pytest.mark.parametrize("kind", NO_ROWS)
def test_a_feature_of_a_type_without_nodes_is_nothing_to_refuse(tmp_path: Path, kind: str) -> None:
    """Whatever its file says of a dtype."""
    source = with_ages(tmp_path / "in", kind.split()[0], [NO_ROWS[kind]], [0])
    assert balanced_by_age(source).tolist() == [0] * 9


@pytest.mark.parametrize("kind", ["csv", "csv with a header"])
def test_a_feature_is_judged_by_the_first_file_with_rows(tmp_path: Path, kind: str) -> None:
    source = with_ages(tmp_path / "fits", "csv", [NO_ROWS[kind], b"age\n7\n8\n"], [0, 2])
    assert balanced_by_age(source).tolist() == [0, 1] + [2] * 9
    source = with_ages(tmp_path / "unfit", "csv", [NO_ROWS[kind], b"age\n7.5\n8\n"], [0, 2])
    with pytest.raises(UsageError, match=r"'person/age' cannot be balanced by.*float64"):
        balanced_by_age(source)


def balanced_by_age(source: Store) -> np.ndarray:
    """The classes of the nodes, if the options are not refused before."""
    config, metadata = PartitionConfig(num_parts=2, balance_ntypes="age"), load_metadata(source)
    check_options(config, metadata, source)
    return feature_classes(config, metadata, source, config.balance_features)


def with_ages(folder: Path, file_format: str, files: list[bytes], counts: list[int]) -> LocalStore:
    """People with ages in some files, and nine pages."""
    source = graph_of(folder, 10, 2)
    names = [f"{index}.{file_format}" for index in range(len(files))]
    for name, content in zip(names, files, strict=True):
        (folder / name).write_bytes(content)
    document = described(10, 2, num_nodes_per_type=[sum(counts), 9], num_nodes_per_chunk=[counts, [9]])
    document["node_data"] = {"person": {"age": {"format": {"name": file_format}, "data": names}}}
    source.write_json("metadata.json", document)
    return source


def test_counts_that_cannot_be_do_not_fill_the_memory(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 2**61, 2**61)
    assert not estimate_job(RunConfig(num_parts=2), source, LocalStore(tmp_path / "out"), room=PLENTY).fits


def refused(
    tmp_path: Path, room: Room, nodes: int = 10**8, edges: int = 10**9, **options: Any
) -> NotEnoughRoomError:
    source = graph_of(tmp_path / "in", nodes, edges)
    config = RunConfig(num_parts=8, **options)
    with pytest.raises(NotEnoughRoomError) as caught:
        check_job(config, source, LocalStore(tmp_path / "out"), room=room)
    assert "--ignore-estimate" in str(caught.value.remedy)
    assert not caught.value.transient
    return caught.value


def test_metis_is_refused_with_an_engine_that_fits(tmp_path: Path) -> None:
    error = refused(tmp_path, replace(PLENTY, memory=32 * GIB), engine="metis")
    assert error.found == ["32.0 GiB of memory"]
    assert "GiB of memory, for partition" in str(error.expected)
    assert "--engine random" in str(error.remedy)
    assert "--engine two-level" in str(error.remedy)
    config = RunConfig(num_parts=8, engine="two-level")
    there = LocalStore(tmp_path / "in"), LocalStore(tmp_path / "out")
    assert check_job(config, *there, room=replace(PLENTY, memory=32 * GIB)) is not None


def test_convert_is_refused_with_the_memory_that_fits(tmp_path: Path) -> None:
    room = replace(PLENTY, memory=16 * GIB, cores=16)
    options: dict[str, Any] = {"engine": "random", "num_hops": 2, "graph_formats": ("csr", "csc")}
    error = refused(tmp_path, room, **options)
    assert "GiB of memory, for convert" in str(error.expected)
    assert "--graph-formats coo" in str(error.remedy)
    assert "--num-hops 1" in str(error.remedy)


@pytest.mark.parametrize("stage", ["validate", "convert"])
def test_a_stage_that_would_exceed_its_bound_is_refused_with_both_figures(tmp_path: Path, stage: str) -> None:
    source, small = graph_of(tmp_path / "in", 10**8, 10**9), replace(PLENTY, memory=2 * GIB)
    config = {"validate": ValidateConfig, "convert": ConvertConfig}[stage]
    with pytest.raises(NotEnoughRoomError, match=f"{stage} needs more memory than there is") as caught:
        check_stage(stage, config(memory=2 * GIB), source, num_parts=8, room=small)
    assert caught.value.found == "2.0 GiB" and "GiB" in str(caught.value.expected)
    assert "Allow more with --memory." in str(caught.value.remedy)
    check_stage(stage, config(), source, num_parts=8, room=small)  # nothing was asked for
    check_stage(stage, config(memory=60 * GIB), source, num_parts=8, room=PLENTY)


def test_full_disks_are_refused(tmp_path: Path) -> None:
    error = refused(tmp_path, replace(PLENTY, output=10 * GIB))
    assert error.found == ["10.0 GiB on the disk of the output"]
    error = refused(tmp_path, replace(PLENTY, temporary=GIB))
    assert "TMPDIR" in str(error.remedy)


def test_one_disk_must_hold_both(tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 10**7, 10**8)
    output, config = LocalStore(tmp_path / "out"), RunConfig(num_parts=4)
    whole = estimate_job(config, source, output, room=PLENTY).whole
    disk = whole.output + whole.scratch + 1
    room = replace(PLENTY, output=disk, temporary=disk)
    assert estimate_job(config, source, output, room=room).fits
    prepared = stage(estimate_job(config, source, output, room=room), "prepare")
    tight = prepared.output + prepared.temporary - 1
    short = estimate_job(
        config, source, output, room=replace(room, output=tight, temporary=tight, same_disk=True)
    ).shortages
    assert [one.what for one in short] == ["disk"]


def test_what_is_there_already_needs_no_more_room(tmp_path: Path) -> None:
    source, output = graph_of(tmp_path / "in", 10**6, 10**7), LocalStore(tmp_path / "out")
    config = RunConfig(num_parts=4, engine="metis")
    whole = estimate_job(config, source, output, room=PLENTY).whole
    there = whole.output + whole.scratch
    room = replace(PLENTY, memory=GIB, output=1 << 20)
    assert {one.what for one in estimate_job(config, source, output, room=room).shortages} == {
        "memory",
        "disk",
    }
    (tmp_path / "out" / "partitions").mkdir(parents=True)
    with (tmp_path / "out" / "partitions" / "graph").open("wb") as stream:
        stream.truncate(there)
    options = {**config.of(PartitionConfig).options(), "num_nodes": [1]}
    Task("partition", output, lambda writer: {}, options=options).run()
    assert estimate_job(config, source, output, room=room).fits
    other = replace(config, num_parts=5)
    assert not estimate_job(other, source, output, room=room).fits


@given(
    nodes=st.integers(20, 10**9),
    degree=st.integers(1, 50),
    parts=st.integers(1, 1024),
    cut_random=st.booleans(),
)
def test_halos_grow_with_their_hops_and_end_at_the_whole_graph(
    nodes: int, degree: int, parts: int, cut_random: bool
) -> None:
    metadata = parsed(nodes, nodes * degree)
    sizes = Sizes(metadata, {"likes.parquet": 9 * nodes * degree}, num_parts=parts, cut_random=cut_random)
    found = []
    for hops in range(5):
        found.append(expected_halo(ConvertConfig(num_hops=hops), sizes))
    more = expected_halo(ConvertConfig(out_edges=True), sizes)
    assert found[1].edges <= more.edges <= sizes.edges * 2
    assert found[1].nodes <= more.nodes <= nodes * (parts - 1) + 1
    assert [halo.edges for halo in found] == sorted(halo.edges for halo in found)
    assert [halo.nodes for halo in found] == sorted(halo.nodes for halo in found)
    assert found[1].edges == sizes.edges
    assert found[-1].edges <= sizes.edges * parts
    assert found[-1].nodes <= nodes * (parts - 1) + 1


@given(nodes=st.integers(2, 10**7), edges=st.integers(0, 10**9))
def test_ranges_have_every_half_edge(nodes: int, edges: int) -> None:
    ranges = range_half_edges(Sizes(parsed(nodes, edges), {"likes.parquet": 0}))
    assert sum(ranges) == pytest.approx(2 * edges * (1 if nodes >= 10 else 0.5), rel=1e-6, abs=len(ranges))


def test_the_verb_says_it_to_people_and_machines(called: Called, tmp_path: Path) -> None:
    source = graph_of(tmp_path / "in", 10**6, 10**7).root
    said = called("estimate", source, "--num-parts", 4, "--output", tmp_path / "out")
    assert said.returncode == 0, said.stderr
    for words in ("10,000,000 edges", "partition", "whole job", "It should fit."):
        assert words in said.stdout
    document = json.loads(called("estimate", source, "--num-parts", 4, "--json").stdout)
    assert document["fits"]
    assert document["room"]["output"] is None
    assert {one["stage"] for one in document["stages"]} >= {"validate", "prepare", "partition", "convert"}


def test_the_verb_takes_the_options_of_run_and_counts_reverse_edges(called: Called, tmp_path: Path) -> None:
    arguments = ["estimate", graph_of(tmp_path / "in", 10**6, 10**7).root, "--num-parts", 4, "--json"]
    plain, reversed_ = (
        json.loads(called(*arguments, *more).stdout)
        for more in ([], ["--reverse-edges", "--max-edge-cut", 0.5])
    )
    assert (plain["edges"], reversed_["edges"]) == (10**7, 2 * 10**7)


def test_the_verb_refuses_a_previous_run_that_does_not_exist(called: Called, tmp_path: Path) -> None:
    source, earlier = graph_of(tmp_path / "in", 10**6, 10**7).root, tmp_path / "earlier"
    done = called("estimate", source, "--num-parts", 4, "--previous", earlier)
    assert done.returncode == 3, done.stderr
    assert str(earlier) in done.stderr


def test_run_refuses_at_the_start_and_goes_on_when_told_to(called: Called, tmp_path: Path) -> None:
    source, out = graph_of(tmp_path / "in", 10**9, 10**11).root, tmp_path / "out"
    done = called("run", source, out, "--num-parts", 4)
    assert done.returncode == 1
    assert "GiB of memory, for prepare" in done.stderr
    assert "Traceback" not in done.stderr
    assert not out.exists()
    assert "Correct the counts" in done.stderr
    (source / "metadata.json").write_text(json.dumps(described(10**3, 10**12)))
    done = called("run", source, out, "--num-parts", 4, "--ignore-estimate")
    assert done.returncode == 3, done.stderr
    assert "likes.parquet" in done.stderr
