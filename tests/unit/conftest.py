"""Unit tests start no process, open no connection and import no DGL; tests that do are integration tests."""

from __future__ import annotations

import sys
from collections.abc import Generator, Iterator
from contextlib import suppress
from multiprocessing import util
from pathlib import Path
from typing import Any

import pytest
import urllib3  # noqa: F401 (its first import binds a socket)

import tests.airflow_home  # noqa: F401 (a home for Airflow's configuration that is not the user's own)
from partition_ops.system.extras import is_installed

with suppress(ImportError):  # not in the base installation
    import croniter  # noqa: F401 (its first import, by Airflow, starts a process)

FOLDER = Path(__file__).parent
NEEDED = {  # by folder or file, the module that it needs beyond the base installation
    "dags": "airflow",
    "jobs/test_run_previous.py": "airflow",
    "options/test_options_page.py": "airflow",
    "plugins": "airflow",
    "project": "airflow",
    "stages/cache/test_cache_stage.py": "torch",
    "stages/ingest": "ibis",
    "stages/prepare/test_prepare.py": "scipy",
    "stages/validate/test_ingest.py": "ibis",
    "stages/validate/test_user_keys.py": "ibis",
    "storage/test_uris.py": "airflow",
}
collect_ignore = [folder for folder, module in NEEDED.items() if not is_installed(module)]
FORBIDDEN = {
    "os.exec",
    "os.fork",
    "os.forkpty",
    "os.posix_spawn",
    "os.spawn",
    "os.system",
    "socket.bind",
    "socket.connect",
    "subprocess.Popen",
}
_violations: list[str] | None = None  # of the current unit test; None between unit tests


def pytest_report_header() -> str:
    """Name the folders whose tests need packages that are not installed."""
    return f"left out, because a package is not installed: {', '.join(collect_ignore) or 'nothing'}"


def _check(event: str, arguments: tuple[Any, ...]) -> None:
    if _violations is not None and event in FORBIDDEN:
        _violations.append(f"{event} {arguments}")
        pytest.fail(f"a unit test must not call {event} {arguments}; such tests belong in tests/integration")


sys.addaudithook(_check)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, Any, Any]:
    """Guard a test and its fixtures; pytest calls this for tests of other folders too."""
    global _violations
    if FOLDER not in item.path.parents:
        return (yield)
    with pytest.MonkeyPatch.context() as patch:
        # multiprocessing's spawn raises no audit event
        patch.setattr(util, "spawnv_passfds", lambda *arguments: _check("os.posix_spawn", arguments))
        patch.setitem(sys.modules, "dgl", None)  # importing it raises ModuleNotFoundError
        _violations = []
        try:
            return (yield)
        finally:
            _violations = None


@pytest.fixture(autouse=True)
def _no_violation() -> Iterator[None]:
    """Fail a test whose code has caught the error, or raised it in a thread."""
    yield
    assert not _violations, f"a unit test must not do this: {_violations}"
