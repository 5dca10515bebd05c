"""A command that a signal ends reports it in one line and leaves nothing behind; called again, it resumes."""

from __future__ import annotations

import fcntl
import json
import mmap
import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import psutil
import pytest
from scipy import sparse

from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import ParhipGraph, write_header
from partition_ops.cli import main
from partition_ops.errors import EngineError
from partition_ops.stages.partition.metis_library import call_in_child, cut_graph
from partition_ops.storage import StorageSettings, open_store
from partition_ops.storage.local_store import PARTIAL
from partition_ops.system.signals import SignalHandler
from partition_ops.system.temporary_folders import PREFIX, remove_abandoned
from tests.graphs import library
from tests.uploads import upload_folder

COMMAND = [sys.executable, "-m", "partition_ops.cli"]
MOST_SECONDS = 120  # limit for a process that hangs
RESUMES = "finished work is kept, and the same command resumes from there"
SAID = {
    signal.SIGINT: f"partition-ops: interrupted; {RESUMES}",
    signal.SIGTERM: f"partition-ops: ended by SIGTERM; {RESUMES}",
    signal.SIGHUP: f"partition-ops: ended by SIGHUP; {RESUMES}",
}


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return library().write(tmp_path_factory.mktemp("signals") / "in")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(folder))
    return folder


def start(*words: object, command: Sequence[str] = COMMAND) -> subprocess.Popen[str]:
    """Start a command with the default signal handlers of a terminal."""

    def as_in_a_terminal() -> None:
        for number in SAID:
            signal.signal(number, signal.SIG_DFL)

    return subprocess.Popen(
        [*command, *map(str, words)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        preexec_fn=as_in_a_terminal,
    )


def wait_for(process: subprocess.Popen[str], begun: Callable[[], object]) -> None:
    end = time.monotonic() + MOST_SECONDS
    while not begun():
        assert process.poll() is None and time.monotonic() < end, process.communicate()
        time.sleep(0.005)


def end(process: subprocess.Popen[str], number: signal.Signals) -> tuple[str, str]:
    """Send a signal to the command but not to its children, and return its output."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    try:
        said = process.communicate(timeout=MOST_SECONDS)
    finally:
        process.kill()
    assert process.returncode == 128 + number, said
    assert said[1].splitlines()[-1] == SAID[number]
    assert "Traceback" not in said[1]
    psutil.wait_procs(children, 5)
    assert not [child for child in children if child.is_running()]
    return said


@pytest.mark.parametrize("number", SAID)
def test_a_signal_ends_a_verb_as_ctrl_c_does(
    number: signal.Signals, graph: Path, tmp_path: Path, temporary: Path
) -> None:
    out = tmp_path / "out"
    process = start("validate", graph, "--output", out, "--no-data-docs", "--json")
    wait_for(process, lambda: (out / layout.LOCK).exists() and [*temporary.iterdir()])
    said = end(process, number)
    assert f"partition-ops: {json.loads(said[0])['error']['problem']}" == SAID[number]
    assert not (out / layout.LOCK).exists() and not [*temporary.iterdir()]


def test_a_run_resumes_after_sigterm(graph: Path, tmp_path: Path, temporary: Path) -> None:
    out = tmp_path / "out"
    words = ["run", str(graph), str(out), "--num-parts", "2", "--engine", "random"]
    process = start(*words)
    wait_for(process, (out / layout.record("validate")).exists)
    end(process, signal.SIGTERM)
    assert not (out / layout.LOCK).exists() and not [*temporary.iterdir()]
    assert not (out / layout.MANIFEST).exists()
    done = (out / layout.record("validate")).read_bytes()
    assert main(words) == 0
    assert (out / layout.record("validate")).read_bytes() == done


def test_no_child_is_left_behind(graph: Path, tmp_path: Path, temporary: Path) -> None:
    """Great Expectations runs in a child process."""
    process = start("validate", graph, "--output", tmp_path / "out")
    wait_for(process, psutil.Process(process.pid).children)
    end(process, signal.SIGTERM)
    assert not [*temporary.iterdir()]


def test_the_lock_on_s3_is_released(
    graph: Path,
    s3_root: str,
    s3_settings: StorageSettings,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name, value in environment(s3_settings).items():
        monkeypatch.setenv(name, value)
    with open_store(f"{s3_root}/in") as source, open_store(f"{s3_root}/out") as output:
        upload_folder(graph, source)
        process = start("prepare", source.uri, "--output", output.uri)
        wait_for(
            process, lambda: output.exists(layout.LOCK)
        )  # it waits to find out whether the lock is its own
        end(process, signal.SIGTERM)
        assert not [*output.list()]
    assert not [*temporary.iterdir()]


def environment(settings: StorageSettings) -> Mapping[str, str]:
    return {
        "AWS_ENDPOINT_URL": settings.endpoint_url or "",
        "AWS_ACCESS_KEY_ID": settings.access_key or "",
        "AWS_SECRET_ACCESS_KEY": settings.secret_key or "",
        "AWS_DEFAULT_REGION": settings.region or "",
    }


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_while_modules_are_imported_gets_the_same_line(number: signal.Signals, graph: Path) -> None:
    process = start("validate", graph, "--json", command=[COMMAND[0], "-X", "importtime", *COMMAND[1:]])
    assert process.stderr is not None
    for line in process.stderr:
        if line.split()[-1] == "partition_ops.errors":  # one of the first modules of some hundred
            break
    said = end(process, number)
    assert json.loads(said[0]) == {"error": {"problem": SAID[number].removeprefix("partition-ops: ")}}
    assert "partition_ops.cli.dispatch" not in said[1]


DEAF = """
import sys
from hashlib import pbkdf2_hmac
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from shutil import rmtree
from subprocess import Popen
from threading import Event

from partition_ops import cli
from partition_ops.system import signals
from partition_ops.cli import locations
from partition_ops.cli.verbs import VERBS
from partition_ops.system.temporary_folders import new_folder

def execute(arguments, console):
    with locations.locked_output(arguments), ExitStack() as stack, ThreadPoolExecutor(1) as pool:
        pool.submit(int).result()  # a thread whose start is interrupted is not waited for
        stack.callback(rmtree, new_folder())
        stack.callback(Popen(["sleep", "1000"], start_new_session=True).kill)
        console.line("working")
        {work}

next(verb for verb in VERBS if verb.name == 'publish').verb.execute, signals.PATIENCE = execute, 0.1
sys.exit(cli.main(["publish", "in", "--output", sys.argv[1]]))
"""


@pytest.mark.parametrize(
    "work",
    [
        "pbkdf2_hmac('sha256', b'', b'', 10**9)",  # compiled code
        "pool.submit(Event().wait).result()",  # a thread that does not end
    ],
)
def test_a_command_that_cannot_react_to_a_signal_ends(work: str, tmp_path: Path, temporary: Path) -> None:
    out = tmp_path / "out"
    process = start(out, command=(sys.executable, "-c", DEAF.format(work=work)))
    assert process.stdout is not None and process.stdout.readline() == "working\n"
    assert (out / layout.LOCK).exists() and [*temporary.iterdir()]
    end(process, signal.SIGTERM)
    assert not (out / layout.LOCK).exists() and not [*temporary.iterdir()]


STUBBORN = """try:
            child = Popen(["sh", "-c", {script!r}, {lock!r}])  # its end would be interrupted, too
            Event().wait()
        except KeyboardInterrupt:
            Event().wait()
"""
WAITS = """
trap '' TERM; echo deaf
while [ -e "$0" ]; do sleep 0.02; done
touch "$0.was-free"
"""


def test_a_lock_does_not_wait_for_children(tmp_path: Path, temporary: Path) -> None:
    out = tmp_path / "out"
    work = STUBBORN.format(script=WAITS, lock=str(out / layout.LOCK))
    process = start(out, command=(sys.executable, "-c", DEAF.format(work=work)))
    assert process.stdout is not None
    assert [process.stdout.readline() for _ in range(2)] == ["working\n", "deaf\n"]
    end(process, signal.SIGTERM)
    assert {path.name for path in out.iterdir()} == {f"{layout.LOCK}.was-free", layout.MARKER}


HELD_UP = """
import sys
from threading import Event

from partition_ops import cli
from partition_ops.cli import locations
from partition_ops.cli.verbs import VERBS
from partition_ops.system.temporary_folders import temporary_folder

def execute(arguments, console):
    with locations.locked_output(arguments), temporary_folder():
        pass

def hold_up(event, arguments):
    if held_up and event == held_up[0] and held_up[1] in str(arguments[0]):
        held_up.clear()
        print("giving back", flush=True)
        Event().wait()

next(verb for verb in VERBS if verb.name == 'publish').verb.execute, held_up = execute, sys.argv[2:]
sys.addaudithook(hold_up)
sys.exit(cli.main(["publish", "in", "--output", sys.argv[1]]))
"""


@pytest.mark.parametrize("held_up", [("os.remove", layout.LOCK), ("shutil.rmtree", PREFIX)])
def test_a_signal_during_a_clean_up_leaves_nothing(
    held_up: tuple[str, str], tmp_path: Path, temporary: Path
) -> None:
    out = tmp_path / "out"
    process = start(out, *held_up, command=(sys.executable, "-c", HELD_UP))
    assert process.stdout is not None and process.stdout.readline() == "giving back\n"
    end(process, signal.SIGTERM)
    assert not (out / layout.LOCK).exists() and not [*temporary.iterdir()]


def test_a_closed_terminal_does_not_disturb_the_clean_up(
    graph: Path, tmp_path: Path, temporary: Path
) -> None:
    """The progress bar cannot be cleared any more."""
    out = tmp_path / "out"
    process, terminal = pty.fork()
    if process == 0:
        os.execv(COMMAND[0], [*COMMAND, "validate", str(graph), "--output", str(out)])
    try:
        limit = time.monotonic() + MOST_SECONDS
        while not (out / layout.LOCK).exists() and time.monotonic() < limit:
            time.sleep(0.005)
    finally:
        os.close(terminal)
    status = os.waitpid(process, 0)[1]
    # 1 if writing to the terminal fails just before the signal arrives
    assert os.waitstatus_to_exitcode(status) in (128 + signal.SIGHUP, 1)
    assert not (out / layout.LOCK).exists() and not [*temporary.iterdir()]


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    """nohup and shells let background commands ignore signals."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with SignalHandler(as_json=False):
            assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGHUP, before)


def test_handlers_are_those_of_before_when_a_verb_is_called_in_a_process(graph: Path, tmp_path: Path) -> None:
    """Airflow has handlers, for example."""
    before = {number: signal.getsignal(number) for number in SAID}
    assert main(["schema", str(graph), "--output", str(tmp_path / "schema.json")]) == 0
    assert {number: signal.getsignal(number) for number in SAID} == before
    with ThreadPoolExecutor() as pool:  # in a thread no handler can be set
        words = ["schema", str(graph), "--output", str(tmp_path / "again.json")]
        assert pool.submit(main, words).result() == 0


def test_compiled_code_that_is_killed_is_an_error_with_a_name() -> None:
    assert call_in_child("It", lambda: 3) == 3
    with pytest.raises(EngineError, match="It was ended by SIGKILL"):
        call_in_child("It", lambda: os.kill(os.getpid(), signal.SIGKILL) or 0)
    with pytest.raises(EngineError, match="It could not be called"):
        call_in_child("It", lambda: 1 // 0)


def test_a_lock_is_not_kept_by_compiled_code(tmp_path: Path) -> None:
    """Another thread may hold a lock during the fork."""
    works = mmap.mmap(-1, 1)

    def work() -> int:
        works[0] = 1
        time.sleep(MOST_SECONDS)
        return 0

    held = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    before = psutil.Process().children()
    with ThreadPoolExecutor() as pool:
        called = pool.submit(call_in_child, "It", work)
        while not works[0] and not called.done():
            time.sleep(0.005)
        os.close(held)
        again = os.open(tmp_path, os.O_RDONLY)
        try:
            fcntl.flock(again, fcntl.LOCK_EX | fcntl.LOCK_NB)
        finally:
            os.close(again)
            for child in {*psutil.Process().children()} - {*before}:
                child.kill()
        with pytest.raises(EngineError, match="It was ended by SIGKILL"):
            called.result()


ORPHAN = """
import os, signal, time
from partition_ops.stages.partition import metis_library

def late(parent=os.getpid()):
    os.kill(parent, signal.SIGKILL)
    while os.getppid() == parent:
        time.sleep(0.001)

metis_library.restore_default_handlers = late
metis_library.call_in_child("It", lambda: os.write(1, b"works"))
"""


def test_compiled_code_does_not_begin_without_its_parent() -> None:
    done = subprocess.run([sys.executable, "-c", ORPHAN], stdout=subprocess.PIPE, timeout=MOST_SECONDS)
    assert (done.returncode, done.stdout) == (-signal.SIGKILL, b"")


WORKER = """
import sys
from pathlib import Path
import numpy as np
from partition_ops.artifacts.parhip import open_parhip
from partition_ops.stages.partition import metis_library
from partition_ops.stages.partition.multilevel.graph import Constraints, Graph
from partition_ops.stages.partition.multilevel.kahypar import cut_by_kahypar
from partition_ops.stages.partition.multilevel.levels import Level

library, graph = sys.argv[1], open_parhip(Path(sys.argv[2]))
if library == "kahypar":
    nodes, nothing = graph.num_nodes, np.zeros(0, np.int64)
    most = np.full((64, 1), nodes)
    classes = np.zeros(nodes, np.int32)
    limits = Constraints(classes, nothing, classes[:1], np.zeros((0, 1), np.int64), most)
    cut_by_kahypar(Level(Graph.of_input(graph), limits), 0)
else:
    weights = np.ones((graph.num_nodes, 1), np.int64)
    metis_library.cut_graph(graph, weights, np.full(64, 1 / 64), np.array([1.03]), seed=0)
"""


@pytest.fixture(scope="module")
def random_graph() -> ParhipGraph:
    """A graph that takes METIS and Mt-KaHyPar longer than a test waits."""
    rng = np.random.default_rng(0)
    nodes, degree = 20_000, 20
    ends = rng.integers(0, nodes, (nodes * degree, 2))
    ends = ends[ends[:, 0] != ends[:, 1]]
    found = sparse.coo_array((np.ones(len(ends)), ends.T), (nodes, nodes)).tocsr()
    both = (found + found.T).tocsr()
    return ParhipGraph(both.indptr.astype(np.int64), both.indices.astype(np.int64))


@pytest.mark.parametrize("library", ["metis", "kahypar"])
def test_compiled_code_at_work_ends_with_its_parent(
    library: str,
    random_graph: ParhipGraph,
    tmp_path: Path,
    temporary: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Its process is killed while it works; nobody can tell the child. Later commands remove its folder."""
    path = tmp_path / "graph.bin"
    with path.open("wb") as stream:
        write_header(stream, random_graph.offsets)
        stream.write(random_graph.neighbours.data)
    parent = subprocess.Popen([sys.executable, "-c", WORKER, library, str(path)])
    try:
        child = wait_for_child(parent)
        while child.cpu_times().user < (1.0 if library == "kahypar" else 0.2):  # it is past its imports
            assert parent.poll() is None
            time.sleep(0.01)
    finally:
        parent.kill()
        parent.wait()
    assert not psutil.wait_procs([child], MOST_SECONDS)[1]
    assert len([*temporary.iterdir()]) == (library == "kahypar")
    monkeypatch.setattr(tempfile, "tempdir", str(temporary))
    remove_abandoned()
    assert not [*temporary.iterdir()]


def wait_for_child(parent: subprocess.Popen[bytes]) -> psutil.Process:
    end = time.monotonic() + MOST_SECONDS
    while not (found := psutil.Process(parent.pid).children()):
        assert parent.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    return found[0]


def test_metis_does_not_keep_sigterm_to_itself(random_graph: ParhipGraph) -> None:
    """METIS sets a handler of its own while it runs."""

    class Ended(Exception):
        pass

    def handler(number: int, frame: object) -> None:
        raise Ended

    before = signal.signal(signal.SIGTERM, handler)
    timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGTERM))
    try:
        with pytest.raises(Ended):
            timer.start()
            weights = np.ones((random_graph.num_nodes, 1), np.int64)
            cut_graph(random_graph, weights, np.full(8, 1 / 8), np.array([1.03]), seed=0)
            timer.join()  # METIS finished before the signal
    finally:
        signal.signal(signal.SIGTERM, before)


ENDED_WHILE_IT_WRITES = """
import os, sys, threading, time
from partition_ops.storage import open_store
from partition_ops.system.signals import clean_up
store = open_store(sys.argv[1])
begun = threading.Event()
def write_without_end():
    with store.create("one") as new, new.path.open("wb") as stream:
        begun.set()
        while True:
            stream.write(bytes(1 << 16))
            time.sleep(0.001)
def write_many():
    for number in range(1 << 30):
        with store.create(f"many/{number}") as new:
            new.path.write_bytes(bytes(100))
for work in (write_without_end, write_many):
    threading.Thread(target=work, daemon=True).start()
begun.wait()
time.sleep(0.1)
clean_up(lambda: time.sleep(0.2))
os._exit(7)
"""


def test_a_process_that_cleans_up_leaves_no_partial_files_of_other_threads(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-c", ENDED_WHILE_IT_WRITES, tmp_path], timeout=MOST_SECONDS)
    assert done.returncode == 7
    assert [*(tmp_path / "many").iterdir()]
    assert not [path for path in tmp_path.rglob("*") if path.name.startswith(PARTIAL)]
