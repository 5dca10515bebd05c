"""Runs the fenced blocks of a page that needs no servers, in their order.

``bash exit code 3`` is a block whose last command must end with this code.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.command_line import Called
from tests.e2e.guide import blocks_of


def run_blocks(page: Path, called: Called) -> dict[str, Any]:
    """Run the blocks of a page in the working directory, and return the names that its Python defines.

    Commands of partition-ops run in this process, which saves most of their time.
    """
    names: dict[str, Any] = {}
    for block in blocks_of(page):
        if block.language == "python":
            assert not block.how
            exec(compile(block.text, str(page), "exec"), names)
        elif block.language == "bash":
            code = re.fullmatch(r"(?:exit code (\d+))?", block.how)
            assert code, block.how
            run_commands(block.text, called, code=int(code[1] or 0))
    return names


def run_commands(script: str, called: Called, *, code: int = 0) -> None:
    """Run the lines of a block; its last command of partition-ops must end with ``code``."""
    lines = script.replace("\\\n", " ").splitlines()
    ours = [number for number, line in enumerate(lines) if line.startswith("partition-ops ")]
    rest = ""
    for number, line in enumerate(lines):
        if number not in ours:
            rest += f"{line}\n"
            continue
        _shell(rest)
        rest = ""
        command, _, file = line.partition(" > ")
        done = called(*shlex.split(command, comments=True)[1:])
        assert done.returncode == (code if number == ours[-1] else 0), done.stderr
        if file:
            Path(file).write_text(done.stdout)
    _shell(rest)


def _shell(script: str) -> None:
    if script.strip():
        subprocess.run(["bash", "-euc", script], check=True, timeout=60)
