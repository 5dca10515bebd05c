"""A real S3 server for every test that wants one."""

from __future__ import annotations

import compileall
import gc
import os
import secrets
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings

from local_stack.folders import PROJECT
from local_stack.s3_server import start_s3_server
from partition_ops.cli import main
from partition_ops.storage import StorageSettings
from tests.command_line import Called
from tests.temporary import use_memory

# OpenMP's threads wait for each other in vain where tests share the cores: training takes ten times as long
os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch or dgl is imported, and for what tests start

# no deadline, and no check of the time that making an example takes: machines are shared
settings.register_profile(
    "default",
    max_examples=60,
    deadline=None,
    print_blob=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
# a graph takes a third of a second, so shrinking one takes minutes: that is for a developer to wait for
settings.register_profile(
    "ci",
    parent=settings.get_profile("default"),
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
settings.load_profile("ci" if os.environ.get("CI") else "default")

gc.disable()  # until all tests are collected: a third of that time, for objects that stay
use_memory()
BUCKET = "test-bucket"
E2E = "tests/e2e/"
LONG = "tests/long/"
PROGRAMS = (
    "ParMETIS",
    "mpi4py",
    "Chromium",
    "DGL 2.1",
    "PostgreSQL",
)  # in the reasons of tests that are skipped without them


def pytest_configure(config: pytest.Config) -> None:
    """Compile our modules once for all processes, also where PYTHONDONTWRITEBYTECODE has each do it again."""
    if not hasattr(config, "workerinput"):
        for name in ("dags", "local_stack", "partition_ops", "plugins"):
            compileall.compile_dir(PROJECT / name, quiet=2)


def pytest_collection_finish() -> None:
    """Collect garbage from now on, and not among what the collection of tests has made."""
    gc.freeze()
    gc.enable()


def pytest_make_parametrize_id(val: object, argname: str) -> str | None:
    """Keep bytes out of the names of tests: each process must collect the same names, and a packed file
    holds the second at which it was packed."""
    return argname if isinstance(val, bytes) else None


@pytest.fixture(scope="session")
def s3_settings(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StorageSettings]:
    """How to reach a server that runs for as long as the tests."""
    folder = tmp_path_factory.mktemp("s3")
    server, access = start_s3_server(
        folder / "data",
        folder / "s3.log",
        access_key=secrets.token_hex(8),
        secret_key=secrets.token_hex(16),
        buckets=(BUCKET,),
    )
    yield access.settings()
    server.stop()


@pytest.fixture
def s3_root(s3_settings: StorageSettings) -> str:
    """URI of an empty place on the server that no other test uses."""
    return f"s3://{BUCKET}/{secrets.token_hex(8)}"


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail if a test was skipped because a program is missing that ``.ci/run`` installs."""
    reporter = session.config.pluginmanager.get_plugin("terminalreporter")  # none in the workers of xdist
    if reporter is None or not os.environ.get("REQUIRE_PROGRAMS"):
        return
    reasons = {str(report.longrepr) for report in reporter.stats.get("skipped", [])}
    missing = [reason for reason in reasons if any(program in reason for program in PROGRAMS)]
    if missing:
        reporter.write_line("\nSkipped, although .ci/run needs these tests:\n" + "\n".join(missing), red=True)
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> object:
    """Give each worker whole files, and all end-to-end tests to one, so that one Airflow is started.

    Long tests are given out one by one.

    In the order of ``testpaths``, and not those of many tests first: what takes minutes begins at once, and
    the short files at the end keep both workers at work.

    The marker ``xdist_group`` would say the same, but pytest-xdist 3.8 does not see it with pytest 9.2.
    """
    from xdist.scheduler import LoadScopeScheduling

    config.option.loadscopereorder = False

    class ByFile(LoadScopeScheduling):
        def _split_scope(self, nodeid: str) -> str:
            if nodeid.startswith(LONG):
                return nodeid
            return E2E if nodeid.startswith(E2E) else nodeid.split("::")[0]

    return ByFile(config, log)


@pytest.fixture
def called(capsys: pytest.CaptureFixture[str]) -> Called:
    """`tests.command_line.call` in this process, in a tenth of the time."""

    def calling(*arguments: object) -> subprocess.CompletedProcess[str]:
        words = [*map(str, arguments)]
        try:
            code: Any = main(words)
        except SystemExit as ended:
            code = ended.code or 0
        said = capsys.readouterr()
        return subprocess.CompletedProcess(words, code, said.out, said.err)

    return calling
