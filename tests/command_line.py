"""The command line as a user calls it, in a process of its own; the fixture `called` does so in this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from unittest.mock import patch

Called = Callable[..., subprocess.CompletedProcess[str]]


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "partition_ops.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )


UNBOUNDED = "import sys; from tests.command_line import run_unbounded; sys.exit(run_unbounded())"


def run_unbounded() -> int:
    """Run the command line of this process without a bound on its memory, which is less than imports take."""
    from partition_ops.cli import main

    with unbounded():
        return main()


@contextmanager
def unbounded() -> Iterator[None]:
    """Let ``--memory`` be what stages plan with, and no bound, so that they use the disk for small graphs."""
    with patch("partition_ops.cli.dispatch._bounded", lambda *given: nullcontext()):
        yield
