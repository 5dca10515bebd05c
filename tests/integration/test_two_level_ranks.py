"""The engine ``two-level`` over MPI's ranks gives the bytes that it gives in one process."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.chunked.metadata import load_metadata
from partition_ops.cli import main
from partition_ops.errors import StorageError, UsageError
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.mpi import mpirun
from partition_ops.stages.partition.mpi.mpirun import RankDiedError, mpi_environment, mpirun_command
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import StorageSettings, Store, open_store
from tests.graphs import Edges, SmallGraph
from tests.mpi import needs_mpi
from tests.uploads import upload_folder

NODES = 21_000  # smaller graphs do not need the ranks


def write_graph(folder: Path, *, communities: bool) -> tuple[Store, Store]:
    """Write and prepare a graph of two types; without communities, METIS gets the whole of it."""
    random = np.random.default_rng(5)
    begins = random.integers(0, NODES - 1000, 60_000)
    near = begins // 50 * 50 + random.integers(0, 50, len(begins))
    ends = near if communities else random.integers(0, NODES - 1000, len(begins))
    pairs = np.unique(np.column_stack([begins, ends])[begins != ends], axis=0)
    papers = Edges(pairs[:, 0].tolist(), pairs[:, 1].tolist())
    writes = Edges((np.arange(20_000) % 1000).tolist(), list(range(20_000)))
    graph = SmallGraph(
        {"author": 1000, "paper": NODES - 1000}, {"author:writes:paper": writes, "paper:cites:paper": papers}
    )
    graph.write(folder / "in")
    stores = open_store(str(folder / "in")), open_store(str(folder / "out"))
    prepare_graph(PrepareConfig(), *stores)
    return stores


@pytest.fixture(scope="module", params=[True, False], ids=["communities", "none"])
def stores(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Store]:
    return write_graph(tmp_path_factory.mktemp("ranks"), communities=request.param)


def assigned(stores: tuple[Store, Store], ranks: int | None, **options: object) -> np.ndarray:
    source, destination = stores
    destination.delete([layout.record("partition")])
    mpi = MpiOptions(ranks=ranks)
    config = PartitionConfig(engine="two-level", mpi=mpi, **{"num_parts": 4, "seed": 3, **options})
    partition_nodes(config, source, destination)
    return read_assignment(destination.child(layout.ASSIGNMENT), load_metadata(source)).parts


@needs_mpi
@pytest.mark.parametrize("ranks", [pytest.param(2, marks=pytest.mark.long), 3])
def test_each_step_over_ranks_is_that_of_one_process(ranks: int) -> None:
    command = [*mpirun_command(MpiOptions(ranks=ranks)), sys.executable, "-m", "tests.spread_ranks", "30"]
    done = subprocess.run(command, env=mpi_environment(), capture_output=True, text=True, check=False)
    assert f"30 graphs over {ranks} ranks are the same" in done.stdout, done.stdout + done.stderr


@pytest.mark.long
@needs_mpi
def test_any_number_of_ranks_gives_the_same_bytes(
    stores: tuple[Store, Store], caplog: pytest.LogCaptureFixture
) -> None:
    for options in ({}, {"balance": "edges", "num_parts": 3}):
        expected = assigned(stores, None, **options)
        with caplog.at_level(logging.INFO, "partition_ops"):
            for ranks in (1, 2, 4):
                np.testing.assert_array_equal(assigned(stores, ranks, **options), expected)
        assert "largest memory of the MPI ranks in MiB: " in caplog.text
    assert not stores[1].exists(layout.RANKS_PARTS) and not stores[1].exists(layout.RANKS_CLASSES)
    made_by = stores[1].read_json(f"{layout.ASSIGNMENT}/assignment.json")
    assert "mpi" not in str(made_by)  # the assignment does not depend on the ranks


@pytest.mark.long
@needs_mpi
def test_ranks_read_and_write_s3(
    stores: tuple[Store, Store], s3_root: str, s3_settings: StorageSettings
) -> None:
    expected = assigned(stores, None)
    with open_store(s3_root, s3_settings) as root:
        for name, store in zip(("in", "out"), stores, strict=True):
            upload_folder(Path(store.uri.removeprefix("file://")), root.child(name))
        np.testing.assert_array_equal(assigned((root.child("in"), root.child("out")), 2), expected)


@needs_mpi
def test_a_rank_that_dies_ends_the_job(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "dying_rank.py").write_text(
        "import os, signal\n"
        "from partition_ops.stages.partition.mpi import two_level_rank\n"
        "from partition_ops.stages.partition.mpi.job import do_work\n"
        "def work(one):\n"
        f"    if one.comm.rank == 1: os.kill(os.getpid(), {int(signal.SIGKILL)})\n"
        "    return two_level_rank._partition(one)\n"
        "do_work(work)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("partition_ops.stages.partition.engines.two_level.RANK_MODULE", "dying_rank")
    with pytest.raises(RankDiedError, match="An MPI rank died") as died:
        assigned(stores, 2)
    assert died.value.transient and not stores[1].exists(layout.RANKS_CLASSES)


@needs_mpi
def test_a_rank_without_room_for_its_slice_names_the_folder(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "full_rank.py").write_text(
        "import errno, os\n"
        "from partition_ops.stages.partition.mpi.job import do_work\n"
        "def work(one):\n"
        "    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))\n"
        "do_work(work)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setattr("partition_ops.stages.partition.engines.two_level.RANK_MODULE", "full_rank")
    with pytest.raises(StorageError, match=r"Rank . on .*: The disk for temporary files is full") as full:
        assigned(stores, 2)
    assert "set TMPDIR to another folder" in str(full.value)
    assert not stores[1].exists(layout.RANKS_CLASSES)


def test_options_that_do_not_fit(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["run", "graph", str(tmp_path / "out"), "--num-parts", "2", "--mpi-ranks", "2"]
    assert main(words) == 2
    assert "--mpi-ranks needs --engine parmetis or two-level" in capsys.readouterr().err


@needs_mpi
def test_a_hostfile_that_is_missing_is_told_before_any_work() -> None:
    config = PartitionConfig(engine="two-level", num_parts=2, mpi=MpiOptions(ranks=2, hostfile="/nowhere"))
    with pytest.raises(UsageError, match="no such hostfile"):
        find_engine("two-level").check(config)
    assert mpirun.REMEDY.startswith("Install Debian's package openmpi-bin")
