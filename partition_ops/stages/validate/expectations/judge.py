"""Great Expectations judges what was measured: the interface for the stage."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

from partition_ops.errors import InvalidInputError
from partition_ops.stages.validate.expectations.metrics import METRICS, Tables
from partition_ops.stages.validate.expectations.process import ChildProcess
from partition_ops.stages.validate.expectations.suites import Suite, all_suites, merge_suites
from partition_ops.stages.validate.expectations.verdict import Outcome, Verdict
from partition_ops.system.temporary_folders import temporary_folder

PATIENCE = 600.0


class Judge:
    """Checks tables of metrics against the expectation suites, ours and the user's.

    The child process with Great Expectations starts at once and is ready some seconds later, while the
    caller measures. Use it as a context: at its end the child is surely gone, and the Data Docs with it.
    One thread at a time.

    Args:
        suites: The user's suites; ours are always there. Expectations on the same table are judged
            together.
        patience: Seconds to wait for the child, for its start and for each verdict.

    Raises:
        InvalidInputError: A suite is not as its format says, or names an unknown table or column.

    Peak memory: the child takes about 400 MB, whatever the size of the graph.
    """

    def __init__(self, suites: Sequence[Path | Suite] = (), *, patience: float = PATIENCE) -> None:
        merged = merge_suites(all_suites(suites))
        self._scratch = temporary_folder()
        self._ready = False
        self._verdicts = 0
        self._child = ChildProcess(Path(self._scratch.name), patience=patience)
        try:
            self._child.send({"suites": merged})
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Judge:
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

        `judge` does that too; call it earlier to refuse a broken suite before measuring.

        Raises:
            InvalidInputError: An expectation has an unknown type or wrong arguments.
            JudgeError: The child has died.
        """
        if not self._ready:
            self._receive()
            self._ready = True

    def judge(self, tables: Tables) -> Verdict:
        """Validate the tables and write Data Docs.

        Args:
            tables: For each table of `METRICS` its rows, each with exactly the columns of the table; a
                table that is not there has no rows. None is a metric that was not measured, which meets
                every expectation on single values.

        Raises:
            InvalidInputError: An expectation has an unknown type or wrong arguments, or cannot be
                evaluated on its table.
            JudgeError: The child has died.
        """
        _check_tables(tables)
        self.wait_until_ready()
        self._verdicts += 1
        folder = Path(self._scratch.name) / f"verdict-{self._verdicts}"
        self._child.send(
            {"tables": {table: _plain(tables.get(table, [])) for table in METRICS}, "folder": str(folder)}
        )
        answer = self._receive()
        outcomes = [Outcome(**outcome) for outcome in answer["outcomes"]]
        return Verdict(outcomes, folder / "data_docs")

    def _receive(self) -> dict[str, Any]:
        answer = self._child.receive()
        if "refused" in answer:
            raise InvalidInputError(**answer["refused"])
        return answer


def _check_tables(tables: Tables) -> None:
    """Refuse tables that are not as `METRICS` says: a mistake in the code that measures."""
    for table, rows in tables.items():
        for row in rows:
            if set(row) != set(METRICS.get(table, ())):
                raise ValueError(f"table {table!r} has columns {sorted(row)}, not those of METRICS")


def _plain(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """NumPy's scalars as Python's."""
    return [
        {column: getattr(value, "item", lambda value=value: value)() for column, value in row.items()}
        for row in rows
    ]
