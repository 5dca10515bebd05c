"""Files of others stay: in outputs, in folders of fetched partitions, and where single files are written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.marker import read_marker
from partition_ops.cli import main
from partition_ops.errors import ConflictError, UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, Store, open_store, s3_conditions
from tests.graphs import library

FOREIGN = ("scratch/notes.txt", "records/customers.json", "quality/report.html", "manifest.json", "part0/a")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph ``in`` and its finished output ``out``."""
    folder = tmp_path_factory.mktemp("own")
    library().write(folder / "in")
    words = ["run", str(folder / "in"), str(folder / "out"), "--num-parts", "2", "--engine", "random"]
    assert main(words) == 0
    return folder


@pytest.fixture(params=["local", "s3"])
def root(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Store]:
    monkeypatch.setattr(s3_conditions, "SETTLE_SECONDS", 0.1)  # the server is near
    if request.param == "local":
        yield open_store(str(tmp_path / "root"))
        return
    settings: StorageSettings = request.getfixturevalue("s3_settings")
    with open_store(request.getfixturevalue("s3_root"), settings) as store:
        yield store


def content(root: Store) -> dict[str, bytes]:
    return {entry.key: root.read_bytes(entry.key) for entry in root.list()}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_root_with_files_of_others_is_rejected(name: str, root: Store, finished: Path) -> None:
    root.write_bytes(name, b"{}")
    with pytest.raises(UsageError, match="did not write") as refused:
        run_job(RunConfig(num_parts=2), open_store(str(finished / "in")), root)
    assert refused.value.found == name.split("/")[0]
    assert content(root) == {name: b"{}"}


def test_files_of_others_in_an_output_stay(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "out", tmp_path / "out")
    names = ["scratch/notes.txt", "validation/data_docs/mine.txt", "validation/dropped/mine.npy"]
    for name in names:
        (tmp_path / "out" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out" / name).write_text("mine")
    words = ["run", str(finished / "in"), str(tmp_path / "out"), "--num-parts", "3", "--engine", "random"]
    assert main(words) == 0
    assert all((tmp_path / "out" / name).read_text() == "mine" for name in names)


def test_an_output_has_a_marker_and_one_of_another_version_is_rejected(
    finished: Path, tmp_path: Path
) -> None:
    assert read_marker(open_store(str(finished / "out"))) == {"version": 1, "content": "output"}
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / layout.MARKER).write_text('{"version": 2, "content": "output"}')
    assert main(["validate", str(finished / "in"), "--output", str(tmp_path / "out")]) == 3


def test_fetch_leaves_files_of_others(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["fetch", str(finished / "out"), "--part", "0", "--to", str(tmp_path / "to")]
    mine = tmp_path / "to" / "part0" / "mine"
    mine.parent.mkdir(parents=True)
    mine.write_text("mine")
    assert main(words) == 2
    assert "part0" in capsys.readouterr().err and mine.read_text() == "mine"
    mine.unlink()
    mine.parent.rmdir()
    assert main(words) == 0
    (tmp_path / "to" / "part0" / "graph.dgl").write_bytes(b"damaged")
    assert main(words) == 0, "what an earlier call has written is replaced"
    mine.write_text("mine")
    (tmp_path / "to" / "part0" / "graph.dgl").write_bytes(b"damaged")
    assert main(words) == 2
    assert mine.read_text() == "mine"
    listed = json.loads((tmp_path / "to" / layout.MARKER).read_text())["files"]
    assert "part0/graph.dgl" in listed and "part0/mine" not in listed


def test_fetch_accepts_a_folder_that_an_earlier_version_filled(finished: Path, tmp_path: Path) -> None:
    words = ["fetch", str(finished / "out"), "--part", "0", "--to", str(tmp_path)]
    assert main(words) == 0
    (tmp_path / layout.MARKER).unlink()
    assert main([*words[:3], "1", *words[4:]]) == 0
    assert (tmp_path / "part1" / "graph.dgl").exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (
            "idmap restore OUT --node-type paper --input ROWS --output OUT/manifest.npy",
            "inside a finished output",
        ),
        (
            "idmap restore OUT --node-type paper --input ROWS --output OUT/quality/x.npy",
            "inside a finished output",
        ),
        ("idmap restore OUT --node-type paper --input ROWS --output ROWS", "replace its own input"),
        ("idmap apply OUT --node-type paper --input ROWS --output ROWS", "replace its own input"),
        (
            "idmap apply OUT --node-type paper --input ROWS --output OUT/{part}.npy",
            "inside a finished output",
        ),
        ("idmap carry-over OUT OUT --output OUT", "is a finished output"),
        ("idmap carry-over OUT OUT --output OUT/idmap", "did not write"),
        ("idmap export IN --output IN", "did not write"),
        ("quality IN --output IN", "did not write"),
        ("schema IN --output IN/metadata.json", "inside the input"),
        ("schema IN --output OUT/manifest.json", "inside a finished output"),
        ("run IN IN --num-parts 2", "are the same"),
        ("run IN OUT/inner --num-parts 2", "inside a finished output"),
    ],
)
def test_verbs_do_not_write_into_inputs_and_finished_outputs(
    words: str, said: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {"IN": finished / "in", "OUT": finished / "out", "ROWS": tmp_path / "rows.npy"}
    np.save(places["ROWS"], np.arange(40))
    before = {name: content(open_store(str(places[name]))) for name in ("IN", "OUT")}
    for name, path in places.items():
        words = words.replace(name, str(path))
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
    assert {name: content(open_store(str(places[name]))) for name in ("IN", "OUT")} == before
    assert np.array_equal(np.load(places["ROWS"]), np.arange(40))


def test_a_holder_that_lost_its_lock_changes_nothing_more(root: Store) -> None:
    """As one that was suspended for long: every way of changing something is refused."""
    root.write_bytes("a", b"before")
    root.write_json(layout.MARKER, {"version": 1, "content": "output"})
    changes = (
        lambda: root.write_bytes("a", b"after"),
        lambda: root.write_bytes("b", b"new"),
        lambda: root.child("c").write_bytes("d", b"new"),
        lambda: root.write_first("records/x.json", b"new"),
        lambda: root.delete(["a"]),
        lambda: root.compare_and_set("latest.json", b"new", expected=None),
    )
    with pytest.raises(ConflictError, match="taken over"), locked(root):
        root.write_bytes("a", b"mine")
        lock = root.read_json(layout.LOCK)
        others = {
            **lock,
            "token": lock["token"] + 1,
            "holder": {"host": "elsewhere", "process": 1, "call": "x"},
        }
        data = json.dumps(others).encode()
        assert root.compare_and_set(layout.LOCK, data, expected=root.read_bytes(layout.LOCK), fenced=False)
        for change in changes:
            with pytest.raises(ConflictError, match="taken over"):
                change()
        raise ConflictError("taken over")
    assert content(root).keys() == {"a", layout.MARKER, layout.LOCK}
    assert root.read_bytes("a") == b"mine" and root.read_json(layout.LOCK) == others


def test_what_looks_damaged_after_a_takeover_is_reported_as_such(root: Store) -> None:
    with pytest.raises(ConflictError, match="taken over"), locked(root, claim=False):
        root.compare_and_delete(layout.LOCK, expected=root.read_bytes(layout.LOCK), instead=b"")
        root.read_bytes("artifact")  # which another process has removed


def test_tokens_grow(root: Store) -> None:
    tokens = []
    for _ in range(3):
        with locked(root, claim=False):
            tokens.append(root.read_json(layout.LOCK)["token"])
    assert tokens == sorted({*tokens})
