"""`Evaluator`: checks metrics against expectation suites, with Great Expectations in a child process.

Great Expectations takes seconds to import and prints to standard output. So the child process is started
early, and the two exchange JSON, one line a message, over pipes that nothing else writes to.
"""

from __future__ import annotations

import json
import os
import selectors
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

import partition_ops
from partition_ops.errors import InvalidInputError, PartitionOpsError
from partition_ops.stages.validate.expectations.suites import Suite, all_suites, merge_suites
from partition_ops.stages.validate.metrics import METRICS, Tables
from partition_ops.storage.local_errors import FULL_DISK
from partition_ops.system.temporary_folders import temporary_folder

PATIENCE = 600.0  # seconds
WORKER = "partition_ops.stages.validate.expectations.worker"
KEPT_VARIABLES = {"LANG", "LD_LIBRARY_PATH", "PATH", "TMPDIR", "TZ", "VIRTUAL_ENV"}
LONGEST_LOG = 2000  # characters of the log in a message


@dataclass(frozen=True)
class Outcome:
    """One expectation, met or not."""

    table: str  # the table that it is about
    ours: bool  # whether it is from a suite of this project, and not of the user
    expectation: str  # its type, such as ``expect_column_values_to_be_between``
    column: str | None  # the column that it is about; None if it is about several or none
    check: str | None  # name of the check, from ``meta.check``; None for an expectation without one
    # what to do if it is not met: ``meta.action`` (``fail``, ``warn`` or ``info``), or if there is none,
    # ``warn`` for the severity warning, ``info`` for info, and None for critical
    action: str | None
    success: bool  # whether it is met
    # names of the first ten types or features that do not meet it; empty for an expectation on a whole column
    # or table
    rows: list[str]
    failed_rows: int  # number of all types or features that do not meet it
    observed: str | None  # the value of the whole column or table, as text, for expectations on those
    sentence: str  # what was found and what was expected, and for which types


@dataclass(frozen=True)
class Evaluation:
    """The outcomes of all expectations."""

    outcomes: list[Outcome]  # in the order of the tables and of the suites
    data_docs: Path  # local folder with the Data Docs, with ``index.html``; removed by `Evaluator.close`

    @property
    def failures(self) -> list[Outcome]:
        """The expectations that are not met."""
        return [outcome for outcome in self.outcomes if not outcome.success]


class EvaluatorError(PartitionOpsError):
    """The child process with Great Expectations died or does not answer.

    Attributes:
        transient: Whether a retry can help: it was killed, or is slow.
    """

    def __init__(self, problem: str, *, found: str, remedy: str, transient: bool) -> None:
        super().__init__(problem, found=found, remedy=remedy)
        self.transient = transient


class Evaluator:
    """Checks tables of metrics against the expectation suites, ours and the user's.

    The child process starts at once and is ready some seconds later, while the caller measures. Use it as a
    context manager, which ends the child and removes the Data Docs. Not for several threads at a time.

    Args:
        suites: The user's suites, which are added to ours.
        columns: Names of the columns whose expectations are checked; None means all.
        patience: Seconds to wait for the start of the child, and for each evaluation.

    Raises:
        InvalidInputError: A suite does not match its format, or names an unknown table or column.

    Peak memory: the child takes about 400 MB, whatever the size of the graph.
    """

    def __init__(
        self,
        suites: Sequence[Suite] = (),
        *,
        columns: Collection[str] | None = None,
        patience: float = PATIENCE,
    ) -> None:
        merged = merge_suites(all_suites(suites))
        if columns is not None:
            merged = {
                table: [one for one in entries if one["config"].get("kwargs", {}).get("column") in columns]
                for table, entries in merged.items()
            }
        self._scratch = temporary_folder()
        self._ready = False
        self._evaluations = 0
        self._child = _Worker(Path(self._scratch.name), patience=patience)
        try:
            self._child.send({"suites": merged})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Evaluator:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int:
        """Process ID of the child."""
        return self._child.pid

    def close(self) -> None:
        """End the child and remove the Data Docs."""
        self._child.close()
        self._scratch.cleanup()

    def wait_until_ready(self) -> None:
        """Wait until Great Expectations is imported and has accepted every expectation.

        `evaluate` waits too; call this earlier to reject a broken suite before measuring.

        Raises:
            InvalidInputError: An expectation has an unknown type or wrong arguments.
            EvaluatorError: The child has died.
        """
        if not self._ready:
            self._receive()
            self._ready = True

    def evaluate(self, tables: Tables) -> Evaluation:
        """Validate the tables and write Data Docs.

        Args:
            tables: By table of `METRICS` its rows, each with exactly the columns of the table. A table that
                is left out has no rows. A metric that was not measured is None, and meets every expectation
                on single values.

        Raises:
            InvalidInputError: An expectation has an unknown type or wrong arguments, or cannot be
                evaluated on its table.
            EvaluatorError: The child has died.
        """
        for table, rows in tables.items():
            for row in rows:
                if set(row) != set(METRICS.get(table, ())):  # a bug in our code
                    raise ValueError(f"table {table!r} has columns {sorted(row)}, not those of METRICS")
        self.wait_until_ready()
        self._evaluations += 1
        folder = Path(self._scratch.name) / f"evaluation-{self._evaluations}"
        plain = {table: _plain(tables.get(table, [])) for table in METRICS}
        self._child.send({"tables": plain, "folder": str(folder)})
        answer = self._receive()
        outcomes = [Outcome(**outcome) for outcome in answer["outcomes"]]
        return Evaluation(outcomes, folder / "data_docs")

    def _receive(self) -> dict[str, Any]:
        answer = self._child.receive()
        if "rejected" in answer:
            raise InvalidInputError(**answer["rejected"])
        return answer


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the rows with Python's scalars instead of NumPy's."""
    return [
        {column: getattr(value, "item", lambda value=value: value)() for column, value in row.items()}
        for row in rows
    ]


class _Worker:
    """The child process, started at once.

    Args:
        folder: An existing folder for the child alone: its home and its log.
        patience: Seconds to wait for one answer.
    """

    def __init__(self, folder: Path, *, patience: float) -> None:
        self._log = folder / "log.txt"
        self._patience = patience
        self._unread = b""
        with self._log.open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", WORKER, str(os.getpid())],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                env=_environment(folder),
                cwd=folder,
            )
        self.pid = self._process.pid
        self._stdin: Any = self._process.stdin  # IO[bytes]: the child has both pipes
        self._stdout: Any = self._process.stdout

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        Raises:
            EvaluatorError: The child has died.
        """
        try:
            self._stdin.write(json.dumps(message).encode() + b"\n")
            self._stdin.flush()
        except OSError:
            raise self._death() from None

    def receive(self) -> dict[str, Any]:
        """Wait for one message.

        Raises:
            EvaluatorError: The child has died, or has not answered within ``patience``.
        """
        deadline = time.monotonic() + self._patience
        while b"\n" not in self._unread:
            self._unread += self._read(deadline - time.monotonic())
        line, _, self._unread = self._unread.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Kill the child, which has nothing to clean up, and wait for its end."""
        self._process.kill()
        self._process.wait()
        for stream in (self._stdin, self._stdout):
            try:
                stream.close()
            except OSError:  # bytes that were still buffered for the dead child
                continue

    def _read(self, seconds: float) -> bytes:
        with selectors.DefaultSelector() as selector:
            selector.register(self._stdout, selectors.EVENT_READ)
            if seconds <= 0 or not selector.select(seconds):
                raise self._error(f"has not answered for {self._patience:.0f} s", transient=True)
        data = os.read(self._stdout.fileno(), 1 << 16)
        if not data:
            raise self._death()
        return data

    def _death(self) -> EvaluatorError:
        code = self._process.wait()
        if code < 0:
            name = next((known.name for known in signal.Signals if known == -code), f"signal {-code}")
            return self._error(f"was ended by {name}", transient=True)
        return self._error(f"ended with exit code {code}", transient=False)

    def _error(self, what: str, *, transient: bool) -> EvaluatorError:
        text = self._log.read_text(errors="replace").strip()
        free = shutil.disk_usage(self._log.parent).free
        if free <= FULL_DISK:  # its log may be empty for that reason
            return EvaluatorError(
                f"The process of Great Expectations {what}: there is no space left",
                found=f"{free >> 10} KiB free in {self._log.parent}",
                remedy="Free some space there, or set TMPDIR to a folder on a disk with more room.",
                transient=transient,
            )
        remedy = "This is a bug: please report it, with the suites."
        if transient:
            remedy = "Try again; the machine may be short of memory."
        elif "No module named" in text:
            remedy = "Install the dependencies as constraints.txt says."
        return EvaluatorError(
            f"The process of Great Expectations {what}",
            found="at the end of its log: " + text[-LONGEST_LOG:] if text else "nothing in its log",
            remedy=remedy,
            transient=transient,
        )


def _environment(home: Path) -> dict[str, str]:
    """Return an environment without secrets, settings of the user's Great Expectations, and telemetry."""
    kept = {
        name: value for name, value in os.environ.items() if name in KEPT_VARIABLES or name.startswith("LC_")
    }
    library = str(Path(partition_ops.__file__).parent.parent)
    paths = [library, os.environ.get("PYTHONPATH", "")]
    return {
        **kept,
        "HOME": str(home),
        "GX_ANALYTICS_ENABLED": "false",
        "PYTHONPATH": os.pathsep.join(filter(None, paths)),
        "PYTHONSAFEPATH": "1",
    }
