"""Runs the fenced blocks of a page that needs no servers, in their order.

A word behind the language of a block says how it is run:

- ``exit code 3``: its last command must end with this code;
- ``with ParMETIS``: it needs that library;
- ``of …``, such as ``of the guide``: it belongs to another project and is only shown.

Commands that stand as indented text are run too, but those of `NOT_RUN`.
"""

from __future__ import annotations

import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

from local_stack.folders import PROJECT
from tests.command_line import Called
from tests.e2e.guide import blocks_of
from tests.mpi import MISSING

PARMETIS = "with ParMETIS"
PROGRAMS = (
    r"partition-ops |\.venv/bin/|\.ci/|make |docker |airflow |python3? |mpirun |curl |git |TOKEN=|\(cd |aws |"
    r"kubectl |helm |systemd-run |pip "
)
INDENTED = re.compile(rf"^ {{4,}}(?:{PROGRAMS}).*$", re.MULTILINE)
IN_A_PROJECT = "tests/compose/test_compose.py does it in a project of its own, with Docker or Podman"
# indented commands that no test runs as they stand, and why
NOT_RUN = {
    "make install": "the environment of the tests has been installed by it",
    "make demo": "it installs an environment; tests/e2e runs the same DAG on the same services",
    "make env": "it writes .env into the checkout; test_compose_file.py calls its function",
    "make lock": "it installs the newest versions of all packages",
    "make test-compose": ".ci/test_compose runs it, with images that need no registry",
    ".ci/install_dgl2 && .venv/bin/python -m pytest tests/compat": ".ci/run runs the two one after the other",
    "make campaign": "it takes an hour; test_documentation.py runs attempts of it",
    "make reference": "it writes into docs/; tests compare what it writes with the docs",
    "docker build --build-arg MPI=1 --build-arg PIP_EXTRA_INDEX_URL=… -t …/partition-ops:0.2.0 .": (
        "a registry and an index of packages have to be filled in; .ci/test_compose builds the image"
    ),
    (
        "docker run --detach --network host --cap-drop ALL --volume ./mpi:/tmp/.ssh:ro "
        "--volume /var/tmp/ranks:/scratch --entrypoint /usr/sbin/sshd …/partition-ops:0.2.0 "
        "-De -f /opt/partition-ops/deploy/mpi/sshd_config"
    ): "it needs the image; test_mpijob.py runs sshd with this file",
    "docker compose up -d --scale worker=2": IN_A_PROJECT,
    "docker compose --profile demo run --rm demo": IN_A_PROJECT,
    "docker compose stop worker scheduler": IN_A_PROJECT,
    "docker compose exec postgres pg_dump -U airflow -Fc airflow > airflow.dump": IN_A_PROJECT,
    "git pull && make env && docker compose build": "it changes the checkout",
    (
        "partition-ops run graphs/mag out/mag --num-parts 8 --engine parmetis --mpi-ranks 4 "
        "--parmetis-library ~/local/lib/libparmetis.so --parmetis-index-bits 64"
    ): "it needs a library with 64-bit integers; test_parmetis_builds.py has a stand-in",
    "systemd-run --scope --property MemoryMax=4G partition-ops run my-graph out --num-parts 4": (
        "it needs systemd; the cases 'memory limit' of tests/campaign use a control group"
    ),
}


def run_blocks(page: Path, called: Called) -> dict[str, Any]:
    """Run the blocks of a page in the working directory, and return the names that its Python defines.

    Commands of partition-ops run in this process, which saves most of their time.
    """
    names: dict[str, Any] = {}
    for block in blocks_of(page):
        if block.how.startswith("of ") or (block.how == PARMETIS and MISSING):
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
    """Return the commands that a page shows as indented text, in one line each, without comments."""
    text = re.sub(r" *\\\n +", " ", page.read_text())
    return [re.sub(r" {1,}# .*$", "", line).strip() for line in INDENTED.findall(text)]


def commands_to_run(page: Path) -> list[str]:
    """Return the indented commands of a page that neither .ci/run itself runs nor `NOT_RUN` lists."""
    ci = (PROJECT / ".ci/run").read_text()
    known = {*NOT_RUN, *re.findall(r"(?:make|\.venv/bin/python) [\w/ .-]+?(?= *(?:#|$))", ci, re.MULTILINE)}
    return [line.removeprefix(".venv/bin/") for line in indented_commands(page) if line not in known]


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
