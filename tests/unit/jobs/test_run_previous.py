"""Unusable earlier runs, and options without a meaning, are rejected before any work."""

from __future__ import annotations

from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException
from graph_partitioning.operators.validate import ValidateGraphOperator

from partition_ops.cli import main
from partition_ops.errors import UsageError
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.publish.options import Gate, PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.storage import open_store
from tests.airflow_tasks import TaskInstance
from tests.graphs import library


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A graph, an output that is not finished, and the root of runs of which none is the newest."""
    library().write(tmp_path / "in")
    for name in ("unfinished/validation/report.json", "root/runs/one/manifest.json"):
        (tmp_path / name).parent.mkdir(parents=True)
        (tmp_path / name).write_text("{}")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--previous", "nothing"], 3, "not a finished output"),
        (["--previous", "unfinished"], 3, "not a finished output"),
        (["--previous", "root"], 3, "root/latest.json"),
        (["--previous", "out"], 2, "cannot follow itself"),
        (["--previous", "out/."], 2, "cannot follow itself"),
        (["--previous", "out/before"], 2, "lie one in the other"),
        (["--previous", "."], 2, "lie one in the other"),
        (["--migration-price", "1"], 2, "--migration-price needs --previous found: no --previous"),
        (["--drift", "1.05"], 2, "--drift needs --previous"),
        (["--compare-full", "--max-moved", "0.1"], 2, "--compare-full and --max-moved need --previous"),
        (["--previous", "nothing", "--drift", "inf"], 2, "found: inf expected: a number, 1 or more"),
        (["--previous", "nothing", "--drift", "nan"], 2, "found: nan expected: a number, 1 or more"),
        (["--previous", "nothing", "--migration-price", "-1"], 2, "found: -1 expected: 0 to"),
        (["--previous", "nothing", "--migration-price", "1" + 30 * "0"], 2, "expected: 0 to 2147483647"),
        (["--max-imbalance", "inf"], 2, "found: inf expected: a number, 1 or more"),
        (["--max-imbalance", "nan"], 2, "found: nan expected: a number, 1 or more"),
        (["--max-edge-cut", "nan"], 2, "found: nan expected: 0 to 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_a_run_is_refused(
    words: list[str],
    code: int,
    said: str,
    place: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(place)
    assert main(["run", "in", "out", "--num-parts", "2", *words]) == code
    assert said in " ".join(capsys.readouterr().err.split())
    assert not (place / "out").exists()


@pytest.mark.parametrize(
    ("previous", "said"),
    [("unfinished", "not a finished output"), ("root", "root/latest.json"), ("out", "cannot follow itself")],
)
def test_the_first_task_refuses_it_too(previous: str, said: str, place: Path) -> None:
    validate = ValidateGraphOperator(
        task_id="validate",
        input_uri=str(place / "in"),
        output_uri=str(place / "out"),
        previous=str(place / previous),
    )
    with pytest.raises(AirflowFailException, match=said):
        TaskInstance().run(validate)
    assert not (place / "out").exists()


def test_nothing_can_have_moved_in_a_run_that_follows_none(place: Path) -> None:
    source, out = open_store(str(place / "in")), open_store(str(place / "out"))
    gate = Gate(max_moved=0.5)
    with pytest.raises(UsageError, match="--max-moved"):
        run_job(RunConfig(num_parts=2, engine="random", gate=gate), source, out)
    run_job(RunConfig(num_parts=2, engine="random"), source, out)
    with pytest.raises(UsageError, match="--max-moved"):
        publish_run(PublishConfig(gate=gate), source, out)
