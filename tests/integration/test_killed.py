"""A command killed while it scatters or gathers, and called again, leaves the bytes of one never killed."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.chunked.metadata import METADATA
from partition_ops.cli import main
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.schema.options import SchemaConfig
from partition_ops.stages.schema.schema import write_schema
from partition_ops.stages.validate.options import ValidateConfig
from partition_ops.stages.validate.validate import validate_graph
from partition_ops.storage import StorageSettings, Store, open_store
from partition_ops.storage.local_store import PARTIAL, LocalStore
from tests.command_line import UNBOUNDED, unbounded
from tests.graphs import Edges, Layout, SmallGraph, Values
from tests.uploads import upload_folder

PAPERS, EDGES, CHUNKS = 10_000, 600_000, 4  # edges of each type; it takes a while to scatter them
PARTS = 5  # more than make it worth while to scatter features
CONFIG = RunConfig(num_parts=PARTS, engine="random", on_defect="warn", memory=1 << 20)
OPTIONS = ("--num-parts", f"{PARTS}", "--engine", "random", "--on-defect", "warn")  # the same
MOST_SECONDS = 120  # for a process that hangs
VARYING = ("fingerprint", "inputs", "peak_memory_bytes", "seconds")  # of a record: times, and tags of storage


@dataclass(frozen=True)
class Place:
    """A graph, where its partitions go, and the folder where everything local is."""

    source: Store
    output: Store
    folder: Path

    def arguments(self, verb: str) -> list[str]:
        """With the least memory that is allowed: small segments, and one task at a time."""
        common = ["--memory", "1M"]
        if verb == "run":
            return [verb, self.source.uri, self.output.uri, *OPTIONS, *common]
        return [verb, self.source.uri, "--output", self.output.uri, *common]

    def start(self, verb: str) -> subprocess.Popen[str]:
        """The command, in a session of its own."""
        return subprocess.Popen(
            [sys.executable, "-c", UNBOUNDED, *self.arguments(verb)],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )

    def done(self, task: str) -> bool:
        return self.output.exists(layout.record(task))


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> LocalStore:
    """With features in text, which are worth being scattered too."""
    rng = np.random.default_rng(0)
    nodes = {"author": PAPERS // 2, "paper": PAPERS}
    layout = Layout("parquet", (EDGES // CHUNKS,) * CHUNKS)
    ends = {name: rng.integers(0, (count, PAPERS), (EDGES, 2)) for name, count in nodes.items()}
    found = SmallGraph(
        nodes,
        {f"{name}:to:paper": Edges(*pairs.T, layout) for name, pairs in ends.items()},
        node_values=[Values("paper", "feat", rng.integers(0, 99, (PAPERS, 16)), Layout("csv"))],
    )
    return LocalStore(found.write(tmp_path_factory.mktemp("killed") / "in"))


@pytest.fixture(scope="module")
def expected(graph: LocalStore, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """Return the files of a run that nobody kills."""
    output = open_store(str(tmp_path_factory.mktemp("whole")))
    run_job(CONFIG, graph, output)
    return content(output)


@pytest.fixture(params=["local", "s3"])
def place(
    request: pytest.FixtureRequest,
    graph: LocalStore,
    tmp_path: Path,
    s3_root: str,
    s3_settings: StorageSettings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Place]:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    if request.param == "local":
        yield Place(graph, open_store(str(tmp_path / "out")), tmp_path)
        return
    monkeypatch.setenv("AWS_ENDPOINT_URL", s3_settings.endpoint_url or "")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", s3_settings.access_key or "")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", s3_settings.secret_key or "")
    monkeypatch.setenv("AWS_DEFAULT_REGION", s3_settings.region or "")
    with open_store(f"{s3_root}/in") as source, open_store(f"{s3_root}/out") as output:
        upload_folder(graph.root, source, last=METADATA)
        yield Place(source, output, tmp_path)


def content(output: Store) -> dict[str, Any]:
    """Every byte, but for what differs between two runs: in the records, and where the input was."""
    found: dict[str, Any] = {entry.key: output.read_bytes(entry.key) for entry in output.list()}
    for key in found:
        if key.startswith(f"{layout.RECORDS}/"):  # beside the records there are pictures of times
            record = output.read_json(key) if key.endswith(".json") else {}
            found[key] = {name: value for name, value in record.items() if name not in VARYING}
    found[layout.MANIFEST] = manifest = output.read_json(layout.MANIFEST)
    del manifest["input"]["uri"]
    return found


def kill_when(process: subprocess.Popen[str], begun: Callable[[], bool]) -> None:
    """Kill a command and all that it has started; it must not have ended by itself."""
    end = time.monotonic() + MOST_SECONDS
    try:
        while not begun() and process.poll() is None and time.monotonic() < end:
            time.sleep(0.005)
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
        said = process.communicate()[0]
    assert process.returncode == -signal.SIGKILL, said
    assert time.monotonic() < end, said


def prepare(verb: str, place: Place) -> None:
    """Do what comes before ``convert``, where that is to be called."""
    if verb == "convert":
        validate_graph(CONFIG.of(ValidateConfig), place.source, place.output)
        write_schema(SchemaConfig(), place.source, place.output)
        partition_nodes(CONFIG.of(PartitionConfig), place.source, place.output)


def call_again(verb: str, place: Place) -> dict[str, Any]:
    """Call a verb again, run the rest of the job, and return the files."""
    assert not place.output.exists(layout.MANIFEST)
    with unbounded():
        assert main(place.arguments(verb)) == 0
    results = run_job(CONFIG, place.source, place.output)
    again = [result.task for result in results if not result.skipped]
    assert not [task for task in again if task.startswith(("convert-part", "convert-config"))]
    assert not [*(place.folder / "out").rglob(f"{PARTIAL}*")]
    return content(place.output)


@pytest.mark.long
@pytest.mark.parametrize(("verb", "place"), [("convert", "local"), ("run", "s3")], indirect=["place"])
def test_killed_in_scatter(verb: str, place: Place, expected: dict[str, Any]) -> None:
    """Buckets are on the disk before they appear, and while one process makes them, nowhere else."""
    prepare(verb, place)
    bucket = Path(layout.bucket(0, layout.EDGES)).parent

    def scatters() -> bool:  # on S3, the record of the plan is written while scatter runs
        return any(place.folder.glob(f"*/{bucket}/.partial-*")) and place.done("convert-plan")

    kill_when(place.start(verb), scatters)
    assert not place.done("convert-scatter1")  # the last group
    assert call_again(verb, place) == expected


@pytest.mark.long
@pytest.mark.parametrize(("verb", "place"), [("run", "local"), ("convert", "s3")], indirect=["place"])
def test_killed_in_gather(verb: str, place: Place, expected: dict[str, Any]) -> None:
    prepare(verb, place)
    kill_when(place.start(verb), lambda: place.done("convert-part0"))
    assert place.done("convert-part0") and not place.done(f"convert-part{PARTS - 1}")
    assert call_again(verb, place) == expected
