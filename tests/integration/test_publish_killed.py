"""A run that dies between any two steps leaves latest.json on the run before, and the next one completes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import begin_run, latest_run
from partition_ops.artifacts.lock import holding, release_lock, take_lock
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.storage import Store, open_store
from partition_ops.storage.local_store import LocalStore
from partition_ops.verification import verify_output
from tests.graphs import library

pytestmark = pytest.mark.long

CONFIG = RunConfig(num_parts=2, engine="random")
RECORDS = [
    *(
        "validate",
        "schema",
        "partition",
        "convert-plan",
        "convert-scatter0",
        "convert-part1",
        "convert-config",
    ),
    *("idmap", "quality"),
]
STEPS = [layout.LOCK, layout.BEGINNING, *map(layout.record, RECORDS), layout.MANIFEST]
ALONE = """
import os, signal, sys
from partition_ops.storage.local_store import LocalStore
from tests.integration import test_publish_killed as test
def die(self, key, data, **options):
    if key == "latest.json":
        os.kill(os.getpid(), signal.SIGKILL)
    return compare_and_set(self, key, data, **options)
compare_and_set, LocalStore.compare_and_set = LocalStore.compare_and_set, die
test.publish(test.Place(sys.argv[1]), "killed")
"""


class Killed(BaseException):
    """The end of the process."""


class Place:
    """A graph, and the root of its runs."""

    def __init__(self, folder: str) -> None:
        self.source = open_store(f"{folder}/in")
        self.root = open_store(f"{folder}/out/small")

    def run(self, name: str) -> Store:
        return self.root.child(f"{layout.RUNS}/{name}")


def publish(place: Place, name: str) -> None:
    """Run the tasks of the DAG, one by one."""
    holder, run = {"dag_id": "partition_graph", "run_id": name}, place.run(name)
    assert take_lock(place.root, holder, abandoned=lambda lock: "its DAG run has ended") is None
    begin_run(run, place.root, holder)
    with holding(place.root, holder, run):
        run_job(CONFIG, place.source, run)
        publish_run(PublishConfig(run_id=name), place.source, run, latest=place.root)
    release_lock(place.root, holder)


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """A graph with a published run."""
    library().write(tmp_path / "in")
    found = Place(str(tmp_path))
    publish(found, "old")
    return found


def whole(place: Place, name: str) -> None:
    """latest.json names this run, and nothing of it is missing."""
    assert latest_run(place.root) == place.run(name).uri
    for entry in read_manifest(place.run(name))["artifacts"]:
        found = place.run(name).stat(entry["key"])
        assert found is not None and found.size == entry["size"]


def killed_at(step: str, *, after: bool, write: Callable[..., object]) -> Callable[..., object]:
    """A way of writing that dies when it comes to a key."""

    def write_or_die(self: LocalStore, key: str, *args: object, **options: object) -> object:
        if key == step and not after:
            raise Killed
        written = write(self, key, *args, **options)
        if key == step:
            raise Killed
        return written

    return write_or_die


@pytest.mark.parametrize("after", [False, True], ids=["before", "after"])
def test_between_any_two_steps(place: Place, after: bool) -> None:
    for number, step in enumerate(STEPS):
        latest = latest_run(place.root)
        with pytest.MonkeyPatch.context() as patch:
            for name in ("write_bytes", "compare_and_set"):
                write = killed_at(step, after=after, write=getattr(LocalStore, name))
                patch.setattr(LocalStore, name, write)
            with pytest.raises(Killed):
                publish(place, f"killed{number}")
        assert latest is not None and latest_run(place.root) == latest
        whole(place, Path(latest).name)
        if number % 4 == 0:  # another run, as the next schedule has
            publish(place, f"next{number}")
            whole(place, f"next{number}")
        else:  # the same run, cleared
            publish(place, f"killed{number}")
            whole(place, f"killed{number}")
    assert not place.root.exists(layout.LOCK)


def test_with_a_real_kill_before_latest_is_written(place: Place) -> None:
    folder = str(Path(place.source.uri).parent)
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    ended = subprocess.run([sys.executable, "-c", ALONE, folder], env=env, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    assert place.run("killed").exists(layout.MANIFEST)
    whole(place, "old")
    publish(place, "next")
    whole(place, "next")
    assert verify_output(place.source, place.run("next")).passed
