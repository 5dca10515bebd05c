"""Runs the fenced blocks of a page that needs no servers, in their order.

A word behind the language of a block says how it is run:

- ``exit code 3``: its last command must end with this code;
- ``with ParMETIS``: it needs that library;
- ``of …``, such as ``of the guide``: it belongs to another project and is only shown;
- ``not run``: it needs what tests do not have.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from tests.command_line import Called
from tests.e2e.guide import blocks_of
from tests.mpi import MISSING

PARMETIS = "with ParMETIS"
PROGRAMS = r"partition-ops |\.venv/bin/|make |docker |airflow |python -m |mpirun |curl |git |TOKEN=|\(cd "
INDENTED = re.compile(rf"^ {{4}}(?:{PROGRAMS}).*$", re.MULTILINE)


def run_blocks(page: Path, called: Called) -> dict[str, Any]:
    """Run the blocks of a page in the working directory, and return the names that its Python defines.

    Commands of partition-ops run in this process, which saves most of their time.
    """
    names: dict[str, Any] = {}
    for block in blocks_of(page):
        if block.how == "not run" or block.how.startswith("of ") or (block.how == PARMETIS and MISSING):
            continue
        if block.language == "python":
            assert not block.how
            exec(compile(block.text, str(page), "exec"), names)
        elif block.language == "bash":
            code = re.fullmatch(rf"(?:exit code (\d+)|{PARMETIS})?", block.how)
            assert code, block.how
            run_commands(block.text, called, code=int(code[1] or 0))
    return names


def indented_commands(page: Path) -> list[str]:
    """Return the lines with commands that a page shows as indented text, lines that go on joined."""
    text = page.read_text().replace("\\\n", " ")
    return [line.strip().removeprefix(".venv/bin/") for line in INDENTED.findall(text)]


def run_commands(script: str, called: Called, *, code: int = 0) -> None:
    """Run the lines of a block; its last command of partition-ops must end with ``code``."""
    lines = script.replace("\\\n", " ").splitlines()
    if "cd " in script or "mpirun" in script:
        return _shell(script)
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
            Path(file.partition(" #")[0].strip()).write_text(done.stdout)
    _shell(rest)


def _shell(script: str) -> None:
    """Run a script; each block begins in the reader's folder."""
    if script.strip():
        subprocess.run(["bash", "-euc", script], check=True, timeout=60)
