"""Files of an output that are read before all others: broken ones are rejected with a clear message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from partition_ops.cli import main
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.storage import open_store
from tests.graphs import Edges, SmallGraph

NEW = {"publish": [], "idmap": ["--vectors"], "convert": ["--num-hops", "2"]}  # what was not done yet


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A graph and a finished output of it."""
    folder = tmp_path_factory.mktemp("manifest")
    graph = SmallGraph({"a": 6}, {"a:r:a": Edges(range(5), range(1, 6))})
    source, output = open_store(str(graph.write(folder / "in"))), open_store(str(folder / "out"))
    run_job(RunConfig(num_parts=2, engine="random"), source, output)
    return folder


def _rename(path: Path) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), "graph_name": "other"}))


def _lose_a_count(path: Path) -> None:
    document = json.loads(path.read_text())
    next(iter(document["nodes"].values())).pop()
    path.write_text(json.dumps(document))


@pytest.mark.parametrize("verb", [["quality"], ["publish"], ["idmap", "export"]])
@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda path: path.write_text("{}"), "is a required property"),
        (lambda path: path.write_text("[]"), "is not of type 'object'"),
        (_rename, "the --graph-name of 'convert'"),
        (_lose_a_count, "convert/book.json is damaged"),
    ],
)
def test_a_damaged_book_is_reported(
    folder: Path,
    verb: list[str],
    change: Callable[[Path], None],
    message: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    path = folder / "out/convert/book.json"
    before = path.read_bytes()
    change(path)
    try:
        assert main([*verb, str(folder / "in"), "--output", str(folder / "out")]) == 3
    finally:
        path.write_bytes(before)
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("verb", [["publish"], ["idmap", "export"], ["convert"]])
@pytest.mark.parametrize("text", ["{}", "[]", "null"])
def test_a_validation_report_that_is_invalid_is_reported(
    folder: Path, verb: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "out/validation/report.json"
    before = path.read_bytes()
    path.write_text(text)
    try:
        assert main([*verb, str(folder / "in"), "--output", str(folder / "out"), *NEW[verb[0]]]) == 3
    finally:
        path.write_bytes(before)
    assert "is not what 'validate' writes" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", "nothing"),
        ('{"a":', """line 1, column 6, near '{"a":'"""),
        ("[]", "[] is not of type 'object'"),
        ('{"version": 1}', "'graph_name' is a required property"),
    ],
)
def test_a_damaged_manifest_of_the_run_before_is_told(
    folder: Path, text: str, found: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = folder / "out/manifest.json"
    before = path.read_bytes()
    path.write_text(text)
    call = ["run", str(folder / "in"), str(folder / "next"), "--num-parts", "2"]
    try:
        assert main([*call, "--previous", str(folder / "out")]) == 3
    finally:
        path.write_bytes(before)
    problem, *more = capsys.readouterr().err.splitlines()
    assert problem == f"partition-ops: error: {path} is damaged"
    assert more[0].startswith("  found:") and more[0].endswith(found)
    assert more[1] == "  expected: the manifest of a finished output, as 'publish' writes it"
    assert more[2].startswith("  Name another run with --previous")
    assert not (folder / "next").exists()
