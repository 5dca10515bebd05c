"""Fetching partitions: whole, verified, loadable, and of one output only."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.cli import main
from partition_ops.errors import InvalidInputError, TransientStorageError, UsageError
from partition_ops.formats.dgl.array_places import PARTITION_FILES
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import Store, open_store
from tests.graphs import library
from tests.uploads import upload_folder

Content = dict[str, bytes]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("whole")
    source = open_store(str(library().write(folder / "in")))
    run_job(RunConfig(num_parts=3, engine="random"), source, open_store(str(folder / "out")))
    return folder / "out"


@pytest.fixture
def output(whole: Path, tmp_path: Path) -> Store:
    """A copy to damage."""
    store = open_store(str(tmp_path / "out"))
    upload_folder(whole, store)
    return store


def content(folder: Path) -> Content:
    files = (path for path in folder.rglob("*") if path.is_file() and path.name != layout.MARKER)
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def expected(whole: Path, parts: tuple[int, ...]) -> Content:
    names = ["small.json", *(f"part{part}/{name}" for part in parts for name in PARTITION_FILES)]
    return {name: (whole / layout.PARTITIONS / name).read_bytes() for name in names}


@pytest.mark.parametrize("folder", ["file", "file/below"])
def test_a_folder_that_cannot_be_made_is_named(
    whole: Path, tmp_path: Path, folder: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("x")
    assert main(["fetch", str(whole), "--part", "1", "--to", str(tmp_path / folder)]) == 2
    assert f"error: {tmp_path / folder} cannot be a folder" in capsys.readouterr().err
    assert content(tmp_path) == {"file": b"x"}


def test_another_partition_beside_it_and_nothing_twice(whole: Path, tmp_path: Path) -> None:
    store = open_store(str(whole))
    fetch_partitions(store, [2], tmp_path)
    before = (tmp_path / "part2/graph.dgl").stat().st_mtime_ns
    assert fetch_partitions(store, [0, 2], tmp_path)["bytes"] == sum(
        len(data) for name, data in expected(whole, (0,)).items() if name.startswith("part0")
    )
    assert (tmp_path / "part2/graph.dgl").stat().st_mtime_ns == before
    assert content(tmp_path) == expected(whole, (0, 2))
    assert fetch_partitions(store, [0, 2], tmp_path)["bytes"] == 0


def test_a_damaged_copy_is_fetched_again(whole: Path, tmp_path: Path) -> None:
    fetch_partitions(open_store(str(whole)), [0], tmp_path)
    (tmp_path / "part0/graph.dgl").write_bytes(b"half")
    fetch_partitions(open_store(str(whole)), [0], tmp_path)
    assert content(tmp_path) == expected(whole, (0,))


@pytest.mark.parametrize("name", PARTITION_FILES)
def test_what_the_manifest_does_not_list_never_arrives(output: Store, tmp_path: Path, name: str) -> None:
    path = output.local_copy(f"partitions/part1/{name}")
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))
    fetch_partitions(output, [0], tmp_path / "to")
    before = content(tmp_path / "to")
    with pytest.raises(TransientStorageError, match=r"not what the manifest lists.*rebuild the file with"):
        fetch_partitions(output, [1], tmp_path / "to")
    assert content(tmp_path / "to") == before


def test_a_missing_file_and_an_unfinished_output(output: Store, tmp_path: Path) -> None:
    output.delete(["partitions/part0/orig_eids.dgl"])
    with pytest.raises(TransientStorageError, match=r"orig_eids\.dgl is not what the manifest lists"):
        fetch_partitions(output, [0], tmp_path / "to")
    assert not content(tmp_path / "to")
    output.delete([layout.MANIFEST])
    with pytest.raises(InvalidInputError, match=r"not a finished output"):
        fetch_partitions(output, [0], tmp_path / "to")


def test_partitions_of_two_outputs_do_not_meet(whole: Path, tmp_path: Path) -> None:
    source = open_store(str(library().write(tmp_path / "in")))
    other = open_store(str(tmp_path / "other"))
    run_job(RunConfig(num_parts=3, engine="random", seed=1), source, other)
    fetch_partitions(open_store(str(whole)), [0], tmp_path / "to")
    with pytest.raises(UsageError, match=r"holds partitions of another output"):
        fetch_partitions(other, [1], tmp_path / "to")
    assert content(tmp_path / "to") == expected(whole, (0,))


@pytest.mark.parametrize("part", [-1, 3])
def test_there_is_no_such_partition(whole: Path, tmp_path: Path, part: int) -> None:
    with pytest.raises(UsageError, match=rf"Found: {part}\. Expected: 0 to 2"):
        fetch_partitions(open_store(str(whole)), [0, part], tmp_path / "to")
    assert not (tmp_path / "to").exists()


def test_the_newest_run_of_a_graph(whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As the DAG leaves it: ``latest.json`` at the root of the graph's runs."""
    pointer = {
        "version": 1,
        "graph_name": "small",
        "run_id": "1",
        "run": str(whole),
        "manifest": f"{whole}/manifest.json",
        "partition_config": f"{whole}/partitions/small.json",
        "num_parts": 3,
    }
    root = tmp_path / "small"
    root.mkdir()
    (root / layout.LATEST).write_text(json.dumps(pointer))
    assert main(["fetch", str(root), "--part", "1", "--to", str(tmp_path / "to")]) == 0
    assert content(tmp_path / "to") == expected(whole, (1,))
    (root / layout.LATEST).write_text("{}")
    assert main(["fetch", str(root), "--part", "1", "--to", str(tmp_path / "to")]) == 3
    assert "latest.json" in capsys.readouterr().err


@pytest.mark.parametrize("key", [layout.BOOK, "partitions/small.json", "partitions/part1/graph.dgl"])
@pytest.mark.parametrize("damage", ["removed", "other bytes"])
def test_every_damaged_file_is_told_alike(output: Store, key: str, damage: str, tmp_path: Path) -> None:
    """The book too, which says where the others are: a damaged format in it is no missing package."""
    if damage == "removed":
        output.delete([key])
    else:
        output.write_bytes(key, output.read_bytes(key).replace(b"dgl", b"dgm") + b" ")
    with pytest.raises(TransientStorageError, match=rf"{key} is not what the manifest lists") as caught:
        fetch_partitions(output, [1], tmp_path / "to")
    assert caught.value.found is not None
    assert ("no such file" in caught.value.found) == (damage == "removed")
    assert not (tmp_path / "to/part1").exists()
