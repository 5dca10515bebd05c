"""Output of the command line: text for people on standard output, or one JSON document."""

from __future__ import annotations

import json
import logging
import re
import sys
import traceback
from pathlib import Path
from typing import Any

from partition_ops.errors import PartitionOpsError, VerificationError

MOST_CALLS = 10  # that a defect shows
CREDENTIALS = re.compile(r"(https?://)[^\s/'\"]*[^\s'\"]*@")


def without_credentials(text: str) -> str:
    """Return a text in which the URLs of servers have no user and no password."""
    return CREDENTIALS.sub(r"\1", text)


class LogFormatter(logging.Formatter):
    """The format of log lines: the message, without the credentials in URLs."""

    def format(self, record: logging.LogRecord) -> str:
        return without_credentials(super().format(record))


class Console:
    """Prints results and errors, for people or for machines.

    Args:
        as_json: Print nothing but one JSON document on standard output.
    """

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def line(self, text: str = "") -> None:
        """Print a line of the result, for people."""
        if not self._as_json:
            print(text, flush=True)

    def note(self, text: str) -> None:
        """Print a line on standard error."""
        print(without_credentials(text), file=sys.stderr, flush=True)

    def traceback(self) -> None:
        """Print the traceback of the error that is being handled."""
        self.note(traceback.format_exc())

    def last_calls(self, error: BaseException) -> None:
        """Print where an error was raised, the innermost call first: files and lines, and no values."""
        calls = traceback.extract_tb(error.__traceback__, limit=-MOST_CALLS)
        lines = [f"    {Path(one.filename).name}, line {one.lineno}, in {one.name}" for one in calls]
        self.note("\n".join(["  raised in:", *reversed(lines)]))

    def result(self, value: Any) -> None:
        """Print the result, for machines."""
        if self._as_json:
            print(json.dumps(value, indent=2))

    def failure(self, text: str) -> None:
        """Print an error without details."""
        if self._as_json:
            print(json.dumps({"error": {"problem": without_credentials(text)}}))
        self.note(f"partition-ops: {text}")

    def error(self, error: PartitionOpsError) -> None:
        """Print an error: the problem, what was found and expected, and the remedy."""
        if self._as_json:
            keys = ("problem", "found", "expected", "remedy")
            described = {key: getattr(error, key) for key in keys if getattr(error, key) is not None}
            kind = {"kind": type(error).__name__, "exit_code": error.exit_code}
            report = {"report": error.report} if isinstance(error, VerificationError) else {}
            print(json.dumps({"error": {**kind, **described}, **report}, default=str))
        problem, *details = error.lines()
        self.note("\n".join([f"partition-ops: error: {problem}", *details]))
