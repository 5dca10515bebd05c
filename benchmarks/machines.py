"""Several machines on one host: network namespaces on a bridge, with links of a limited rate.

`Network` needs root and iproute2. All its namespaces, with the bridge, are removed at its end; nothing
outside changes. A process that calls `enter` is on a machine: it has its network, and shared memory of its
own.
"""

from __future__ import annotations

import ctypes
import os
import re
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PREFIX = "partition-ops"
NEW_NETWORK, NEW_MOUNTS = 0x40000000, 0x00020000  # CLONE_NEWNET, CLONE_NEWNS
PRIVATE, RECURSIVE = 1 << 18, 1 << 14  # MS_PRIVATE, MS_REC
BURST, QUEUE = "64kb", 100  # of the token bucket: a segment of TCP, which a link does not send at once; ms


@dataclass(frozen=True)
class Network:
    """The names of a network.

    Attributes:
        name: Beginning of the names of its namespaces.
        machines: Number of machines.
    """

    name: str
    machines: int

    def address(self, machine: int) -> str:
        return f"10.77.0.{machine + 1}"

    def namespace(self, machine: int) -> str:
        return f"{self.name}-{machine}"

    @property
    def switch(self) -> str:
        """The namespace of the bridge."""
        return f"{self.name}-switch"

    @property
    def outside(self) -> str:
        """Address of the switch, where a server may be that all machines reach."""
        return "10.77.0.254"

    def on_switch(self, command: Sequence[str]) -> list[str]:
        """Return the command that runs another one on the switch."""
        return ["nsenter", f"--net=/var/run/netns/{self.switch}", *command]

    def limit(self, machine: int, rate: str, dilation: float = 1) -> None:
        """Limit what a machine sends, and what it receives, to a rate such as ``200mbit``.

        With a dilation, ``dilation`` seconds here count as one, so the link is slower by this factor.
        """
        number, unit = re.fullmatch(r"([\d.]+)([a-z]+)", rate).groups()
        slower, queue = f"{float(number) / dilation:g}{unit}", f"{QUEUE * dilation:g}ms"
        bucket = ["root", "tbf", "rate", slower, "burst", BURST, "latency", queue]
        for namespace, device in ((self.namespace(machine), "eth0"), (self.switch, f"port{machine}")):
            _run("tc", "-n", namespace, "qdisc", "replace", "dev", device, *bucket)

    def enter(self, machine: int) -> None:
        """Move this process, which must have one thread, to a machine.

        Raises:
            OSError: The kernel refuses it.
        """
        with Path("/var/run/netns", self.namespace(machine)).open() as file:
            _call("setns", file.fileno(), NEW_NETWORK)
        _call("unshare", NEW_MOUNTS)
        _call("mount", b"none", b"/", None, PRIVATE | RECURSIVE, None)
        _call("mount", b"tmpfs", b"/dev/shm", b"tmpfs", 0, b"size=50%")


@contextmanager
def network(machines: int) -> Iterator[Network]:
    """Make a network, and remove it at the end."""
    made = Network(f"{PREFIX}-{os.getpid()}", machines)
    try:
        _run("ip", "netns", "add", made.switch)
        _run("ip", "-n", made.switch, "link", "add", "bridge", "type", "bridge")
        _run("ip", "-n", made.switch, "link", "set", "bridge", "up")
        _run("ip", "-n", made.switch, "link", "set", "lo", "up")
        _run("ip", "-n", made.switch, "address", "add", f"{made.outside}/24", "dev", "bridge")
        for machine in range(machines):
            _add(made, machine)
        yield made
    finally:
        for namespace in (made.switch, *map(made.namespace, range(machines))):
            subprocess.run(["ip", "netns", "delete", namespace], stderr=subprocess.DEVNULL)


def _add(made: Network, machine: int) -> None:
    own, port = made.namespace(machine), f"port{machine}"
    _run("ip", "netns", "add", own)
    link = ["link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", own]
    _run("ip", "-n", made.switch, *link)
    _run("ip", "-n", made.switch, "link", "set", port, "master", "bridge", "up")
    _run("ip", "-n", own, "address", "add", f"{made.address(machine)}/24", "dev", "eth0")
    for device in ("lo", "eth0"):
        _run("ip", "-n", own, "link", "set", device, "up")


def transferred() -> tuple[int, int]:
    """Return the bytes that this machine's interface has received and sent."""
    for line in Path("/proc/self/net/dev").read_text().splitlines():
        device, _, figures = line.partition(":")
        if device.strip() == "eth0":
            numbers = figures.split()
            return int(numbers[0]), int(numbers[8])
    raise RuntimeError("This process is not on a machine")


def _run(*command: str) -> None:
    subprocess.run(command, check=True)


def _call(name: str, *arguments: object) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if getattr(libc, name)(*arguments):
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
