"""Workers that import what tasks need before they fork, of LocalExecutor and of Celery: real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

import tests.airflow_home  # noqa: F401
from local_stack.folders import PROJECT
from partition_ops.storage import open_store
from tests.graphs import library

LIBRARIES = ("llvmlite", "pyarrow", "numpy")
PRELOADED = "graph_partitioning.celery_workers.CELERY_CONFIG"
DEFAULT = "airflow.providers.celery.executors.default_celery.DEFAULT_CELERY_CONFIG"
HEAVY = ["torch", "dgl", "great_expectations"]

START = """
import json, sys
from pathlib import Path
from graph_partitioning.executor import PreloadedLocalExecutor
executor = PreloadedLocalExecutor(parallelism=2)
executor.start()
maps = [Path(f"/proc/{worker}/maps").read_text() for worker in executor.workers]
executor.end()
print(json.dumps([maps, sorted(set(sys.modules))]))
"""

# each task in a process of its own, forked as a worker forks it
TASKS = """
import json, multiprocessing, sys
import airflow.sdk
from tests.airflow_tasks import TaskInstance
from graph_partitioning.preloading import preload
from graph_partitioning.operators import (
    convert, idmap, partition, prepare, publish, quality, schema, validate
)
where = {"input_uri": sys.argv[1], "output_uri": sys.argv[2], "run_id": "r", "graph_name": "small"}
preload()
before = set(sys.modules)

def forked(cls, **options):
    def work(answers):
        answer = TaskInstance().run(cls(task_id="task", **options, **where))
        answers.put([answer, sorted(set(sys.modules) - before)])
    fork = multiprocessing.get_context("fork")
    answers = fork.SimpleQueue()
    process = fork.Process(target=work, args=(answers,))
    process.start()
    process.join(300)
    assert process.exitcode == 0, cls
    answer, modules = answers.get()
    added[cls.__name__] = modules
    return answer

added = {}
forked(validate.ValidateGraphOperator, data_docs=False)
forked(schema.WriteSchemaOperator)
forked(prepare.PrepareGraphOperator)
forked(partition.PartitionNodesOperator, num_parts=2)
for group in forked(convert.PlanConversionOperator):
    forked(convert.ScatterEdgesOperator, group=group)
for part in forked(convert.ListPartitionsOperator):
    forked(convert.GatherPartitionOperator, part=part)
forked(convert.WritePartitionConfigOperator)
forked(idmap.ExportIdMapsOperator)
forked(quality.ReportQualityOperator)
forked(publish.PublishRunOperator)
print(json.dumps(added))
"""


LOOP = """
import numpy as np
from partition_ops.system.compilation import compiled

@compiled
def total(values: np.ndarray) -> int:
    found = 0
    for value in values:
        found += value
    return found
"""
CALL = """
import numpy as np, loops
print(int(loops.total(np.arange(3)) + loops.total(np.arange(3, dtype=np.int32))))
"""
LOAD = """
import json, loops
from partition_ops.system.compilation import load_loops
loaded = load_loops()
stats = loops.total.stats
print(json.dumps([loaded, sum(stats.cache_hits.values()), sum(stats.cache_misses.values())]))
"""


def run(script: str, *arguments: object, **settings: str) -> Any:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    env = {**os.environ, **settings}
    answer = subprocess.run(command, env=env, capture_output=True, text=True, timeout=900)
    assert answer.returncode == 0, answer.stderr
    return json.loads(answer.stdout.splitlines()[-1])


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_workers_start_with_the_libraries() -> None:
    maps, modules = run(START)
    assert len(maps) == 2
    assert [name for name in LIBRARIES for text in maps if name not in text] == []
    assert [name for name in HEAVY if name in modules] == []


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_celery_workers_start_their_pool_with_the_libraries(tmp_path: Path) -> None:
    maps = _maps_of_pool(tmp_path / "preloaded", PRELOADED)
    assert [name for name in LIBRARIES if name not in maps] == []
    assert "llvmlite" not in _maps_of_pool(tmp_path / "plain", DEFAULT)  # Airflow does not import it


def _maps_of_pool(folder: Path, configuration: str) -> str:
    """Start a Celery worker, and return what is mapped into a process of its pool before there is a task."""
    queue, control = folder / "queue", folder / "control"
    for made in (queue, control):
        made.mkdir(parents=True)
    transport = "AIRFLOW__CELERY_BROKER_TRANSPORT_OPTIONS__"
    settings = {
        "AIRFLOW__CELERY__BROKER_URL": "filesystem://",
        "AIRFLOW__CELERY__CELERY_CONFIG_OPTIONS": configuration,
        "AIRFLOW__CELERY__RESULT_BACKEND": f"db+sqlite:///{folder}/results.db",
        f"{transport}DATA_FOLDER_IN": str(queue),
        f"{transport}DATA_FOLDER_OUT": str(queue),
        f"{transport}CONTROL_FOLDER": str(control),
    }
    words = ["celery", "worker", "--concurrency", "1", "--skip-serve-logs", "--pid", f"{folder}/pid"]
    command = [sys.executable, "-m", "airflow", *words, "--without-mingle", "--without-gossip"]
    log = folder / "log"
    with (
        log.open("wb") as stream,
        subprocess.Popen(
            command, env={**os.environ, **settings}, stdout=stream, stderr=subprocess.STDOUT
        ) as worker,
    ):
        try:
            for _ in range(600):
                for child in psutil.Process(worker.pid).children():
                    if "ForkPoolWorker" in " ".join(child.cmdline()):
                        return Path(f"/proc/{child.pid}/maps").read_text()
                assert worker.poll() is None, log.read_text()
                time.sleep(0.2)
            raise TimeoutError(log.read_text())
        finally:
            worker.terminate()
            try:
                worker.wait(60)
            except subprocess.TimeoutExpired:
                worker.kill()


def test_forked_tasks_import_little_and_do_a_whole_run(tmp_path: Path) -> None:
    source = library().write(tmp_path / "in")
    added = run(TASKS, source, tmp_path / "out")
    ours = {name for modules in added.values() for name in modules if name.startswith("partition_ops")}
    assert ours == set()
    assert [
        name for modules in added.values() for name in modules if name in ("numba", "boto3", "pandas")
    ] == []
    (run_folder,) = (tmp_path / "out" / "small" / "runs").iterdir()
    assert open_store(str(run_folder)).exists("manifest.json")


def test_loops_are_loaded_from_disk_and_not_compiled(tmp_path: Path) -> None:
    (tmp_path / "loops.py").write_text(LOOP)
    path = os.pathsep.join([str(tmp_path), str(PROJECT), os.environ.get("PYTHONPATH", "")])
    settings = {"PYTHONPATH": path, "NUMBA_CACHE_DIR": str(tmp_path / "cache")}
    assert run(LOAD, **settings) == [0, 0, 0]  # none is on disk
    assert run(CALL, **settings) == 6
    assert run(LOAD, **settings) == [2, 2, 0]
