"""The command line as a user meets it: whole jobs, a real process, its output and its exit code."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.storage import StorageSettings, open_store
from tests.command_line import Called, call
from tests.graphs import Layout, library
from tests.uploads import upload_folder


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(layout=Layout("csv")).write(tmp_path_factory.mktemp("cli") / "graph")


@pytest.fixture(scope="module")
def output(graph: Path) -> Path:
    """A finished output."""
    out = graph.parent / "out"
    done = call("run", graph, out, "--num-parts", 2)
    assert done.returncode == 0, done.stderr
    return out


def test_run_says_what_it_did_and_where_it_is(graph: Path) -> None:
    out = graph.parent / "said"
    done = call("run", graph, out, "--num-parts", 2, "--engine", "random")
    assert done.returncode == 0, done.stderr
    for words in ("validate", "edge cut", "replication factor", "imbalance", f"{out}/partitions/small.json"):
        assert words in done.stdout
    assert "Traceback" not in done.stderr


def test_json_is_one_document(graph: Path, output: Path, called: Called) -> None:
    done = called("run", graph, output, "--num-parts", 2, "--json")
    document = json.loads(done.stdout)
    assert document["quality"]["num_parts"] == 2
    assert all(task["skipped"] for task in document["tasks"])


def test_verify_says_so_when_all_is_well(graph: Path, output: Path, called: Called) -> None:
    done = called("verify", graph, output)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "checks passed" in done.stdout


def test_verify_fails_on_a_changed_output(graph: Path, output: Path, called: Called) -> None:
    other = graph.parent / "changed"
    shutil.copytree(output, other)
    (other / "partitions/part0/node_feat.dgl").write_bytes(
        (other / "partitions/part1/node_feat.dgl").read_bytes()
    )
    done = call("verify", graph, other)
    assert done.returncode == 1
    assert "found:    node-features" in done.stderr
    details = [line for line in done.stdout.splitlines() if line.startswith("FAIL  node-features")]
    assert len(details) == 1
    assert details[0].partition("node-features")[2].strip() not in done.stderr  # they are printed once
    assert "Traceback" not in done.stderr
    report = json.loads(called("verify", graph, other, "--json").stdout)["report"]
    assert not next(check for check in report["checks"] if check["name"] == "node-features")["passed"]


def test_the_verbs_make_up_the_job(graph: Path, output: Path, called: Called) -> None:
    """Stage by stage is byte by byte what ``run`` writes."""
    steps = graph.parent / "steps"
    assert called("validate", graph, "--output", steps, "--no-data-docs").returncode == 0
    assert called("schema", graph, "--output", steps).returncode == 0
    assert called("prepare", graph, "--output", steps).returncode == 0
    assert called("partition", graph, "--output", steps, "--num-parts", 2).returncode == 0
    assert called("convert", graph, "--output", steps).returncode == 0
    assert called("idmap", graph, "--output", steps).returncode == 0  # as every stage: it means export
    assert called("quality", graph, "--output", steps).returncode == 0
    published = called("publish", graph, "--output", steps)
    assert published.returncode == 0, published.stderr
    compared = 0
    for path in sorted((output).rglob("*")):
        key = path.relative_to(output)
        if path.is_file() and key.parts[0] != "records":
            assert (steps / key).read_bytes() == path.read_bytes(), key
            compared += 1
    assert compared > 20
    assert called("verify", graph, steps).returncode == 0
    (steps / layout.record("quality")).unlink()
    again = call("quality", graph, "--output", steps)
    assert f"{steps} is not finished any more" in again.stderr and "publish" in again.stderr
    assert not (steps / layout.MANIFEST).exists()
    assert not call("quality", graph, "--output", steps).stderr


def test_convert_takes_an_assignment_made_elsewhere(graph: Path, output: Path) -> None:
    theirs = graph.parent / "theirs"
    theirs.mkdir()
    for path in (output / "assignment").iterdir():
        if path.suffix == ".txt" or path.name == "partition_meta.json":
            (theirs / path.name).write_bytes(path.read_bytes())
    done = call("convert", graph, "--assignment", theirs, "--output", graph.parent / "brought")
    assert done.returncode == 0, done.stderr
    for name in ("part0/graph.dgl", "part1/node_feat.dgl", "small.json"):
        assert (graph.parent / "brought/partitions" / name).read_bytes() == (
            output / "partitions" / name
        ).read_bytes()


def test_what_the_system_refuses_is_no_defect_of_ours(graph: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "partition_ops.cli",
            "schema",
            str(graph),
            "--output",
            str(tmp_path / "s.json"),
        ],
        capture_output=True,
        text=True,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (8, 8)),
    )
    assert done.returncode == 1
    assert "error: The system refused: File too large" in done.stderr
    assert "defect" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_bad_input_exits_3_with_the_place(graph: Path, tmp_path: Path, called: Called) -> None:
    bad = library(layout=Layout("csv")).write(tmp_path / "bad")
    edges = bad / "edges/0-0.csv"
    edges.write_text(edges.read_text().replace("\n", "\n99,0\n", 1))
    done = call("run", bad, tmp_path / "out", "--num-parts", 2)
    assert done.returncode == 3
    assert "edge 1 in row 1 of edges/0-0.csv, source 99 of 'author' (0 to 19)" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out/manifest.json").exists()
    as_json = json.loads(called("validate", bad, "--json", "--no-data-docs").stdout)
    assert as_json["error"]["exit_code"] == 3


def test_an_input_that_is_not_there_exits_3(tmp_path: Path) -> None:
    done = call("validate", tmp_path / "nowhere")
    assert done.returncode == 3
    assert "metadata.json" in done.stderr


@pytest.mark.parametrize("words", [["--help"], ["--version"], ["fly"]], ids=" ".join)
def test_help_is_quick_because_nothing_heavy_is_imported(words: list[str]) -> None:
    """Neither third-party modules nor the options of verbs, of which 20 dataclasses cost 0.1 s."""
    code = (
        "import contextlib, sys; before = {*sys.modules}; from partition_ops.cli import main\n"
        f"with contextlib.suppress(SystemExit): main({words})\n"
        "print(); print(*{*sys.modules} - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    imported = done.stdout.splitlines()[-1].split()
    assert {name.partition(".")[0] for name in imported} <= {"partition_ops", *sys.stdlib_module_names}
    assert not [name for name in imported if ("stages" in name and "options" in name) or ".verbs." in name]


def test_a_job_imports_nothing_beyond_the_base_installation(graph: Path, tmp_path: Path) -> None:
    """pyarrow would import pandas for many conversions, which takes a third of a second.

    numba imports scipy, if it is there.
    """
    words = ["run", str(graph), str(tmp_path / "out"), "--num-parts", "2", "--probe"]
    code = (
        f"import sys; from partition_ops.cli import main; code = main({words});"
        "sys.exit(code or sorted({'pandas', 'matplotlib', 'torch', 'dgl'} & set(sys.modules)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_the_whole_job_from_s3_to_s3(
    graph: Path,
    output: Path,
    s3_root: str,
    s3_settings: StorageSettings,
    called: Called,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The same bytes as on a local folder, and no secret in what is printed or stored."""
    with open_store(f"{s3_root}/in", s3_settings) as store:
        upload_folder(graph, store)
    for name, value in {
        "AWS_ACCESS_KEY_ID": s3_settings.access_key or "",
        "AWS_SECRET_ACCESS_KEY": s3_settings.secret_key or "",
        "AWS_ENDPOINT_URL": s3_settings.endpoint_url or "",
    }.items():
        monkeypatch.setenv(name, value)
    done = call("run", f"{s3_root}/in", f"{s3_root}/out", "--num-parts", 2, "--verbose")
    assert done.returncode == 0, done.stderr
    assert called("verify", f"{s3_root}/in", f"{s3_root}/out").returncode == 0
    with open_store(f"{s3_root}/out", s3_settings) as store:
        everything = {entry.key: store.read_bytes(entry.key) for entry in store.list()}
    assert not any(key.startswith("scratch/") for key in everything)
    for key, content in everything.items():
        if not key.startswith("records/") and key != "manifest.json":
            assert content == (output / key).read_bytes(), key
        assert (s3_settings.secret_key or "").encode() not in content
    assert (s3_settings.secret_key or "") not in done.stdout + done.stderr


def test_an_output_over_its_own_input_is_refused(graph: Path, tmp_path: Path, called: Called) -> None:
    inside = library(layout=Layout("csv")).write(tmp_path / "scratch/graph")
    before = {path: path.read_bytes() for path in inside.rglob("*") if path.is_file()}
    for source, output in ((inside, inside), (inside, tmp_path), (inside, f"{inside}/../graph")):
        done = called("run", source, output, "--num-parts", 2)
        assert done.returncode == 2, (output, done.stderr)
        assert "Give the output a root of its own" in done.stderr
    assert {path: path.read_bytes() for path in inside.rglob("*") if path.is_file()} == before
    assert called("run", inside, inside / "out", "--num-parts", 2, "--engine", "random").returncode == 0


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
def test_a_full_tmpdir_is_not_passed_over(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, called: Called
) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(disk)]).returncode:
        pytest.skip("mounting is not permitted here")
    monkeypatch.setenv("TMPDIR", str(disk))
    try:
        (disk / "full").write_bytes(bytes(64 << 10))
        done = called("validate", graph)
    finally:
        subprocess.run(["umount", str(disk)], check=True)
    assert done.returncode == 2
    assert f"There is no space left in TMPDIR: {disk}\n" in done.stderr


@pytest.mark.skipif(os.geteuid() != 0, reason="only root may mount a small disk")
@pytest.mark.parametrize("kilobytes", [60, 120, 220])
def test_a_full_disk_is_named(graph: Path, tmp_path: Path, kilobytes: int, called: Called) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={kilobytes}k", "tmpfs", str(disk)]
    if subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting is not permitted here")
    words = ["--num-parts", 3, "--engine", "metis"]
    try:
        done = called("run", graph, disk / "out", *words)
        assert (done.returncode, "of the output" in done.stderr) == (1, True)
        done = call("run", graph, disk / "out", *words, "--ignore-estimate")
        assert done.returncode == 1
        assert "space left" in done.stderr
        assert "defect of ours" not in done.stderr
        assert not (disk / "out/manifest.json").exists()
    finally:
        subprocess.run(["umount", str(disk)], check=True)


def test_the_whole_job_says_what_validation_warns_of(called: Called, graph: Path, tmp_path: Path) -> None:
    copy = tmp_path / "graph"
    shutil.copytree(graph, copy)
    metadata = json.loads((copy / "metadata.json").read_text())
    (copy / "metadata.json").write_text(json.dumps({**metadata, "node_dta": {}}))
    done = called("run", copy, tmp_path / "out", "--num-parts", 2, "--engine", "random")
    assert done.returncode == 0
    assert "warn    1 unknown_keys of 'metadata.json'" in done.stdout
    assert "node_dta" in done.stdout


@pytest.mark.parametrize(
    ("words", "code"), [(["--version"], 0), (["validate"], 2), (["validate", "no-such-graph"], 3)]
)
def test_the_end_of_the_process_is_like_pythons_own(words: list[str], code: int) -> None:
    program = (
        "import atexit, sys, threading, time; from partition_ops.cli import command;"
        "later = lambda: (time.sleep(0.2), atexit.register(print, 'at exit'), print('thread'));"
        "threading.Thread(target=later).start();"
        f"sys.argv = ['partition-ops', *{words}]; command()"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == code, done.stderr
    assert "thread" in done.stdout.splitlines()
    assert done.stdout.endswith("at exit\n")
