"""The engine ``parmetis`` with the real library, and what it says where it cannot run."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.parhip import open_parhip, read_parhip_slice
from partition_ops.chunked.metadata import load_metadata
from partition_ops.cli import main
from partition_ops.errors import EngineError, InvalidInputError, UsageError
from partition_ops.stages.partition.mpi import mpirun
from partition_ops.stages.partition.mpi.options import LibraryOptions, MpiOptions
from partition_ops.stages.partition.mpi.parmetis_library import check_fits, find_library
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import StorageSettings, Store, open_store
from tests.graphs import Edges, SmallGraph, Values, library
from tests.growth import grown
from tests.integration.test_partition_incremental import blocks, migration, partitioned
from tests.mpi import needs_parmetis

PAPERS = 8000  # enough for ParMETIS's own multilevel method, which begins at 10,000 nodes


@pytest.fixture(scope="module")
def graph_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("parmetis")
    library(papers=PAPERS).write(folder / "input")
    prepare_graph(PrepareConfig(), open_store(str(folder / "input")), open_store(str(folder / "output")))
    return folder


@pytest.fixture
def stores(graph_folder: Path, tmp_path: Path) -> tuple[Store, Store]:
    shutil.copytree(graph_folder / "output", tmp_path / "output")
    return open_store(str(graph_folder / "input")), open_store(str(tmp_path / "output"))


def assigned(stores: tuple[Store, Store], **options: object) -> np.ndarray:
    source, destination = stores
    destination.delete([layout.record("partition")])
    ranks = options.pop("ranks", 2)
    config = PartitionConfig(engine="parmetis", mpi=MpiOptions(ranks=ranks), **{"num_parts": 3, **options})
    partition_nodes(config, source, destination)
    return read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source)).parts


def worst(parts: np.ndarray, offsets: tuple[int, ...], shares: list[float]) -> float:
    """Largest share of a large type in a partition over what it should be."""
    found = []
    for begin, end in pairwise(offsets):
        if end - begin > 100:
            sizes = np.bincount(parts[begin:end], minlength=len(shares)) / (end - begin)
            found.append((sizes / (np.array(shares) / sum(shares))).max())
    return max(found)


@needs_parmetis
@pytest.mark.parametrize("ranks", [1, 3])
def test_every_type_is_balanced_and_fewer_edges_cut_than_by_chance(
    stores: tuple[Store, Store], ranks: int
) -> None:
    parts = assigned(stores, ranks=ranks)
    assert worst(parts, load_metadata(stores[0]).node_offsets, [1, 1, 1]) < 1.07
    graph = open_parhip(stores[1].local_copy(layout.PREPARED_GRAPH))
    ends = np.repeat(np.arange(graph.num_nodes), np.diff(graph.offsets))
    assert (parts[ends] != parts[graph.neighbours]).mean() < 0.6  # 2/3 by chance
    assert not stores[1].exists(layout.RANKS_PARTS)


@needs_parmetis
def test_the_seed_repeats(stores: tuple[Store, Store]) -> None:
    first = assigned(stores, seed=1)
    np.testing.assert_array_equal(first, assigned(stores, seed=1))
    assert (first != assigned(stores, seed=2)).any()


@needs_parmetis
def test_target_shares_and_trainers(stores: tuple[Store, Store]) -> None:
    parts = assigned(stores, num_parts=2, target_shares=(3.0, 1.0), num_trainers_per_machine=2)
    assert worst(parts, load_metadata(stores[0]).node_offsets, [3, 1]) < 1.1
    trainers = np.load(stores[1].local_copy("assignment/trainers/paper.npy"))
    begin, end = (load_metadata(stores[0]).node_offsets[i] for i in (1, 2))
    assert set(trainers.tolist()) == {0, 1, 2, 3}
    np.testing.assert_array_equal(trainers // 2, parts[begin:end])


@needs_parmetis
def test_on_object_storage_without_secrets_on_the_command_line(
    graph_folder: Path, stores: tuple[Store, Store], s3_root: str, s3_settings: StorageSettings
) -> None:
    from tests.uploads import upload_folder

    expected = assigned(stores, balance="edges")
    secret, seen = s3_settings.secret_key or "", threading.Event()
    ended = threading.Event()

    def watch() -> None:
        while not ended.is_set():
            for path in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if secret and secret.encode() in path.read_bytes():
                        seen.set()
                except OSError:
                    continue
            time.sleep(0.05)

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        with open_store(s3_root, s3_settings) as root:
            upload_folder(graph_folder / "input", root.child("in"))
            upload_folder(graph_folder / "output", root.child("out"))
            found = assigned((root.child("in"), root.child("out")), balance="edges")
    finally:
        ended.set()
        watcher.join()
    np.testing.assert_array_equal(found, expected)
    assert not seen.is_set()


@needs_parmetis
def test_a_killed_rank_fails_the_job_and_the_error_of_a_rank_is_shown(tmp_path: Path) -> None:
    module = tmp_path / "dying.py"
    module.write_text(
        "import os, signal, sys, time\n"
        "from partition_ops.errors import InvalidInputError\n"
        "from partition_ops.stages.partition.mpi.mpirun import run_rank\n"
        "def work(comm):\n"
        "    how = comm.bcast(sys.stdin.read() if comm.rank == 0 else None)\n"
        "    if comm.rank == 1 and 'kill' in how: os.kill(os.getpid(), signal.SIGKILL)\n"
        "    if comm.rank == 1: raise InvalidInputError('my graph is gone', found='nothing')\n"
        "    comm.barrier()\n"
        "run_rank(work)\n"
    )
    os.environ["PYTHONPATH"], before = str(tmp_path), os.environ.get("PYTHONPATH")
    try:
        began = time.monotonic()
        with pytest.raises(mpirun.RankDiedError, match="signal 9") as died:
            mpirun.run_ranks("dying", {"how": "kill"}, MpiOptions(ranks=3))
        assert died.value.transient
        with pytest.raises(InvalidInputError, match=r"Rank 1 on .*my graph is gone"):
            mpirun.run_ranks("dying", {"how": "raise"}, MpiOptions(ranks=3))
        assert time.monotonic() - began < 300
    finally:
        os.environ.pop("PYTHONPATH")
        if before is not None:
            os.environ["PYTHONPATH"] = before


@needs_parmetis
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_a_run_that_a_signal_ends_leaves_no_rank_behind(number: signal.Signals, tmp_path: Path) -> None:
    (tmp_path / "sleeping.py").write_text(
        "import os, time, pathlib\n"
        f"pathlib.Path(r'{tmp_path}', f'pid{{os.getpid()}}').touch()\ntime.sleep(60)\n"
    )
    script = (  # a shell may make background processes ignore the signal
        "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "from partition_ops.stages.partition.mpi import mpirun\n"
        "from partition_ops.stages.partition.mpi.options import MpiOptions\n"
        "mpirun.run_ranks('sleeping', {}, MpiOptions(ranks=2))\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    process = subprocess.Popen([sys.executable, "-c", script], env=environment, stderr=subprocess.DEVNULL)
    wait_for(lambda: len(list(tmp_path.glob("pid*"))) == 2)
    process.send_signal(number)
    process.wait(120)
    pids = [int(path.name[3:]) for path in tmp_path.glob("pid*")]
    wait_for(lambda: not any(Path(f"/proc/{pid}/exe").exists() for pid in pids))


@needs_parmetis
def test_ranks_write_nothing_once_the_lock_is_lost(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As ranks that outlive the command that started them, on another host."""
    run_ranks = mpirun.run_ranks

    def without_lock(module: str, job: dict[str, Any], options: MpiOptions) -> str:
        stale = {**job, "lock": {**job["lock"], "token": job["lock"]["token"] - 1}}
        with pytest.raises(EngineError, match="another process has taken over the lock"):
            run_ranks(module, stale, options)
        assert not stores[1].exists(layout.RANKS_PARTS)
        return run_ranks(module, job, options)

    monkeypatch.setattr(mpirun, "run_ranks", without_lock)
    with locked(stores[1], None):
        assigned(stores)


def wait_for(condition: object, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < end
        time.sleep(0.1)


def test_a_tiny_graph_is_given_to_metis(tmp_path: Path) -> None:
    source = open_store(str(library(papers=20).write(tmp_path / "in")))
    destination = open_store(str(tmp_path / "out"))
    prepare_graph(PrepareConfig(), source, destination)
    mpi = MpiOptions(ranks=4, mpirun="false")  # a command that there is, and that starts no ranks
    partition_nodes(PartitionConfig(num_parts=2, engine="parmetis", mpi=mpi), source, destination)


def test_what_is_missing_is_said_in_one_sentence(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("ctypes.util.find_library", lambda name: None)
    arguments = [stores[0].uri, "--output", stores[1].uri, "--num-parts", "2", "--engine", "parmetis"]
    assert main(["partition", *arguments]) == 1
    error = capsys.readouterr().err
    assert "libparmetis4.0" in error
    assert "the other engines do not need them" in error
    assert "Traceback" not in error
    with pytest.raises(EngineError, match="no library /nowhere"):
        find_library(LibraryOptions(path="/nowhere", index_bits=64))


@needs_parmetis
def test_a_library_that_is_none_is_named(stores: tuple[Store, Store]) -> None:
    options = MpiOptions(library=LibraryOptions(path=str(stores[1].local_copy(layout.PREPARED_STATS))))
    with pytest.raises(EngineError, match=r"stats\.json cannot be loaded"):
        partition_nodes(PartitionConfig(num_parts=2, engine="parmetis", mpi=options), *stores)


def test_32_bits_are_checked_before_the_call(stores: tuple[Store, Store]) -> None:
    stats = stores[1].read_json(layout.PREPARED_STATS)
    stores[1].write_json(layout.PREPARED_STATS, {**stats, "num_half_edges": 2**31})
    with pytest.raises(EngineError, match=r"32-bit.*2147483648 half-edges.*at most 2147483647"):
        assigned(stores)
    check_fits(32, nodes=10, half_edges=2**31 - 1, weight_sums=[10])
    check_fits(64, nodes=10, half_edges=2**31, weight_sums=[2**40])
    with pytest.raises(EngineError, match="sum of node weight 2"):
        check_fits(32, nodes=10, half_edges=10, weight_sums=[10, 2**31])


def test_slices_of_the_graph_are_the_graph(stores: tuple[Store, Store]) -> None:
    graph = open_parhip(stores[1].local_copy(layout.PREPARED_GRAPH))
    for begin, end in ((0, 7), (7, 7), (7, graph.num_nodes)):
        piece = read_parhip_slice(stores[1], layout.PREPARED_GRAPH, begin, end, np.dtype(np.int32))
        first, last = graph.offsets[begin], graph.offsets[end]
        np.testing.assert_array_equal(piece.offsets, graph.offsets[begin : end + 1] - first)
        np.testing.assert_array_equal(piece.neighbours, graph.neighbours[first:last])


def test_options_that_an_engine_cannot_do_name_one_that_can(stores: tuple[Store, Store]) -> None:
    for engine, options in (
        ("parmetis", {"objective": "vol"}),
        ("random", {"tolerance": 1.1}),
        ("random", {"balance_ntypes": "train_mask"}),
    ):
        with pytest.raises(UsageError, match=r"does not support --.*--engine .*metis"):
            partition_nodes(PartitionConfig(num_parts=2, engine=engine, **options), *stores)


@pytest.mark.parametrize("engine", ["metis", pytest.param("parmetis", marks=needs_parmetis)])
@pytest.mark.parametrize("balance", ["node-types", "none"])
def test_a_mask_is_balanced(engine: str, balance: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    mask = np.arange(1000) < 300
    ends = [
        np.where(rng.random(6000) < 0.9, *(rng.integers(0, 300, 6000), rng.integers(0, 1000, 6000)))
        for _ in range(2)
    ]
    graph = SmallGraph(
        {"a": 1000, "b": 400},
        {"a:r:a": Edges(*ends), "a:s:b": Edges(rng.integers(0, 1000, 900), rng.integers(0, 400, 900))},
        [Values("a", "train_mask", mask)],
    )
    source, destination = open_store(str(graph.write(tmp_path / "in"))), open_store(str(tmp_path / "out"))
    prepare_graph(PrepareConfig(), source, destination)
    partition_nodes(
        PartitionConfig(num_parts=2, engine=engine, balance=balance, balance_ntypes="train_mask"),
        source,
        destination,
    )
    parts = read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source)).parts
    inside = np.bincount(parts[:1000][mask], minlength=2)
    assert inside.max() <= 1.07 * 150
    with pytest.raises(UsageError, match="No node type has a feature 'absent'"):
        partition_nodes(PartitionConfig(num_parts=2, balance_ntypes="absent"), source, destination)


@pytest.mark.parametrize(
    "engine", ["auto", "two-level", "metis", pytest.param("parmetis", marks=needs_parmetis)]
)
def test_several_masks_are_balanced(engine: str, tmp_path: Path) -> None:
    """As the guide asks for: training, validation and test set count as types of their own."""
    rng = np.random.default_rng(0)
    group = np.repeat([0, 1, 2], [200, 100, 700])  # communities, which an engine would keep together
    begins, sizes = np.array([0, 200, 300]), np.array([200, 100, 700])
    src = rng.integers(0, 1000, 6000)
    near = begins[group[src]] + rng.integers(0, 1 << 30, 6000) % sizes[group[src]]
    dst = np.where(rng.random(6000) < 0.95, near, rng.integers(0, 1000, 6000))
    masks = [Values("a", name, group == which) for which, name in enumerate(("train_mask", "val_mask"))]
    graph = SmallGraph({"a": 1000}, {"a:r:a": Edges(src, dst)}, masks)
    source, destination = open_store(str(graph.write(tmp_path / "in"))), open_store(str(tmp_path / "out"))
    prepare_graph(PrepareConfig(), source, destination)

    def uneven(*features: str) -> list[float]:
        config = PartitionConfig(num_parts=2, engine=engine, balance_ntypes=features)
        partition_nodes(config, source, destination)
        parts = read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source)).parts
        return [2 * np.bincount(parts[group == which]).max() / sizes[which] for which in range(3)]

    assert max(uneven("none")) > 1.2
    assert uneven("train_mask")[0] < 1.07
    assert max(uneven("train_mask", "val_mask")) < 1.07


def test_metis_keeps_to_target_shares_and_random_deals_by_them(stores: tuple[Store, Store]) -> None:
    offsets = load_metadata(stores[0]).node_offsets
    for engine in ("metis", "random"):
        config = PartitionConfig(num_parts=3, engine=engine, target_shares=(2.0, 1.0, 1.0))
        partition_nodes(config, *stores)
        parts = read_assignment(stores[1].child(layout.ASSIGNMENT), load_metadata(stores[0])).parts
        assert worst(parts, offsets, [2, 1, 1]) < 1.06


def test_numbers_that_cannot_be_are_refused() -> None:
    for options in (
        {"target_shares": (1.0,)},
        {"target_shares": (1.0, 0.0)},
        {"tolerance": 1.0},
        {"num_trainers_per_machine": 0},
        {"objective": "speed"},
    ):
        with pytest.raises(UsageError):
            PartitionConfig(num_parts=2, **options)
    with pytest.raises(UsageError):
        MpiOptions(ranks=0)
    with pytest.raises(UsageError, match="32-bit"):
        LibraryOptions(index_bits=64)


@needs_parmetis
def test_the_whole_job_and_its_options_in_the_record(tmp_path: Path) -> None:
    source = str(library(papers=300).write(tmp_path / "in"))
    arguments = ["run", source, str(tmp_path / "out"), "--num-parts", "2", "--engine", "parmetis"]
    assert main([*arguments, "--mpi-ranks", "2", "--on-defect", "warn"]) == 0
    assert main(["verify", source, str(tmp_path / "out")]) == 0
    record = json.loads((tmp_path / "out/records/partition.json").read_text())
    assert record["options"]["mpi"]["ranks"] == 2


@needs_parmetis
def test_parmetis_repartitions_adaptively(tmp_path: Path) -> None:
    before, _ = partitioned(blocks(600), tmp_path / "before", engine="two-level")
    larger = grown(blocks(600), share=0.1)
    after, counters = partitioned(larger, tmp_path / "after", before, engine="parmetis", drift=100.0)
    assert counters["mode"] == "incremental"
    assert counters["moved"] < 60  # from nothing, two thirds would have moved
    assert migration(after)["imbalance"]["now"]["n"] <= 1.06
