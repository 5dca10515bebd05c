"""``partition-ops copy``: trees between folders and S3."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import latest_run
from partition_ops.artifacts.lock import locked
from partition_ops.cli import main
from partition_ops.errors import UsageError
from partition_ops.jobs.copy import copy_tree
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.storage import StorageSettings, Store, open_store
from tests.dying_store import DyingStore, Killed
from tests.graphs import library

EXTRA = "notes/read me.txt"


@pytest.fixture(scope="module")
def places(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph ``in`` and its output ``out``, which has a file of somebody."""
    folder = tmp_path_factory.mktemp("copy")
    library().write(folder / "in")
    assert main(["run", f"{folder}/in", f"{folder}/out", "--num-parts", "2", "--engine", "random"]) == 0
    (folder / "out" / EXTRA).parent.mkdir()
    (folder / "out" / EXTRA).write_text("x")
    return folder


def copy(source: str, to: str, settings: StorageSettings) -> dict[str, object]:
    """Call the function of the verb as the verb does."""
    with (
        open_store(source, settings) as tree,
        open_store(to, settings) as root,
        locked(root, "copy", reads=[tree]),
    ):
        return copy_tree(tree, root)


def content(root: Store) -> dict[str, bytes]:
    return {entry.key: root.read_bytes(entry.key) for entry in root.list()}


@pytest.mark.parametrize("name", ["in", "out"])
def test_a_tree_comes_back_from_s3_as_it_was(
    places: Path, tmp_path: Path, s3_settings: StorageSettings, s3_root: str, name: str
) -> None:
    done = copy(str(places / name), f"{s3_root}/{name}", s3_settings)
    assert done["copied"] == done["bytes"] == sum(map(len, content(open_store(str(places / name))).values()))
    copy(f"{s3_root}/{name}", f"{s3_root}/again", s3_settings)
    copy(f"{s3_root}/again", str(tmp_path / "back"), s3_settings)
    assert content(open_store(str(tmp_path / "back"))) == content(open_store(str(places / name)))


def test_a_copied_output_passes_verify(places: Path, tmp_path: Path) -> None:
    assert main(["copy", str(places / "out"), str(tmp_path / "to")]) == 0
    assert main(["verify", str(places / "in"), str(tmp_path / "to")]) == 0


def test_an_interrupted_copy_is_no_output_and_is_resumed(places: Path, tmp_path: Path) -> None:
    source = open_store(str(places / "out"))
    files = len(content(source))
    for lives in (1, 4, files // 2, files):
        shutil.rmtree(tmp_path / "to", ignore_errors=True)
        root = DyingStore(tmp_path / "to", lives)
        with pytest.raises(Killed), locked(root, "copy", reads=[source]):
            copy_tree(source, root)
        if lives < files:
            assert not root.exists(layout.MANIFEST)
        assert main(["run", f"{places}/in", f"{tmp_path}/to", "--num-parts", "2"]) == 2
        assert main(["copy", f"{places}/out", f"{tmp_path}/to"]) == 0
        assert content(open_store(str(tmp_path / "to"))) == content(source)


def test_nothing_that_is_there_is_overwritten(places: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "mine").write_text("x")
    shutil.copytree(places / "out", tmp_path / "out")
    before = content(open_store(str(tmp_path)))
    for to in (tmp_path / "notes", tmp_path / "out", tmp_path / "out" / "partitions", places / "in" / "new"):
        assert main(["copy", str(places / "in"), str(to)]) == 2
    assert content(open_store(str(tmp_path))) == before
    assert not (places / "in" / "new").exists()
    assert main(["copy", str(tmp_path / "none"), str(tmp_path / "new")]) == 3
    assert not (tmp_path / "new").exists()
    with pytest.raises(UsageError, match="same"):
        copy(str(places / "in"), str(places / "in"), StorageSettings())


def test_the_runs_of_a_graph_are_published_in_the_copy(places: Path, tmp_path: Path) -> None:
    root = open_store(str(tmp_path / "of" / "small"))
    shutil.copytree(places / "out", tmp_path / "of" / "small" / "runs" / "one")
    (tmp_path / "of/small/runs/one/manifest.json").unlink()
    run = root.child("runs/one")
    publish_run(PublishConfig(run_id="one"), open_store(str(places / "in")), run, latest=root)
    assert main(["copy", root.uri, str(tmp_path / "to")]) == 0
    assert latest_run(open_store(str(tmp_path / "to"))) == f"{tmp_path}/to/runs/one"
