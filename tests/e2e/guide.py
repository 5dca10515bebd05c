"""Runs the fenced blocks of a guide page in order, as a reader with several machines would.

The word behind three backticks is the language; what follows it says how the block is run:

- nothing: in the reader's folder; all ``python`` blocks are one program;
- a file name: the block is that file;
- ``each machine``: once for each machine, at the same time, in a folder of the machine that has the files;
- ``each machine, in the background``: the same, without waiting for the end.
"""

from __future__ import annotations

import re
import shutil
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from local_stack.processes import Service, StackError, stop_together

FENCE = re.compile(r"^```(\w+) ?(.*?)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EACH, BACKGROUND = "each machine", "each machine, in the background"


@dataclass(frozen=True)
class Block:
    """One fenced block."""

    language: str
    how: str
    text: str


def blocks_of(page: Path) -> list[Block]:
    """The blocks of a page, in order."""
    text = page.read_text(encoding="utf-8")
    found = [Block(*match.groups()) for match in FENCE.finditer(text)]
    if 2 * len(found) != len(re.findall(r"^```", text, re.MULTILINE)):
        raise ValueError(f"{page} has a block that is not understood")
    return found


class Cluster:
    """Machines of a reader, all on this host; use `cluster`.

    Args:
        folder: The reader's folder; machine i has ``machine<i>`` in it.
        machines: How many.
        env: Environment of their processes.
    """

    def __init__(self, folder: Path, machines: int, env: Mapping[str, str]) -> None:
        self.folder = folder
        self.machines = range(machines)
        self._env = dict(env)
        self._services: list[Service] = []

    def write(self, name: str, text: str) -> None:
        """Give a file to all machines."""
        for folder in (self.folder, *map(self.home, self.machines)):
            folder.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)

    def home(self, machine: int) -> Path:
        return self.folder / f"machine{machine}"

    def start(self, script: str) -> list[Service]:
        """Start a shell script on every machine."""
        started = []
        for machine in self.machines:
            self.home(machine).mkdir(parents=True, exist_ok=True)
            started.append(self._shell(script, self.home(machine), {"MACHINE": str(machine)}))
        return started

    def run(self, script: str, *, seconds: float) -> None:
        """Run a shell script on every machine at the same time, to its end."""
        self.wait(self.start(script), seconds=seconds)

    def run_here(self, script: str, *, seconds: float) -> None:
        """Run a shell script in the reader's folder."""
        self.wait([self._shell(script, self.folder, {})], seconds=seconds)

    def wait(self, services: list[Service], *, seconds: float) -> None:
        """Wait until all have ended well; the first that fails ends the waiting for the others."""
        end = time.monotonic() + seconds
        left = list(services)
        while left:
            for service in left:
                if (status := service.status()) is not None and status != 0:
                    service.check()
            left = [service for service in left if service.status() is None]
            if time.monotonic() > end and left:
                left[0].wait_until_done(seconds=0)
            time.sleep(0.05)

    def stop(self) -> None:
        stop_together(self._services)

    def _shell(self, script: str, folder: Path, env: Mapping[str, str]) -> Service:
        command = ["bash", "-c", f"set -eu\ncd {folder}\n{script}"]
        log = self.folder / "logs" / f"{len(self._services)}.log"
        service = Service(f"A block in {folder.name}", command, env={**self._env, **env}, log=log)
        self._services.append(service)
        return service


@contextmanager
def cluster(folder: Path, machines: int, env: Mapping[str, str]) -> Iterator[Cluster]:
    """Machines whose processes all end with the context; ``CLUSTER`` in ``env`` names their memory."""
    made = Cluster(folder, machines, env)
    try:
        yield made
    finally:
        made.stop()
        for left in Path("/dev/shm").glob(f"machine*-{env['CLUSTER']}-*"):  # of servers that were killed
            left.unlink(missing_ok=True)


def two_servers(config: str, *, port: int) -> dict[str, str]:
    """Return the settings of dgl.distributed for two servers with a trainer each.

    Args:
        config: Path of the partition config on every machine.
        port: Where the trainers meet.
    """
    return {
        "DGL_DIST_MODE": "distributed",
        "DGL_IP_CONFIG": "ip_config.txt",
        "DGL_CONF_PATH": config,
        "DGL_GRAPH_FORMAT": "csc",
        "DGL_NUM_SERVER": "1",
        "DGL_NUM_CLIENT": "2",
        "DGL_NUM_SAMPLER": "0",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(port),
        "WORLD_SIZE": "2",
    }


def run_page(page: Path, reader: Cluster, ports: Mapping[str, str], *, seconds: float) -> dict[str, Any]:
    """Run a page.

    Args:
        page: The page.
        reader: Its machines; the working directory must be the reader's folder.
        ports: Free ports of this host, by the ports of the page.
        seconds: Limit of each block.

    Returns:
        The names that the ``python`` blocks have defined.
    """
    names: dict[str, Any] = {}
    background: list[Service] = []
    for block in blocks_of(page):
        text = block.text
        for port, free in ports.items():
            text = text.replace(port, free)
        if block.how == BACKGROUND:
            background += reader.start(text)
        elif block.how == EACH:
            reader.run(text, seconds=seconds)
        elif block.how:
            reader.write(block.how, text)
        elif block.language == "bash":
            reader.run_here(text, seconds=seconds)
        elif block.language == "python":
            exec(compile(text, str(page), "exec"), names)
    reader.wait(background, seconds=seconds)
    return names


def tools_on_path(path: str) -> str:
    """``PATH`` with the programs of this interpreter's environment first."""
    folder = Path(sys.executable).parent
    if shutil.which("partition-ops", path=str(folder)) is None:
        raise StackError(f"partition-ops is not installed in {folder}")
    return f"{folder}:{path}"
