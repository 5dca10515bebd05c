"""Files of others stay: in outputs, in folders of fetched partitions, and where single files are written."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.lock import locked
from partition_ops.artifacts.marker import read_marker
from partition_ops.cli import main
from partition_ops.errors import ConflictError, UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import StorageSettings, Store, open_store, s3_conditions
from partition_ops.storage.local_store import PARTIAL
from tests.graphs import library

PLACES = {"IN": "in", "OUT": "out", "GRAPH": "graph", "TABLES": "tables"}
FOREIGN = ("scratch/notes.txt", "records/customers.json", "quality/report.html", "manifest.json", "part0/a")


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph ``in`` and its finished output ``out``."""
    folder = tmp_path_factory.mktemp("own")
    library().write(folder / "in")
    words = ["run", str(folder / "in"), str(folder / "out"), "--num-parts", "2", "--engine", "random"]
    assert main(words) == 0
    write_tables(folder / "tables")
    assert main(["ingest", str(folder / "tables" / "graph.yaml"), str(folder / "graph")]) == 0
    return folder


def write_tables(folder: Path, rows: int = 3) -> None:
    """Write a small graph.yaml with two tables."""
    folder.mkdir()
    (folder / "u.csv").write_text("id,x\n" + "".join(f"{row},{row}.5\n" for row in range(rows)))
    (folder / "e.csv").write_text("s,d\n0,1\n1,2\n")
    (folder / "graph.yaml").write_text(
        "graph_name: shop\nnodes: {u: {table: u.csv, key: id, features: {x: {}}}}\n"
        "edges: {'u:r:u': {table: e.csv, src: s, dst: d}}\n"
    )


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
        ("idmap carry-over OUT OUT --output OUT", "holds an output"),
        ("idmap restore OUT --node-type paper --input ROWS --output IN/node_data/0-0.npy", "its own input"),
        ("idmap apply OUT --node-type paper --input ROWS --output IN/node_data/{part}-0.npy", "own input"),
        ("idmap restore OUT --node-type paper --input ROWS --output GRAPH/x.npy", "inside an ingested graph"),
        ("schema IN --output GRAPH/x.json", "inside an ingested graph"),
        ("ingest TABLES/graph.yaml OUT", "holds an output"),
        ("ingest TABLES/graph.yaml OUT/inner", "inside a finished output"),
        ("ingest TABLES/graph.yaml GRAPH/inner", "inside an ingested graph"),
        ("ingest TABLES/graph.yaml GRAPH --previous GRAPH", "are the same"),
        ("run IN GRAPH --num-parts 2", "holds an ingested graph"),
        ("validate IN --output GRAPH", "holds an ingested graph"),
        ("idmap carry-over OUT OUT --output GRAPH", "holds an ingested graph"),
        ("fetch OUT --part 0 --to OUT/inner", "inside a finished output"),
        ("fetch OUT --part 0 --to OUT/partitions", "inside a finished output"),
        ("fetch OUT --part 0 --to GRAPH", "holds partitions of another output"),
        ("fetch OUT --part 0 --to GRAPH/inner", "inside an ingested graph"),
        ("idmap carry-over OUT OUT --output OUT/idmap", "did not write"),
        ("idmap export IN --output IN", "did not write"),
        ("quality IN --output IN", "did not write"),
        ("schema IN --output IN/metadata.json", "inside the input"),
        ("schema IN --output ROWS", "did not write"),
        ("schema IN --output OUT/manifest.json", "inside a finished output"),
        ("run IN IN --num-parts 2", "are the same"),
        ("run IN OUT/inner --num-parts 2", "inside a finished output"),
    ],
)
def test_verbs_do_not_write_into_inputs_and_finished_outputs(
    words: str, said: str, finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    places = {name: finished / path for name, path in PLACES.items()} | {"ROWS": tmp_path / "rows.npy"}
    np.save(places["ROWS"], np.arange(40))
    before = {name: content(open_store(str(places[name]))) for name in PLACES}
    for name, path in places.items():
        words = words.replace(name, str(path))
    assert main(words.split()) == 2
    assert said in capsys.readouterr().err
    assert {name: content(open_store(str(places[name]))) for name in PLACES} == before
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
    with pytest.raises(ConflictError, match="taken over"), locked(root, None):
        root.write_bytes("before", b"")
        root.compare_and_delete(layout.LOCK, expected=root.read_bytes(layout.LOCK), instead=b"")
        root.read_bytes("artifact")  # which another process has removed


def test_tokens_grow(root: Store) -> None:
    tokens = []
    for _ in range(3):
        with locked(root, None):
            tokens.append(root.read_json(layout.LOCK)["token"])
    assert tokens == sorted({*tokens})


def test_an_output_takes_a_graph_of_tables_after_a_folder_and_back(
    finished: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Nothing of the graph before is left: the next run would take it for its input."""
    out, tables = tmp_path / "out", str(finished / "tables" / "graph.yaml")
    options = [str(out), "--num-parts", "2", "--engine", "random"]
    for source in (str(finished / "in"), tables, str(finished / "in")):
        if (out / layout.MANIFEST).exists():
            before = content(open_store(str(out)))
            assert main(["run", source, *options, "--check-artifacts"]) == 2
            said = " ".join(capsys.readouterr().err.split())
            assert f"{source} " in said and "--replace-input" in said
            assert content(open_store(str(out))) == before
        assert main(["run", source, *options, "--replace-input"]) == 0
        assert main(["verify", source, str(out)]) == 0
        assert (out / layout.INGEST).exists() == (source == tables)
    keys = {path.name for path in (out / layout.PARTITIONS).glob("*.json")}
    assert keys == {"small.json"}


def test_a_run_that_was_killed_when_it_began_to_ingest_is_repeated(finished: Path, tmp_path: Path) -> None:
    """It has left an expired lock, and perhaps a part of a file, in the root of the graph."""
    ingest = tmp_path / "out" / layout.INGEST
    ingest.mkdir(parents=True)
    lock = {
        "version": 2,
        "holder": {"host": "elsewhere", "process": 1, "call": "x"},
        "since": "2020-01-01T00:00:00+00:00",
        "timeout_seconds": 60,
        "token": 1,
    }
    open_store(str(ingest)).write_json(layout.LOCK, lock)
    (ingest / f"{PARTIAL}0123456789abcdef").write_text("{")
    words = ["run", str(finished / "tables" / "graph.yaml"), str(tmp_path / "out")]
    assert main([*words, "--num-parts", "2", "--engine", "random"]) == 0


def test_rejected_tables_leave_the_graph_that_was_to_be_continued(finished: Path, tmp_path: Path) -> None:
    shutil.copytree(finished / "graph", tmp_path / "old")
    write_tables(tmp_path / "tables", rows=2)  # without a node of the old graph
    before = content(open_store(str(tmp_path / "old")))
    words = ["ingest", str(tmp_path / "tables" / "graph.yaml")]
    assert main([*words, str(tmp_path / "new"), "--previous", str(tmp_path / "old")]) == 3
    (tmp_path / "link").symlink_to(tmp_path / "old")
    assert main([*words, str(tmp_path / "link"), "--previous", str(tmp_path / "old")]) == 2
    assert content(open_store(str(tmp_path / "old"))) == before


def test_a_table_that_a_run_was_made_from_is_not_replaced(finished: Path, tmp_path: Path) -> None:
    tables = tmp_path / "tables"
    write_tables(tables)
    pq.write_table(pa.table({"id": [0, 1, 2], "x": [0.5, 1.5, 2.5]}), tables / "u.parquet")
    file = tables / "graph.yaml"
    file.write_text(file.read_text().replace("u.csv", "u.parquet"))
    options = ["--num-parts", "2", "--engine", "random"]
    assert main(["run", str(file), str(tmp_path / "out"), *options]) == 0
    np.save(tmp_path / "rows.npy", np.zeros(3))
    before = content(open_store(str(tables)))
    words = ["idmap", "restore", str(tmp_path / "out"), "--node-type", "u", "--input"]
    words += [str(tmp_path / "rows.npy"), "--output"]
    assert main([*words, str(tables / "u.parquet")]) == 2
    assert main([*words, str(tables / "new.parquet")]) == 0
    (tables / "new.parquet").unlink()
    assert content(open_store(str(tables))) == before


def test_tables_that_change_before_publish_are_not_published(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """The verb ingests them again, and the stages before have read the graph of the old rows."""
    write_tables(tmp_path / "in")
    graph, out = str(tmp_path / "in" / "graph.yaml"), str(tmp_path / "out")
    assert main(["run", graph, out, "--num-parts", "2", "--engine", "random"]) == 0
    (tmp_path / "in" / "u.csv").write_text("id,x\n0,7\n1,8\n2,9\n")
    open_store(out).delete([layout.MANIFEST])
    assert main(["publish", graph, "--output", out]) == 3
    assert "was made anew from tables that have changed" in capsys.readouterr().err
    assert not open_store(out).exists(layout.MANIFEST)
    assert main(["run", graph, out, "--num-parts", "2", "--engine", "random"]) == 0
    assert main(["verify", graph, out]) == 0
