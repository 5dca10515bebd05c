"""The command line: wrong use, bad input and --help, in this process."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from partition_ops.artifacts.stage import job_stages
from partition_ops.cli import main
from partition_ops.cli.verbs import VERBS
from partition_ops.jobs.options import RunConfig
from partition_ops.options.declare import options_of
from partition_ops.system.extras import is_installed
from tests.command_line import Called
from tests.graphs import Layout, library


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library(layout=Layout("csv")).write(tmp_path_factory.mktemp("cli") / "graph")


@pytest.mark.parametrize("size", ["-5M", "-0.5G", "5X", "100"])
def test_a_wrong_size_is_told_from_a_missing_one(
    graph: Path, size: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["validate", str(graph), "--memory", size])
    assert ended.value.code == 2
    assert f"argument --memory: '{size}' is" in capsys.readouterr().err


WRONG_USE = {
    "no verb": [],
    "an unknown verb": ["fly"],
    "no number of partitions": ["run", "in", "out"],
    "not a number": ["run", "in", "out", "--num-parts", "x"],
    "no partitions at all": ["run", "in", "out", "--num-parts", "0"],
    "an unknown engine": ["run", "GRAPH", "out", "--num-parts", "2", "--engine", "magic"],
    "an unknown balance": ["run", "GRAPH", "out", "--num-parts", "2", "--balance", "luck"],
    "an abbreviated option": ["run", "GRAPH", "out", "--num", "2"],
    "an unknown scheme": ["run", "gs://bucket/in", "out", "--num-parts", "2"],
    "an S3 URI without a bucket": ["run", "s3:///in", "out", "--num-parts", "2"],
    "a bucket for a file": ["schema", "GRAPH", "--output", "s3://bucket"],
}


@pytest.mark.parametrize("name", WRONG_USE)
def test_wrong_use_exits_2_with_a_sentence(graph: Path, name: str, called: Called) -> None:
    done = called(*(graph if word == "GRAPH" else word for word in WRONG_USE[name]))
    assert done.returncode == 2
    assert "partition-ops" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(
    ("words", "option", "remedy"),
    [
        ("run in out --num-parts 2 --num-parts 4", "--num-parts", "give it once"),
        ("run in out --num-parts 2 --seed=1 --seed=1", "--seed", "give it once"),
        ("validate in --output a --output b", "--output", "give it once"),
        ("validate in --data-docs --no-data-docs", "--data-docs/--no-data-docs", "give it once"),
        ("verify in out --json --json", "--json", "give it once"),
        ("fetch out --part 0 --part 1 --to data", "--part", "give all values after one --part"),
        (
            "idmap restore out --node-type a --input x.npy --input y.npy --output z",
            "--input",
            "give all values after one --input",
        ),
    ],
)
def test_an_option_cannot_be_there_twice(words: str, option: str, remedy: str, called: Called) -> None:
    done = called(*words.split())
    assert done.returncode == 2
    assert f"argument {option}: it is there more than once; {remedy}" in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        ["convert", "GRAPH", "--output", "out", "--parmetis-parts", "2"],
        ["convert", "GRAPH", "--output", "out", "--assignment", "a", "--num-node-weights", "3"],
        ["convert", "GRAPH", "--output", "out", "--assignment", "a", "--parmetis-parts", "0"],
        ["validate", "GRAPH", "--parmetis", "small", "--schema", "s.json", "--output", "out"],
        ["validate", "GRAPH", "--parmetis", "small", "--schema", "s.json", "--on-defect", "warn"],
        ["run", "GRAPH", "out", "--num-parts", "2", "--mpi-ranks", "4"],
        ["partition", "GRAPH", "--output", "out", "--num-parts", "2", "--mpirun", "mpirun"],
        ["estimate", "GRAPH", "--num-parts", "2", "--engine", "random", "--hostfile", "hosts"],
    ],
)
def test_an_option_that_would_mean_nothing_is_refused(
    graph: Path, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(graph) if word == "GRAPH" else word for word in words]) == 2
    assert words[-2] in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["schema", "GRAPH", "--output", "s3:schema.json"],
        ["fetch", "OUT", "--part", "0", "--to", "s3://bucket/x"],
        ["fetch", "OUT", "--part", "0", "--to", "s3:bucket/x"],
        ["probe", "OUT", "--cache", "s3://bucket/x"],
    ],
)
def test_a_uri_is_not_taken_for_a_local_path(
    graph: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: list[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main([str(graph) if word == "GRAPH" else word for word in words]) == 2
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("words", "usage", "meant"),
    [
        (["run", "g", "o", "--nmu-parts", "2"], "run", "there is no --nmu-parts: did you mean --num-parts?"),
        (["run", "g", "o", "--num-parts", "2", "--sead=1"], "run", "no --sead: did you mean --seed?"),
        (["idmap", "g", "--output", "o", "--vector"], "idmap export", "did you mean --vectors?"),
        (["validate", "g", "h"], "validate", "unrecognized arguments: h"),
        (["schema", "g", "--output", "o", "--zzzzz"], "schema", "unrecognized arguments: --zzzzz"),
    ],
)
def test_an_unknown_option_is_told_by_its_verb(
    words: list[str], usage: str, meant: str, called: Called
) -> None:
    done = called(*words)
    assert done.returncode == 2
    assert done.stderr.startswith(f"usage: partition-ops {usage} [-h]")
    assert meant in done.stderr
    assert "--zzzzz:" not in done.stderr


@pytest.mark.parametrize("below", ["", "/x/y"])
@pytest.mark.parametrize("words", [["run"], ["estimate"], ["validate", "--no-data-docs"]], ids=" ".join)
def test_an_output_where_a_file_is_exits_2(
    graph: Path, tmp_path: Path, words: list[str], below: str, called: Called
) -> None:
    file = tmp_path / "file"
    file.write_text("")
    output = [f"{file}{below}"] if words[0] == "run" else ["--output", f"{file}{below}"]
    parts = [] if words[0] == "validate" else ["--num-parts", 2]
    done = called(words[0], graph, *output, *words[1:], *parts)
    assert done.returncode == 2
    assert f"{file}{below} cannot be a folder\n  found:    a file, {file}\n" in done.stderr
    assert file.read_text() == ""


@pytest.mark.skipif(not is_installed("great_expectations"), reason="Great Expectations is not installed")
@pytest.mark.parametrize("verb", ["run", "validate"])
@pytest.mark.parametrize("text", [None, "[]", '{"name": "node_types"}'])
def test_expectations_that_are_none_leave_nothing_behind(
    graph: Path, tmp_path: Path, verb: str, text: str | None, called: Called
) -> None:
    if text is not None:
        (tmp_path / "suites").mkdir()
        (tmp_path / "suites" / "mine.json").write_text(text)
    out = [tmp_path / "out", "--num-parts", 2] if verb == "run" else ["--output", tmp_path / "out"]
    done = called(verb, graph, *out, "--expectations", tmp_path / "suites")
    assert done.returncode == 3
    assert f"{tmp_path / 'suites'}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_every_verb_explains_itself(called: Called) -> None:
    for command in VERBS:
        done = called(command.name, "--help")
        assert done.returncode == 0
        assert len(done.stdout) > 200


def test_links_that_lead_to_each_other_are_bad_input(tmp_path: Path, called: Called) -> None:
    loop = library(layout=Layout("csv")).write(tmp_path / "loop")
    (loop / "edges/0-0.csv").unlink()
    (loop / "edges/0-0.csv").symlink_to("0-0.csv")
    done = called("validate", loop, "--no-data-docs")
    assert done.returncode == 3
    assert "0-0.csv" in done.stderr
    assert "defect of ours" not in done.stderr


def test_validate_names_no_report_that_is_gone(tmp_path: Path, called: Called) -> None:
    bad = library(layout=Layout("csv")).write(tmp_path / "bad")
    (bad / "edges/0-0.csv").unlink()
    done = called("validate", bad, "--no-data-docs")
    assert done.returncode == 3
    assert "--output DIR keeps the report" in done.stderr
    assert "The report is" not in done.stderr


def test_verify_refuses_what_is_not_finished(graph: Path, tmp_path: Path, called: Called) -> None:
    done = called("verify", graph, tmp_path / "nothing")
    assert done.returncode == 3
    assert "is not a finished output: there is no manifest.json" in done.stderr


@pytest.mark.parametrize(
    ("name", "why"), [("nowhere", "No such file or directory"), ("file", "Not a directory")]
)
@pytest.mark.parametrize("verb", ["run", "estimate"])
def test_a_tmpdir_that_is_none_is_not_passed_over(
    graph: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    verb: str,
    name: str,
    why: str,
    called: Called,
) -> None:
    """Python would take /tmp instead, which may be small."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("TMPDIR", str(tmp_path / name))
    done = called(verb, graph, *([tmp_path / "out"] if verb == "run" else []), "--num-parts", 2)
    assert done.returncode == 2
    assert f"TMPDIR cannot be used: {tmp_path / name}\n  found:    {why}" in done.stderr
    assert not (tmp_path / "out").exists()


def test_the_estimate_has_every_stage_that_an_option_switches_on(graph: Path, called: Called) -> None:
    switches = {"cache": ("--cache-share", 0.1), "probe": ("--probe",)}
    assert {*switches} == {
        stage.name for stage in job_stages() if stage.optional in {one.name for one in options_of(RunConfig)}
    }
    for name, words in switches.items():
        shown = json.loads(called("estimate", graph, "--num-parts", 2, "--json", *words).stdout)
        assert name in [stage["stage"] for stage in shown["stages"]]


@pytest.mark.parametrize(
    "url", ["http://me:s3cret@server:9000", "https://me:s3/cr@et@server/", "http://s3cret@server?x=1"]
)
def test_the_password_of_a_url_is_not_printed(
    url: str, called: Called, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*given: object) -> None:
        logging.getLogger("partition_ops").info("connecting to %s", url)
        raise OSError(f"no answer from '{url}'")

    monkeypatch.setattr("partition_ops.system.temporary_folders.check_tmpdir", fail)
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    done = called("schema", "in", "--output", "out", "--verbose")
    assert "connecting to http" in done.stderr and "Traceback" in done.stderr and "server" in done.stderr
    assert "s3cret" not in done.stderr and "cr@et" not in done.stderr
