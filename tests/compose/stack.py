"""docker-compose.yaml itself, brought up with Docker or with Podman."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from local_stack.env_file import make_env_file
from local_stack.folders import PROJECT
from local_stack.processes import free_port
from tests.compose.compose_file import COMPOSE, EXAMPLE, conditions, services, start_order

HEALTH_SECONDS = 600.0
ONCE_SECONDS = 600.0
NO_NAMES = "Temporary failure in name resolution"
NAMES_SECONDS = 60.0
NAME_SERVER = Path("/run/containers/networks/aardvark-dns/aardvark.pid")
PORTS = ("AIRFLOW_PORT", "S3_PORT", "S3_CONSOLE_PORT")


@dataclass(frozen=True)
class Stack:
    """A project of its own with settings of its own.

    Podman-compose cannot wait for health checks with older versions of Podman, and nobody runs them where
    there is no systemd. So with Podman the services are started here one by one, each when what its
    ``depends_on`` says is so.

    Attributes:
        project: Name of the project, and beginning of the names of containers and volumes.
        env_file: Settings.
        workers: Number of workers.
        engine: ``podman`` or ``docker``.
    """

    project: str
    env_file: Path
    workers: int = 2
    engine: str = field(default_factory=lambda: _engine())

    @property
    def settings(self) -> dict[str, str]:
        lines = (line.partition("=") for line in self.env_file.read_text().splitlines())
        return {name: value for name, found, value in lines if found and not name.startswith("#")}

    def build(self) -> None:
        """Make our own image, unless `tests.compose.images` has made it."""
        name = services()["worker"]["image"]
        if subprocess.run([self.engine, "image", "inspect", name], capture_output=True).returncode != 0:
            self.compose("build")

    def up(self) -> None:
        """Start everything and wait until every health check passes."""
        if self.engine == "docker":
            self.compose("up", "--detach", "--wait", "--scale", f"worker={self.workers}")
            return
        for name in start_order({"minio"}):
            self.start(name)
        for name, service in services().items():
            if "healthcheck" in service:
                self.wait_healthy(name)

    def start(self, name: str) -> None:
        """Start one service when what it waits for is so; with Podman, which does not do this itself."""
        for other, condition in conditions(services()[name]).items():
            if condition == "service_healthy":
                self.wait_healthy(other)
            elif condition == "service_completed_successfully":
                self.wait_done(other)
        self.compose(
            "--profile",
            "demo",
            "up",
            "--detach",
            "--no-deps",
            "--no-build",
            "--scale",
            f"worker={self.workers}",
            name,
        )
        if self.engine == "podman" and "healthcheck" in services()[name]:
            for container in self.containers(name):
                self._wait_for_names(container, name)

    def interrupt(self, service: str, seconds: float) -> None:
        """Kill the containers of a service, start them again after some time, and wait for their health."""
        for container in self.containers(service):
            self.run("kill", "--signal", "KILL", container)
        time.sleep(seconds)
        for container in self.containers(service):
            self.run("start", container)
            if self.engine == "podman":
                self._wait_for_names(container, service)
        self.wait_healthy(service)

    def _wait_for_names(self, container: str, name: str) -> None:
        """See to it that containers find each other by name.

        Podman's name server ends with its last network. Until somebody has taken note of its end, which may
        take long where process 1 is no init, Podman takes it for alive and starts no other.
        """
        end = time.monotonic() + NAMES_SECONDS
        asked = ["exec", container, "getent", "hosts", f"{name}.dns.podman"]
        while subprocess.run([self.engine, *asked], capture_output=True).returncode != 0:
            assert time.monotonic() < end, f"{container} does not find {name} by its name"
            NAME_SERVER.unlink(missing_ok=True)
            self.run("network", "reload", container)
            time.sleep(1)

    def down(self) -> None:
        """Take containers and networks away; volumes with names of their own stay."""
        scratch = {name for name in self._volumes() if not name.startswith(self.project)}
        self.compose("--profile", "minio", "--profile", "demo", "down")
        # what podman-compose leaves behind: all workers but the first, the network that they are in, /scratch
        for container in self.containers():
            self.run("rm", "--force", "--time", "10", container)
        self._discard("network", [f"{self.project}_default"])
        self._discard("volume", sorted(scratch))

    def remove(self) -> None:
        """Take everything away, data included."""
        volumes = sorted(self._volumes())
        self.down()
        self._discard("volume", volumes)

    def _volumes(self) -> set[str]:
        mounts = [mount for name in self.containers() for mount in self.inspect(name)["Mounts"]]
        return {str(mount["Name"]) for mount in mounts if mount["Type"] == "volume"}

    def _discard(self, kind: str, names: list[str]) -> None:
        """Remove what is still there."""
        for name in names:
            subprocess.run([self.engine, kind, "rm", name], capture_output=True)

    def compose(self, *arguments: str) -> str:
        """Run one command of Compose in the project.

        Raises:
            AssertionError: It failed.
        """
        tool = ["docker", "compose"] if self.engine == "docker" else [_beside_python("podman-compose")]
        command = [
            *tool,
            "-f",
            str(COMPOSE),
            "--env-file",
            str(self.env_file),
            "-p",
            self.project,
            *arguments,
        ]
        done = subprocess.run(command, capture_output=True, text=True, cwd=PROJECT)
        assert done.returncode == 0, f"{arguments}: {done.stdout}\n{done.stderr}"
        return done.stdout

    def containers(self, service: str | None = None) -> list[str]:
        """Names of the containers of a service, or of all."""
        label = f"com.docker.compose.project={self.project}"
        filters = ["--filter", f"label={label}"]
        if service:
            filters += ["--filter", f"label=com.docker.compose.service={service}"]
        return sorted(self.run("ps", "--all", "--format", "{{.Names}}", *filters).split())

    def inspect(self, container: str) -> dict[str, Any]:
        (found,) = json.loads(self.run("inspect", "--type", "container", container))
        return dict(found)

    def run(self, *arguments: str) -> str:
        """Run one command of the engine itself."""
        done = subprocess.run([self.engine, *arguments], capture_output=True, text=True)
        assert done.returncode == 0, f"{arguments}: {done.stderr}"
        return done.stdout

    def execute(self, container: str, *command: str) -> str:
        return self.run("exec", container, *command)

    def healthy(self, container: str) -> bool:
        """Run a health check now, or ask for the outcome of the last one."""
        if self.engine == "docker":
            return str(self.inspect(container)["State"]["Health"]["Status"]) == "healthy"
        check = subprocess.run([self.engine, "healthcheck", "run", container], capture_output=True)
        return check.returncode == 0

    def wait_healthy(self, service: str) -> None:
        end = time.monotonic() + HEALTH_SECONDS
        for container in self.containers(service):
            while not self.healthy(container):
                assert time.monotonic() < end, f"{container} is not healthy\n{self.log(container)}"
                time.sleep(1)

    def wait_done(self, service: str, seconds: float = ONCE_SECONDS) -> str:
        """Wait for the end of a service that runs once, and return its log."""
        (container,) = self.containers(service)
        end = time.monotonic() + seconds
        attempts = 3  # Podman's name server may know the others later than the container asks
        while True:
            state = self.inspect(container)["State"]
            if state["Status"] in ("exited", "stopped"):
                attempts -= 1
                if state["ExitCode"] == 0 or not attempts or NO_NAMES not in self.log(container, lines=1000):
                    break
                for other in self.containers("postgres"):
                    self._wait_for_names(other, "postgres")
                self.run("start", container)
            assert time.monotonic() < end, f"{container} goes on\n{self.log(container)}"
            time.sleep(1)
        assert state["ExitCode"] == 0, self.log(container)
        return self.log(container, lines=1000)

    def log(self, container: str, lines: int = 40) -> str:
        command = [self.engine, "logs", "--tail", str(lines), container]
        done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.stdout


def make_stack(folder: Path, project: str, **changes: str) -> Stack:
    """Settings with new secrets, free ports and some values of one's own."""
    env_file = folder / "compose.env"
    ports = {name: str(free_port()) for name in PORTS}
    chosen = {**ports, **changes}
    env_file.write_text("".join(f"{name}={value}\n" for name, value in chosen.items()))
    make_env_file(EXAMPLE, env_file)
    return Stack(project, env_file)


def _engine() -> str:
    """Docker where its Compose works, else Podman.

    Raises:
        RuntimeError: There is neither.
    """
    docker = ["docker", "compose", "version"], ["docker", "info"]
    if shutil.which("docker") and all(_works(command) for command in docker):
        return "docker"
    if shutil.which("podman"):
        return "podman"
    raise RuntimeError("Neither Docker with Compose nor Podman was found")


def _works(command: list[str]) -> bool:
    return subprocess.run(command, capture_output=True).returncode == 0


def _beside_python(program: str) -> str:
    return str(Path(sys.executable).parent / program)
