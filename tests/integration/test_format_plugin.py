"""A format added as CONTRIBUTING.md says is written, resumed, verified, fetched and published like DGL's."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from partition_ops.artifacts import layout
from partition_ops.artifacts.book import read_book
from partition_ops.artifacts.partition_book import PartitionBook
from partition_ops.cli import main
from partition_ops.errors import UsageError
from partition_ops.formats.format import format_names, get_format, reading_format
from partition_ops.jobs.fetch import fetch_partitions
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.convert.options import ConvertConfig
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.train import PartitionedGraph
from tests.contributing import ROOT
from tests.dying_store import DyingStore, Killed
from tests.format_plugin import NAME, install, on_the_path
from tests.graphs import library
from tests.train_graphs import edges_of
from tests.uploads import upload_folder

PARTS = 3


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return install(tmp_path_factory.mktemp("package"))


@pytest.fixture
def _installed(package: Path) -> Iterator[None]:
    with on_the_path(package):
        yield


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library().write(tmp_path_factory.mktemp("graph"))


@pytest.fixture(scope="module")
def only_dgl(graph: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return run(graph, tmp_path_factory.mktemp("only") / "out", "dgl")


def run(graph: Path, out: Path, *formats: str, **options: Any) -> Path:
    config = RunConfig(num_parts=PARTS, engine="random", formats=formats, **options)
    run_job(config, open_store(str(graph)), open_store(str(out)))
    return out


def call(package: Path, *arguments: object, **environment: str) -> dict[str, Any]:
    """Call the command line in a process of its own, with the package installed."""
    path = f"{package}:{ROOT}"
    done = subprocess.run(
        [sys.executable, "-m", "partition_ops.cli", *map(str, arguments), "--json"],
        env={**os.environ, "PYTHONPATH": path, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def content(folder: Path) -> dict[str, bytes]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in files}


def manifest_keys(out: Path) -> set[str]:
    return {entry["key"] for entry in json.loads((out / "manifest.json").read_text())["artifacts"]}


def dgl_content(folder: Path) -> dict[str, bytes]:
    """The same, without the digests in ``stats.json``, which lists the files of every format."""
    found = content(folder)
    for name in found:
        if name.endswith("stats.json"):
            stats = json.loads(found[name])
            stats["contents"] = {k: v for k, v in stats["contents"].items() if "/" not in k}
            found[name] = json.dumps(stats).encode()
    return found


def columns(output: Store, name: str, part: int) -> dict[str, Any]:
    return {key: stored.map(output) for key, stored in get_format(name).arrays(output, part).items()}


def assert_same_columns(output: Store, other: Store) -> None:
    """The columns of the new format in one output are those of DGL's files in another."""
    for part in range(PARTS):
        expected = columns(other, "dgl", part)
        found = columns(output, NAME, part)
        assert found.keys() == expected.keys()
        for name, array in found.items():
            np.testing.assert_array_equal(array, expected[name], err_msg=name)


def test_from_the_command_line(package: Path, graph: Path, only_dgl: Path, tmp_path: Path) -> None:
    """Beside DGL's files, which stay the same: run, run again, verify, fetch."""
    out, to = tmp_path / "out", tmp_path / "to"
    words = ["run", graph, out, "--num-parts", PARTS, "--engine", "random", "--formats", f"dgl,{NAME}"]
    first = call(package, *words)
    assert not any(task["skipped"] for task in first["tasks"])
    for folder in ("partitions", "idmap", "assignment"):
        assert dgl_content(out / folder) == dgl_content(only_dgl / folder)
    files = content(out / "formats")
    assert len(files) == PARTS * len(columns(open_store(str(only_dgl)), "dgl", 0))
    assert {f"formats/{name}" for name in files} <= manifest_keys(out)
    assert all(task["skipped"] for task in call(package, *words)["tasks"])
    assert call(package, "verify", graph, out)["passed"]
    call(package, "fetch", out, "--part", 1, "--to", to)
    assert (to / f"formats/{NAME}/part1/nodes/new_id.npy").is_file()
    assert (to / "small.json").is_file()


@pytest.mark.long
def test_on_s3(
    package: Path, graph: Path, only_dgl: Path, tmp_path: Path, s3_root: str, s3_settings: StorageSettings
) -> None:
    environment = {
        "AWS_ENDPOINT_URL": s3_settings.endpoint_url or "",
        "AWS_ACCESS_KEY_ID": s3_settings.access_key or "",
        "AWS_SECRET_ACCESS_KEY": s3_settings.secret_key or "",
        "AWS_DEFAULT_REGION": s3_settings.region or "",
    }
    source, out = f"{s3_root}/in", f"{s3_root}/out"
    with open_store(source, s3_settings) as store:
        upload_folder(graph, store)
    words = ["run", source, out, "--num-parts", PARTS, "--engine", "random", "--formats", f"dgl,{NAME}"]
    call(package, *words, **environment)
    assert all(task["skipped"] for task in call(package, *words, **environment)["tasks"])
    assert call(package, "verify", source, out, **environment)["passed"]
    call(package, "fetch", out, "--part", 0, "--format", NAME, "--to", tmp_path, **environment)
    assert not (tmp_path / "part0").exists()
    with open_store(out, s3_settings) as output:
        found = content(tmp_path / f"formats/{NAME}/part0")
        for name, data in found.items():
            assert output.read_bytes(f"formats/{NAME}/part0/{name}") == data
    assert (tmp_path / layout.BOOK).is_file()


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("options", [{}, {"num_hops": 0}, {"num_hops": 2}], ids=str)
def test_columns_are_those_of_dgl(graph: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    output = open_store(str(run(graph, tmp_path / "out", "dgl", NAME, **options)))
    assert_same_columns(output, output)


@pytest.mark.usefixtures("_installed")
def test_alone(graph: Path, only_dgl: Path, tmp_path: Path) -> None:
    """ID maps, the partition book, the quality report and training do not need DGL's files."""
    out = run(graph, tmp_path / "out", NAME)
    assert not [*out.rglob("*.dgl"), *(out / "partitions").glob("*.json")]
    assert content(out / "idmap") == content(only_dgl / "idmap")
    output, other = open_store(str(out)), open_store(str(only_dgl))
    assert_same_columns(output, other)
    assert reading_format(read_book(output)).name == NAME
    with PartitionBook(output) as found, PartitionBook(other) as expected:
        assert found.metadata() == expected.metadata()
    assert json.loads((out / "convert/book.json").read_text())["formats"] == [NAME]
    with PartitionedGraph(str(out)) as found, PartitionedGraph(str(only_dgl)) as expected:
        everyone = {ntype: torch.arange(expected.num_nodes(ntype)) for ntype in expected.ntypes}
        edges = [edges_of(one.in_subgraph(everyone), is_block=False) for one in (found, expected)]
        assert edges[0] == edges[1]
    result = fetch_partitions(output, [2], tmp_path / "to")
    assert result["partition_config"] == str(tmp_path / "to/convert/book.json")


@pytest.mark.usefixtures("_installed")
def test_damage_is_repaired(graph: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = run(graph, tmp_path / "out", "dgl", NAME)
    before = content(out / "formats")
    path = out / f"formats/{NAME}/part1/edges/dst.npy"
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    words = ["run", graph, out, "--num-parts", PARTS, "--engine", "random", "--formats", f"dgl,{NAME}"]
    assert main([*map(str, words), "--check-artifacts", "--json"]) == 0
    tasks = {task["task"]: task["skipped"] for task in json.loads(capsys.readouterr().out)["tasks"]}
    assert [tasks[f"convert-part{part}"] for part in range(PARTS)] == [True, False, True]
    assert content(out / "formats") == before


@pytest.mark.usefixtures("_installed")
@pytest.mark.parametrize("lives", [30, 60, 90])
def test_a_killed_run_is_resumed(graph: Path, only_dgl: Path, tmp_path: Path, lives: int) -> None:
    source, config = (
        open_store(str(graph)),
        RunConfig(num_parts=PARTS, engine="random", formats=("dgl", NAME)),
    )
    with pytest.raises(Killed):
        run_job(config, source, DyingStore(tmp_path / "out", lives))
    run_job(config, source, open_store(str(tmp_path / "out")))
    assert not [*(tmp_path / "out").rglob(".partial-*")]
    assert_same_columns(open_store(str(tmp_path / "out")), open_store(str(only_dgl)))


@pytest.mark.usefixtures("_installed")
def test_another_version_of_the_format_converts_again(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = RunConfig(num_parts=PARTS, engine="random", formats=(NAME,))
    stores = open_store(str(graph)), open_store(str(tmp_path / "out"))
    run_job(config, *stores)
    monkeypatch.setattr(type(get_format(NAME)), "version", 2)
    tasks = {result.task: result for result in run_job(config, *stores)}
    assert tasks["partition"].skipped
    assert not tasks["convert-part0"].skipped
    assert not tasks["convert-config"].skipped


@pytest.mark.usefixtures("_installed")
def test_files_of_a_removed_format_go(graph: Path, tmp_path: Path) -> None:
    out = run(graph, tmp_path / "out", "dgl", NAME)
    run(graph, out, "dgl")
    assert not content(out / "formats")
    assert not any(key.startswith("formats/") for key in manifest_keys(out))


def test_unknown_formats_are_rejected(
    capsys: pytest.CaptureFixture[str], graph: Path, tmp_path: Path
) -> None:
    assert {"dgl", "graphbolt", "pyg"} <= {*format_names()}
    with pytest.raises(UsageError, match="'unknown' is not installed"):
        get_format("unknown")
    with pytest.raises(UsageError, match="--formats cannot be 'unknown'"):
        ConvertConfig(formats=("dgl", "unknown"))
    words = ["run", str(graph), str(tmp_path / "out"), "--num-parts", "2", "--formats", "unknown"]
    assert main(words) == 2
    assert "dgl" in capsys.readouterr().err
