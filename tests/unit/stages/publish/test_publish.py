"""The status of ``publish`` says why a run is not published as it is."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from partition_ops import __version__
from partition_ops.artifacts import layout
from partition_ops.artifacts.tasks import State
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import PublishTask
from partition_ops.storage import Store, open_store
from tests.graphs import library


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a graph, ``in``, and its published output, ``out``."""
    folder = tmp_path_factory.mktemp("publish")
    source = open_store(str(library().write(folder / "in")))
    run_job(RunConfig(num_parts=2, engine="random"), source, open_store(str(folder / "out")))
    return folder


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Store:
    shutil.copytree(finished / "out", tmp_path / "out")
    return open_store(str(tmp_path / "out"))


def publish_task(finished: Path, out: Store) -> PublishTask:
    return PublishTask(PublishConfig(), open_store(str(finished / "in")), out)


def edit_manifest(out: Store, **changes: object) -> None:
    out.write_json(layout.MANIFEST, {**out.read_json(layout.MANIFEST), **changes})


def change_nothing(out: Store) -> None:
    """Leave the output as it is."""


def lose_the_manifest(out: Store) -> None:
    out.delete([layout.MANIFEST])


def publish_with_another_version(out: Store) -> None:
    edit_manifest(out, versions={**out.read_json(layout.MANIFEST)["versions"], "partition_ops": "0.1.0"})


def list_fewer_artifacts(out: Store) -> None:
    edit_manifest(out, artifacts=out.read_json(layout.MANIFEST)["artifacts"][1:])


def lose_an_artifact(out: Store) -> None:
    out.delete(["idmap/nodes/paper.parquet"])


def change_a_result(out: Store) -> None:
    record = out.read_json(layout.record("partition"))
    out.write_json(layout.record("partition"), {**record, "artifacts": record["artifacts"][1:]})


@pytest.mark.parametrize(
    ("change", "state", "reason"),
    [
        (change_nothing, State.DONE, ""),
        (lose_the_manifest, State.MISSING, "there is no manifest.json"),
        (publish_with_another_version, State.STALE, f"version 0.1.0 published it, and this is {__version__}"),
        (list_fewer_artifacts, State.STALE, "does not list the results of its tasks"),
        (lose_an_artifact, State.STALE, "are missing, or have another size"),
        (change_a_result, State.STALE, "'convert-plan' of .* is out of date"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_the_status(
    change: Callable[[Store], None], state: State, reason: str, finished: Path, out: Store
) -> None:
    change(out)
    status = publish_task(finished, out).status()
    assert status.state is state
    assert re.search(reason, status.reason)
