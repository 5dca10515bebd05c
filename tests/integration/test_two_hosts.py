"""The engine ``parmetis`` over two hosts: network namespaces with addresses and names of their own."""

from __future__ import annotations

import os
import secrets
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from partition_ops.artifacts import layout
from partition_ops.artifacts.assignment import read_assignment
from partition_ops.chunked.metadata import load_metadata
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.partition import partition_nodes
from partition_ops.stages.prepare.options import PrepareConfig
from partition_ops.stages.prepare.prepare import prepare_graph
from partition_ops.storage import open_store
from tests.graphs import library
from tests.mpi import needs_parmetis

pytestmark = pytest.mark.long

# what mpirun runs instead of ssh: enter the namespace of the address, note it, run the daemon
AGENT = """\
#!/bin/sh
host=$1; shift
case $host in *.1) space={name}a;; *.2) space={name}b;; *) exit 1;; esac
echo "$host" >>{log}
exec ip netns exec $space unshare --uts sh -c 'hostname "$0"; exec sh -c "$*"' "$space" "$*"
"""


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True, capture_output=True)


@pytest.fixture
def hosts() -> Iterator[tuple[str, str]]:
    """The prefix of the names of two namespaces, joined by a pair of devices, and that of their addresses."""
    name, net = f"po{secrets.token_hex(3)}", f"10.213.{secrets.randbelow(250)}"
    try:
        for side in "ab":
            ip("netns", "add", name + side)
        ip(
            "link",
            "add",
            name + "a",
            "netns",
            name + "a",
            "type",
            "veth",
            "peer",
            name + "b",
            "netns",
            name + "b",
        )
        for side, last in (("a", "1"), ("b", "2")):
            ip("-n", name + side, "addr", "add", f"{net}.{last}/24", "dev", name + side)
            for device in ("lo", name + side):
                ip("-n", name + side, "link", "set", device, "up")
        yield name, net
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"network namespaces cannot be made here: {getattr(error, 'stderr', b'') or error!r}")
    finally:
        for side in "ab":
            if Path(f"/run/netns/{name}{side}").exists():
                ip("netns", "del", name + side)


@needs_parmetis
@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2")
def test_ranks_on_two_hosts_give_what_they_give_on_one(hosts: tuple[str, str], tmp_path: Path) -> None:
    name, net = hosts
    log, agent, hostfile = tmp_path / "log", tmp_path / "agent", tmp_path / "hosts"
    agent.write_text(AGENT.format(name=name, log=log))
    agent.chmod(0o755)
    hostfile.write_text(f"{net}.1 slots=2\n{net}.2 slots=1\n")
    source = open_store(str(library(papers=8000).write(tmp_path / "in")))
    destination = open_store(str(tmp_path / "out"))
    prepare_graph(PrepareConfig(), source, destination)
    mpirun = (
        f"ip netns exec {name}a mpirun --bind-to none --mca plm_rsh_agent {agent} --mca btl tcp,self"
        f" --mca btl_tcp_if_include {net}.0/24 --mca oob_tcp_if_include {net}.0/24"
    )
    found = []
    for mpi in (MpiOptions(ranks=3), MpiOptions(ranks=3, hostfile=str(hostfile), mpirun=mpirun)):
        destination.delete([layout.record("partition")])
        partition_nodes(PartitionConfig(num_parts=3, engine="parmetis", mpi=mpi), source, destination)
        folder = destination.child(layout.ASSIGNMENT)
        found.append(read_assignment(folder, load_metadata(source)).parts)
    assert f"{net}.2" in log.read_text()
    np.testing.assert_array_equal(found[0], found[1])
