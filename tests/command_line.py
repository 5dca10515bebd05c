"""The command line as a user calls it, in a process of its own; the fixture `called` does so in this one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

Called = Callable[..., subprocess.CompletedProcess[str]]


def call(*arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "partition_ops.cli", *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=120,
    )
