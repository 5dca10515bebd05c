"""The operator of `manage_graph`: publish again, delete, retain."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException, AirflowRescheduleException
from graph_partitioning.assets import PARTITIONED_GRAPHS, PUBLISHED, published_graph
from graph_partitioning.operators.manage import ManageGraphOperator

from partition_ops.artifacts import layout
from partition_ops.artifacts.latest import latest_run
from partition_ops.artifacts.lock import take_lock
from partition_ops.jobs.options import RunConfig
from partition_ops.jobs.whole_job import run_job
from partition_ops.stages.publish.options import PublishConfig
from partition_ops.stages.publish.publish import publish_run
from partition_ops.storage import Store, open_store
from tests.airflow_tasks import OutletEvent
from tests.graphs import library
from tests.unit.plugins.test_lock_gate_retention import TaskInstance

pytestmark = pytest.mark.usefixtures("_airflow_id")


@pytest.fixture
def _airflow_id(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AIRFLOW_VAR_GRAPH_PARTITIONING_AIRFLOW_ID", "here")


@pytest.fixture(scope="module")
def _output(tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, Path]:
    folder = tmp_path_factory.mktemp("manage")
    source = open_store(str(library().write(folder / "graph")))
    run_job(RunConfig(num_parts=2, engine="random"), source, open_store(str(folder / "run")))
    return source, folder / "run"


@pytest.fixture
def root(_output: tuple[Store, Path], tmp_path: Path) -> Store:
    """A graph with the published runs ``old`` and ``new``."""
    source, run = _output
    store = open_store(str(tmp_path / "out" / "small"))
    for name in ("old", "new"):
        for path in run.rglob("*"):
            if path.is_file() and path.name != layout.MANIFEST:
                store.write_bytes(f"runs/{name}/{path.relative_to(run).as_posix()}", path.read_bytes())
        publish_run(PublishConfig(run_id=name), source, store.child(f"runs/{name}"), latest=store)
    return store


def manage(root: Store, events: OutletEvent | None = None, **options: Any) -> Any:
    operator = ManageGraphOperator(task_id="manage", graph_uri=root.uri, **options)
    ti = TaskInstance("manual")
    return operator.execute({"ti": ti, "outlet_events": {PUBLISHED: events}})  # type: ignore[typeddict-item]


def test_an_older_run_is_published_again_and_announced(root: Store) -> None:
    assert latest_run(root) == root.uri_of("runs/new")
    events = OutletEvent()
    assert manage(root, events, action="publish", run_name="old") == {"published": root.uri_of("runs/old")}
    assert latest_run(root) == root.uri_of("runs/old")
    output = root.uri.rpartition("/")[0]
    assert [asset for asset, _ in events.added] == [PARTITIONED_GRAPHS, published_graph(output, "small")]
    for _, extra in events.added:
        assert extra["run"] == root.uri_of("runs/old")
        assert extra["partition_config"] == root.uri_of("runs/old/partitions/small.json")
    assert not root.exists(layout.LOCK)


def test_a_run_is_deleted(root: Store) -> None:
    assert manage(root, action="delete", run_name="old") == {"removed": [root.uri_of("runs/old")]}
    assert not [*root.list("runs/old/")]
    assert [*root.list("runs/new/")]


def test_the_published_run_is_not_deleted(root: Store) -> None:
    with pytest.raises(AirflowFailException, match="cannot be deleted"):
        manage(root, action="delete", run_name="new")
    assert root.exists(f"runs/new/{layout.MANIFEST}")
    assert not root.exists(layout.LOCK)


def test_old_runs_are_removed(root: Store) -> None:
    assert manage(root, action="retain", keep="1", grace_days="0") == {"removed": [root.uri_of("runs/old")]}
    assert manage(root, action="retain", keep="1") == {"removed": []}


@pytest.mark.parametrize(
    "options",
    [
        {"action": "retain"},
        {"action": "delete"},
        {"action": "delete", "run_name": "../../small/runs/old"},
        {"action": "publish", "run_name": ".."},
        {"action": "remove", "run_name": "old"},
    ],
)
def test_wrong_options_change_nothing(root: Store, options: dict[str, str]) -> None:
    before = [entry.key for entry in root.list()]
    with pytest.raises(AirflowFailException):
        manage(root, **options)
    assert [entry.key for entry in root.list()] == before


def test_a_folder_that_is_no_graph_is_left_alone(tmp_path: Path) -> None:
    with pytest.raises(AirflowFailException, match="not the root of a graph"):
        manage(open_store(str(tmp_path / "nothing")), action="delete", run_name="old")
    assert not [*tmp_path.iterdir()]


def test_it_waits_while_a_run_works_on_the_graph(root: Store) -> None:
    take_lock(root, {"airflow": "here", "dag_id": "partition_graph", "run_id": "running"})
    with pytest.raises(AirflowRescheduleException):
        manage(root, action="delete", run_name="old")
    assert root.exists(f"runs/old/{layout.MANIFEST}")


def test_a_graph_is_removed_whole(root: Store) -> None:
    root.write_bytes("notes.txt", b"of somebody")
    done = manage(root, action="remove", confirmation="small")
    assert done == {"removed": [root.uri_of("runs/new"), root.uri_of("runs/old")]}
    assert [entry.key for entry in root.list()] == ["notes.txt"]
    assert manage(root, action="remove", confirmation="small") == {"removed": []}


def test_a_graph_is_not_removed_without_its_name_or_while_a_run_has_its_lock(root: Store) -> None:
    with pytest.raises(AirflowFailException, match=r"confirmation.*'smal'"):
        manage(root, action="remove", confirmation="smal")
    take_lock(root, {"airflow": "here", "dag_id": "partition_graph", "run_id": "running"})
    with pytest.raises(AirflowFailException, match=r"in use.*run id running"):
        manage(root, action="remove", confirmation="small")
    assert latest_run(root) == root.uri_of("runs/new")


def test_a_folder_that_is_no_graph_is_not_removed(tmp_path: Path) -> None:
    (tmp_path / "files").mkdir()
    (tmp_path / "files" / "mine").write_text("x")
    assert manage(open_store(str(tmp_path / "files")), action="remove", confirmation="files") == {
        "removed": []
    }
    assert [path.name for path in tmp_path.rglob("*")] == ["files", "mine"]
