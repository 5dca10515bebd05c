"""``changes`` lists everything in a graph that changed since a finished run, and nothing else."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from partition_ops import cli
from partition_ops.artifacts import layout
from partition_ops.errors import InvalidInputError
from partition_ops.jobs.changes import Changes, find_changes
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import Store, open_store
from tests.graphs import Layout, library

CONFIG = RunConfig(num_parts=2, engine="random")
GRAPH = library(papers=60, layout=Layout("csv"))


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph and a finished run over it, to be copied."""
    folder = tmp_path_factory.mktemp("finished")
    run_job(CONFIG, open_store(str(GRAPH.write(folder / "in"))), open_store(str(folder / "out")))
    return folder


@pytest.fixture
def place(finished: Path, tmp_path: Path) -> Path:
    shutil.copytree(finished, tmp_path / "here")
    record = tmp_path / "here" / "out" / layout.record("validate")  # the times of the copies are other ones
    validated = json.loads(record.read_text())
    for entry in validated["inputs"]:
        copy = open_store(str(tmp_path / "here" / "in")).stat(entry["path"])
        assert copy is not None
        entry["tag"] = copy.tag
    record.write_text(json.dumps(validated))
    manifest = tmp_path / "here" / "out" / layout.MANIFEST
    document = json.loads(manifest.read_text())
    document["input"]["uri"] = str(tmp_path / "here" / "in")
    manifest.write_text(json.dumps(document))
    return tmp_path / "here"


def stores(place: Path) -> tuple[Store, Store]:
    return open_store(str(place / "in")), open_store(str(place / "out"))


def look(place: Path, wanted: RunConfig | None = None) -> Changes:
    return find_changes(*stores(place), wanted=wanted)


def test_nothing_has_changed_and_nothing_is_read(place: Path) -> None:
    changes = look(place, CONFIG)
    assert not changes.any and changes.compared == 0
    assert changes.unchanged == len(
        json.loads((place / "out" / "manifest.json").read_text())["input"]["files"]
    )


def test_a_file_that_was_only_written_again_has_not_changed(place: Path) -> None:
    os.utime(place / "in" / "edges" / "0-0.csv", (1, 1))
    changes = look(place)
    assert not changes.any and changes.compared == 1


@pytest.mark.parametrize("same_size", [True, False])
def test_one_other_byte_is_a_change(place: Path, same_size: bool) -> None:
    file = place / "in" / "edges" / "1-0.csv"
    lines = file.read_text().splitlines()
    lines = lines[1:] + lines[:1] if same_size else lines[1:]
    file.write_text("\n".join(lines) + "\n")
    changes = look(place)
    assert (changes.added, changes.changed, changes.removed) == ([], ["edges/1-0.csv"], [])


def test_files_that_came_and_went(place: Path) -> None:
    rows = len(GRAPH.edges["paper:in:venue"].src)
    edges = replace(GRAPH.edges["paper:in:venue"], layout=Layout("csv", chunks=(10, rows - 10)))
    more = replace(GRAPH, edges={**GRAPH.edges, "paper:in:venue": edges}, node_values=GRAPH.node_values[:-1])
    shutil.rmtree(place / "in")
    more.write(place / "in")
    changes = look(place)
    assert changes.added == ["edges/2-1.csv"]
    assert changes.changed == ["edges/2-0.csv", "metadata.json"]
    assert changes.removed == ["node_data/3-0.npy"]
    for text in ("1 added (edges/2-1.csv)", "2 changed", "1 removed"):
        assert text in str(changes)


@pytest.mark.parametrize(
    ("wanted", "option"),
    [
        ({"num_parts": 3}, "partition.num_parts: 2 -> 3"),
        ({"num_hops": 2}, "convert.num_hops: 1 -> 2"),
        ({"graph_formats": ("csc",)}, "convert.graph_formats: ['coo'] -> ['csc']"),
        ({"seed": 7}, "partition.seed: 0 -> 7"),
        ({"on_defect": {"self_loop_edges": "drop"}}, "validate.on_defect"),
    ],
)
def test_other_options_are_a_change(place: Path, wanted: dict[str, object], option: str) -> None:
    changes = look(place, replace(CONFIG, **wanted))  # type: ignore[arg-type]
    assert changes.any and not changes.changed
    assert [found[: len(option)] for found in changes.options] == [option]


def test_of_an_older_version_everything_is_compared(place: Path) -> None:
    record = place / "out" / layout.record("validate")
    record.write_text(json.dumps({**json.loads(record.read_text()), "inputs": []}))
    changes = look(place)
    assert not changes.any and changes.compared == changes.unchanged


def test_a_run_that_is_not_finished_is_no_measure(place: Path) -> None:
    (place / "out" / "manifest.json").unlink()
    with pytest.raises(InvalidInputError, match="not a finished output"):
        look(place)


def test_the_verb(place: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (place / "in" / "edges" / "0-0.csv").write_text("0,0\n")
    assert cli.main(["changes", str(place / "in"), str(place / "out"), "--json"]) == 0
    answer = json.loads(capsys.readouterr().out)
    assert answer["changed"] == ["edges/0-0.csv"] and not answer["unchanged_since"]
    assert cli.main(["changes", str(place / "in"), str(place / "out")]) == 0
    assert "changed  edges/0-0.csv" in capsys.readouterr().out
