"""The parts of the local stack that can be tried without Airflow."""

from __future__ import annotations

import fcntl
import os
import runpy
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import psutil
import pyarrow.parquet as pq
import pytest
import yaml

from local_stack.__main__ import main
from local_stack.airflow import INPUT_URI, airflow_environment
from local_stack.airflow_api import AirflowApi, TaskState
from local_stack.demo import DemoOptions
from local_stack.example_graph import EXAMPLES, PYTHON_ENVIRONMENT, upload_graph, write_environment
from local_stack.folders import PROJECT, Folders, State, is_running, load_secrets, write_state
from local_stack.processes import Service, StackError, free_port, stop_together
from local_stack.s3_server import S3Access
from local_stack.stack import refuse_if_busy, status
from local_stack.upload import documents_of, upload, upload_to
from local_stack.watch import RunWatch, print_summary, stage_seconds
from partition_ops.storage import StorageSettings, open_store
from partition_ops.storage.local_store import LocalStore
from tests.graphs import library

SPAWN = "import subprocess, sys; p = subprocess.Popen(['sleep', '1000']); print(p.pid, flush=True); p.wait()"
WATCHDOG = f"""
import subprocess, sys, time
from local_stack.supervisor import Watchdog
dog = Watchdog()
child = subprocess.Popen([sys.executable, '-c', {SPAWN!r}], start_new_session=True)
dog.watch(child.pid)
time.sleep(1000)
"""


def wait_for(condition: Callable[[], object], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "took too long"
        time.sleep(0.05)


def gone(pid: int) -> bool:
    return not psutil.pid_exists(pid) or psutil.Process(pid).status() == psutil.STATUS_ZOMBIE


def service(tmp_path: Path, code: str) -> Service:
    return Service("The test", [sys.executable, "-c", code], env=os.environ, log=tmp_path / "log")


def test_a_service_ends_with_all_its_children(tmp_path: Path) -> None:
    started = service(tmp_path, SPAWN)
    wait_for(lambda: started.log.read_text().strip())
    child = int(started.log.read_text())
    assert not gone(child)
    started.stop()
    wait_for(lambda: gone(child) and gone(started.pid))


def test_a_service_that_does_not_listen_is_killed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_stack.processes.GRACE_SECONDS", 2)
    deaf = "import signal, time; signal.signal(15, signal.SIG_IGN); print('up', flush=True); time.sleep(1000)"
    started = [service(tmp_path / str(number), deaf) for number in range(3)]
    wait_for(lambda: all(one.log.read_text() for one in started))
    began = time.monotonic()
    stop_together(started)
    assert time.monotonic() - began < 3 * 2  # one period of grace for all
    assert all(gone(one.pid) for one in started)


def test_a_service_that_fails_shows_the_end_of_its_log(tmp_path: Path) -> None:
    started = service(tmp_path, "print('what went wrong'); raise SystemExit(7)")
    with pytest.raises(StackError, match=r"The test ended with status 7.\n(.|\n)*what went wrong"):
        started.wait_until(lambda: False, seconds=120)


def test_a_service_that_was_killed_names_the_signal_and_clips_its_log(tmp_path: Path) -> None:
    code = "import os, signal; print('x' * 9000, flush=True); os.kill(os.getpid(), signal.SIGKILL)"
    started = service(tmp_path, code)
    with pytest.raises(StackError) as caught:
        started.wait_until(lambda: False, seconds=120)
    said = str(caught.value)
    assert "The test was ended by signal 9 (Killed). If no person" in said and "too little memory" in said
    assert max(map(len, said.splitlines())) < 300


def test_a_service_that_takes_too_long_is_named(tmp_path: Path) -> None:
    started = service(tmp_path, "import time; time.sleep(1000)")
    with pytest.raises(StackError, match="The test did not answer within 0 s"):
        started.wait_until(lambda: False, seconds=0.3)
    with pytest.raises(StackError, match="The test took more than 0 s"):
        started.wait_until_done(seconds=0.1)
    started.stop()


def test_a_watchdog_clears_up_after_a_killed_supervisor(tmp_path: Path) -> None:
    supervisor = subprocess.Popen(
        [sys.executable, "-c", WATCHDOG], stdout=subprocess.PIPE, text=True, cwd=PROJECT
    )
    assert supervisor.stdout is not None
    grandchild = int(supervisor.stdout.readline())
    parent = psutil.Process(grandchild).ppid()
    supervisor.send_signal(signal.SIGKILL)
    supervisor.wait()
    wait_for(lambda: gone(grandchild) and gone(parent))
    supervisor.stdout.close()


def test_a_port_that_is_taken_is_passed_over() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert free_port(port) not in (0, port)
    assert free_port(port) == port


def test_secrets_are_made_once_and_are_private(tmp_path: Path) -> None:
    folders = Folders(tmp_path / "local")
    folders.make()
    made = load_secrets(folders)
    assert vars(load_secrets(folders)) == vars(made)
    assert vars(load_secrets(Folders(tmp_path))) != vars(made)
    assert stat.S_IMODE(folders.secrets.stat().st_mode) == 0o600
    assert stat.S_IMODE(folders.root.stat().st_mode) == 0o700
    assert made.airflow_password not in repr(made)


def test_airflow_gets_nothing_of_the_users_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_PROFILE", "AIRFLOW__CORE__EXECUTOR", "AIRFLOW_CONN_OTHER", "PYTHONPATH"):
        monkeypatch.setenv(name, "the-users-own")
    monkeypatch.setenv("HOME", "/home/somebody")
    folders = Folders(tmp_path)
    env = airflow_environment(folders, load_secrets(folders), S3Access(9000, "key", "secret"), 8080)
    assert "the-users-own" not in env.values()
    assert env["HOME"] == "/home/somebody"
    assert "secret" in env["AIRFLOW_CONN_AWS_DEFAULT"]
    assert "secret" not in repr(S3Access(9000, "key", "secret"))


class FakeApi(AirflowApi):
    """Plays back the states of a run, one list of tasks for each time that it is asked."""

    def __init__(self, end: str, polls: list[list[TaskState]]) -> None:
        super().__init__("http://127.0.0.1:1", "", "")
        self.end = end
        self.polls = polls

    def run_state(self, dag_id: str, run_id: str) -> str:
        return "running" if len(self.polls) > 1 else self.end

    def tasks(self, dag_id: str, run_id: str) -> list[TaskState]:
        return self.polls.pop(0) if len(self.polls) > 1 else self.polls[0]

    def error_of(self, dag_id: str, run_id: str, task: TaskState) -> str:
        return f"InvalidInputError: because of {task.name}"


def task(task_id: str, state: str, map_index: int = -1, **more: Any) -> TaskState:
    values = {"label": f"part {map_index}", "try_number": 1, "seconds": 2.0, **more}
    return TaskState(task_id=task_id, map_index=map_index, state=state, **values)


def watched(end: str, *polls: list[TaskState]) -> tuple[list[str], RunWatch]:
    lines: list[str] = []
    watch = RunWatch(FakeApi(end, list(polls)), "dag", "run", lines.append)
    return lines, watch


@pytest.fixture(autouse=True)
def no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("local_stack.watch.POLL_SECONDS", 0)


def test_every_step_of_a_run_is_told_once() -> None:
    lines, watch = watched(
        "success",
        [task("a", "queued"), task("b", "none")],
        [task("a", "running"), task("b", "none")],
        [task("a", "running"), task("b", "none")],
        [task("a", "success"), task("b", "running", 0), task("b", "running", 1)],
        [task("a", "success"), task("b", "success", 0), task("b", "up_for_retry", 1)],
        [task("a", "success"), task("b", "success", 0), task("b", "running", 1, try_number=2)],
        [task("a", "success"), task("b", "success", 0), task("b", "success", 1, try_number=2)],
    )
    watch.until_done(seconds=120)
    assert [line.split(" s  ", 1)[1] for line in lines] == [
        "a started",
        "a done in 2.0 s  (1 of 3)",
        "b [part 0] started",
        "b [part 1] started",
        "b [part 0] done in 2.0 s  (2 of 3)",
        "b [part 1] failed, will be retried",
        "b [part 1] started (attempt 2)",
        "b [part 1] done in 2.0 s  (3 of 3)",
    ]


def test_a_failed_task_is_named_with_its_error() -> None:
    lines, watch = watched(
        "failed", [task("a", "success"), task("b", "failed", 1), task("c", "upstream_failed")]
    )
    with pytest.raises(
        StackError, match=r"b \[part 1\] failed in attempt 1:\n    InvalidInputError: because"
    ) as caught:
        watch.until_done(seconds=120)
    assert "The task c" not in str(caught.value)
    assert any("b [part 1] FAILED" in line for line in lines)


def test_a_run_is_not_watched_forever() -> None:
    _, watch = watched("running", [task("a", "running")])
    with pytest.raises(StackError, match="did not end within"):
        watch.until_done(seconds=0.01)


def test_a_server_that_is_gone_is_an_error() -> None:
    api = AirflowApi("http://127.0.0.1:1", "admin", "the-password")
    assert api.healthy() == set()
    with pytest.raises(StackError, match="does not answer") as caught:
        api.fail_run("dag", "run", patience=0)
    assert "the-password" not in str(caught.value) + repr(api)


def test_the_summary_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = open_store(str(tmp_path))
    report = {
        "node_types": {
            "paper": {"per_part": [1000, 1001], "imbalance": 1.0005},
            "author": {"per_part": [7, 5], "imbalance": 1.1667},
        },
        "edge_cut": {"edges": 1234, "fraction": 0.125},
        "replication_factor": 1.5,
    }
    run.write_json("quality/report.json", report)
    run.write_json("records/convert-gather-0.json", {"task": "convert-gather-0", "seconds": 1.5})
    run.write_json("records/convert-gather-1.json", {"task": "convert-gather-1", "seconds": 2.0})
    print_summary(run)
    assert capsys.readouterr().out.splitlines() == [
        "partition  paper  author",
        "        0  1,000       7",
        "        1  1,001       5",
        "imbalance  1.000   1.167",
        "",
        "Edges cut           1,234 (12.5%)",
        "Replication factor  1.50 copies of a node",
        "Seconds             validate 0.0  schema 0.0  prepare 0.0  partition 0.0  convert 3.5  idmap 0.0"
        "  quality 0.0  publish 0.0",
    ]


def test_seconds_of_tasks_that_are_no_stage_are_left_out() -> None:
    assert sum(stage_seconds([{"task": "other", "seconds": 1.0}]).values()) == 0


def run_command(*arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(arguments, cwd=PROJECT, capture_output=True, text=True, check=False, **options)


@pytest.mark.parametrize(
    ("last", "said"),
    [
        (
            ("failed", "The scheduler has ended."),
            "make up. The last stack ended with an error: The scheduler",
        ),
        (("ready", ""), "make up. The last stack was killed while it was ready"),
        (("stopped", ""), "Nothing is running.\n"),
    ],
)
def test_status_says_why_the_last_stack_ended(
    last: tuple[str, str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = Folders(tmp_path)
    folders.make()
    write_state(folders, State(owner="up", supervisor=os.getpid()).now(*last))
    assert status(folders) == 3
    assert said in capsys.readouterr().out


def test_status_and_down_where_nothing_runs(tmp_path: Path) -> None:
    status = run_command(sys.executable, "-m", "local_stack", "status", "--folder", str(tmp_path))
    assert (status.returncode, status.stdout) == (3, "Nothing is running.\n")
    down = run_command(sys.executable, "-m", "local_stack", "down", "--folder", str(tmp_path))
    assert (down.returncode, down.stdout) == (0, "Nothing is running.\n")


HOLD_THE_LOCK = """
import fcntl, sys, time
lock = open(sys.argv[1], "w")
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
time.sleep(float(sys.argv[2]))
"""


@pytest.mark.parametrize("lives", [False, True])
def test_a_stack_that_has_just_stopped_is_waited_for(tmp_path: Path, lives: bool) -> None:
    """Its watchdog may still clear up; one that is at work is no reason to wait."""
    folders = Folders(tmp_path)
    folders.make()
    with subprocess.Popen([sys.executable, "-c", ""]) as ended:
        pass
    write_state(folders, State("demo", os.getpid() if lives else ended.pid, "ready"))
    command = [sys.executable, "-c", HOLD_THE_LOCK, str(folders.lock), "1.5"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        if holder.stdout is not None:
            holder.stdout.readline()
        if not lives:
            refuse_if_busy(folders)
            assert not is_running(folders)
        else:
            with pytest.raises(StackError, match="starting, in use or stopping"):
                refuse_if_busy(folders)


def test_the_text_after_make_up_names_the_page_and_how_to_upload(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folders = Folders(tmp_path)
    folders.make()
    write_state(folders, State("up", os.getpid(), "ready", airflow_port=81, s3_port=82))
    with folders.lock.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert status(folders) == 0
    text = capsys.readouterr().out
    assert "http://127.0.0.1:81/graph-partitioning/" in text
    assert "make upload GRAPH=" in text


def test_the_folder_of_the_project_is_not_uploaded_for_want_of_a_name(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        main(["upload", ""])
    assert "call 'make upload GRAPH=folder'" in capsys.readouterr().err


def test_a_graph_is_uploaded_and_only_its_folder_replaces_it(
    tmp_path: Path, s3_settings: StorageSettings, s3_root: str
) -> None:
    with pytest.raises(StackError, match="no graph"):
        upload(Folders(tmp_path), tmp_path)
    graph = library().write(tmp_path / "mine")
    with pytest.raises(StackError, match="make up"):
        upload(Folders(tmp_path), graph)
    assert documents_of(graph) == ["metadata.json"]
    assert upload_to(s3_root, graph, "metadata.json", s3_settings) == f"{s3_root}/mine"
    with open_store(f"{s3_root}/mine", s3_settings) as there:
        assert {one.key for one in there.list()} == {one.key for one in open_store(str(graph)).list()}
    with pytest.raises(StackError, match="mine"):
        upload_to(s3_root, graph, "metadata.json", s3_settings)
    (graph / "more.csv").write_text("a graph that has grown")
    (first := next(graph.glob("*/*"))).unlink()
    upload_to(s3_root, graph, "metadata.json", s3_settings, again=True)
    with open_store(f"{s3_root}/mine", s3_settings) as there:
        found = {one.key for one in there.list()}
    assert "more.csv" in found and str(first.relative_to(graph)) not in found and "lock.json" not in found
    (tmp_path / "tables").mkdir()
    (tmp_path / "tables" / "graph.yaml").write_text("name: x")
    assert upload_to(s3_root, tmp_path / "tables", "graph.yaml", s3_settings).endswith("/tables/graph.yaml")


def test_another_folder_of_the_same_name_is_not_uploaded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph, folders = library().write(tmp_path / "mine"), Folders(tmp_path / "stack")
    monkeypatch.setattr("local_stack.upload.running", lambda _: object())
    folders.uploads.parent.mkdir(parents=True)
    folders.uploads.write_text('{"mine": "/elsewhere/mine"}')
    with pytest.raises(StackError, match="Another folder of this name was uploaded: /elsewhere/mine"):
        upload(folders, graph)


def test_make_help_lists_every_target() -> None:
    text = run_command("make", "help").stdout
    targets = next(line for line in (PROJECT / "Makefile").read_text().splitlines() if ".PHONY" in line)
    for target in targets.split()[1:]:
        assert f"make {target} " in text


def test_no_python_311_is_one_clear_sentence(tmp_path: Path) -> None:
    (tmp_path / "local_stack").mkdir()
    script = tmp_path / "local_stack" / "environment.sh"
    script.write_text((PROJECT / "local_stack" / "environment.sh").read_text())
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in ("sh", "mkdir", "rm"):
        (tools / name).symlink_to(f"/bin/{name}")
    for name in ("python3.11", "python3", "python"):  # there, but of another version
        (tools / name).write_text("#!/bin/sh\nexit 1\n")
        (tools / name).chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", str(script), "install"],
        cwd=tmp_path,
        env={"PATH": str(tools)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stdout.splitlines() == ["Creating .venv"]
    assert done.stderr.startswith("Python 3.11 is needed and was not found")
    assert len(done.stderr.splitlines()) == 1
    assert not (tmp_path / ".venv").exists()


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_demo_names_what_it_uploads(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DEMO_PACKAGES", "packaging")
    example = EXAMPLES[name]
    folder = example.write(Folders(tmp_path))
    assert example.uri == f"s3://graphs/input/{folder.name}"
    assert yaml.safe_load((folder / example.document).read_text())["graph_name"] == example.graph_name
    params = DemoOptions(example=example).params()
    assert params["input_uri"] in (example.uri, f"{example.uri}/{example.document}")
    assert find_spec(example.training) is not None
    dag = runpy.run_path(str(PROJECT / "dags" / "partition_graph.py"))["dag"]
    assert {*params} <= {*dag.params}


def test_the_form_names_the_graph_of_the_demo() -> None:
    assert DemoOptions().params()["input_uri"] == INPUT_URI


def test_the_demo_may_take_some_packages_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def built(packages: str) -> tuple[int, str]:
        monkeypatch.setenv("DEMO_PACKAGES", packages)
        names = write_environment(Folders(tmp_path)) / "names" / "distribution.parquet"
        return pq.read_metadata(names).num_rows, capfd.readouterr().out

    assert built("packaging pluggy")[0] == 2
    assert "existing graph is used" in built("pluggy  packaging")[1]
    assert built("packaging pluggy iniconfig")[0] == 3


def test_an_example_is_uploaded_where_only_some_roots_are_allowed(
    s3_settings: StorageSettings, s3_root: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in docker-compose.yaml, whose demo uploads a folder of its own."""
    monkeypatch.setenv("PARTITION_OPS_ALLOWED_ROOTS", s3_root)
    graph = library().write(tmp_path / "graph")
    upload_graph(PYTHON_ENVIRONMENT, graph, s3_settings, f"{s3_root}/in")
    with open_store(f"{s3_root}/in", s3_settings) as store:
        assert {entry.key for entry in store.list()} == {entry.key for entry in LocalStore(graph).list()}
