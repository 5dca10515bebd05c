"""``partition-ops schema``: a stage where its output is one, and else a file of one's own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from partition_ops.artifacts.layout import MARKER
from partition_ops.artifacts.marker import write_marker
from partition_ops.storage import StorageSettings, open_store, s3_conditions
from tests.command_line import Called, call
from tests.graphs import Layout, library

SCHEMA, RECORD, LEFT = "schema/small.json", "records/schema.json", "records/validate.json"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(layout=Layout("csv")).write(tmp_path_factory.mktemp("schema") / "graph")


@pytest.fixture(scope="module")
def output(graph: Path) -> Path:
    """A finished output."""
    out = graph.parent / "out"
    done = call("run", graph, out, "--num-parts", 2)
    assert done.returncode == 0, done.stderr
    return out


@pytest.mark.parametrize(
    ("there", "output"),
    [
        ([], "new/"),
        (["out/"], "out"),
        ([], "."),
        ([], "file://HERE/"),
        ([f"out/{LEFT}"], f"out/{SCHEMA}"),
        (["out/manifest.json"], f"out/{SCHEMA}"),
        ([LEFT], SCHEMA),
        ([LEFT], f"file://HERE/{SCHEMA}"),
    ],
)
def test_schema_is_a_stage_in_an_output(
    graph: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    called: Called,
    there: list[str],
    output: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    for name in there:
        path = tmp_path / name
        (path if name.endswith("/") else path.parent).mkdir(parents=True)
        if not name.endswith("/"):
            path.write_text("{}")
            write_marker(open_store(str(tmp_path / ("out" if name.startswith("out/") else ""))))
    done = called("schema", graph, "--output", output.replace("HERE", str(tmp_path)))
    assert done.returncode == 0, done.stderr
    root = tmp_path / output.removeprefix("file://HERE/").removesuffix(SCHEMA)
    left = {LEFT} if any(name.endswith(LEFT) for name in there) else set()
    assert {str(path.relative_to(root)) for path in root.rglob("*.json")} == {SCHEMA, RECORD, MARKER, *left}
    assert "author:writes:paper" in json.loads((root / SCHEMA).read_text())["eid"]


@pytest.mark.parametrize("output", ["mine.json", "new", SCHEMA, f"out/{SCHEMA}", "out/other.json"])
def test_schema_writes_a_file_of_ones_own_and_nothing_else(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called, output: str
) -> None:
    monkeypatch.chdir(tmp_path)
    assert called("schema", graph, "--output", output).returncode == 0
    assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()] == [output]
    assert "writes" in json.loads((tmp_path / output).read_text())["eid"]


def test_schema_leaves_a_finished_output_or_takes_its_manifest(
    graph: Path, output: Path, called: Called
) -> None:
    other = graph.parent / "other-schema"
    shutil.copytree(output, other)
    assert called("schema", graph, "--output", other / SCHEMA).returncode == 0
    assert called("verify", graph, other).returncode == 0
    (other / SCHEMA).write_text("{}")
    assert called("schema", graph, "--output", other / SCHEMA).returncode == 0
    assert not (other / "manifest.json").exists()
    assert (other / SCHEMA).read_bytes() == (output / SCHEMA).read_bytes()
    assert called("publish", graph, "--output", other).returncode == 0
    assert called("verify", graph, other).returncode == 0


def test_schema_of_another_graph_leaves_that_of_an_output(graph: Path, output: Path, called: Called) -> None:
    before = (output / SCHEMA).read_bytes()
    done = called("schema", graph, "--graph-name", "other", "--output", output / SCHEMA)
    assert done.returncode == 2
    assert "expected: schema/other.json below the output" in done.stderr
    assert (output / SCHEMA).read_bytes() == before


def test_schema_on_s3(
    graph: Path,
    s3_root: str,
    s3_settings: StorageSettings,
    called: Called,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(s3_conditions, "SETTLE_SECONDS", 0.1)  # the server is near
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_settings.access_key or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_settings.secret_key or "")

    def schema(output: str) -> set[str]:
        done = called("schema", graph, "--output", output, "--endpoint-url", s3_settings.endpoint_url)
        assert done.returncode == 0, done.stderr
        with open_store(s3_root, s3_settings) as root:
            found = {entry.key for entry in root.list()}
            root.delete(found)
            return found

    stage = {SCHEMA, RECORD, MARKER}
    assert schema(f"{s3_root}/x.json") == {"x.json"}
    assert schema(f"{s3_root}/{SCHEMA}") == {SCHEMA}
    assert schema(f"{s3_root}/") == stage
    for place in ("", f"/{SCHEMA}"):
        with open_store(s3_root, s3_settings) as root:
            root.write_bytes(LEFT, b"{}")
            write_marker(root)
        assert schema(f"{s3_root}{place}") == {LEFT, *stage}


def test_schema_does_not_write_into_its_input(graph: Path, called: Called) -> None:
    done = called("schema", graph, "--output", graph)
    assert done.returncode == 2
    assert "The input and the output are the same" in done.stderr
    assert not (graph / "records").exists()
