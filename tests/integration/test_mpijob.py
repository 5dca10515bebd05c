"""The launcher and the workers of the template of an MPIJob, in network namespaces with sshd."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from graph_partitioning.operators.partition import PartitionNodesOperator

from partition_ops.artifacts import layout
from tests.airflow_tasks import TaskInstance
from tests.command_line import call
from tests.integration.test_two_hosts import hosts  # noqa: F401
from tests.integration.test_two_level_ranks import write_graph
from tests.mpi import needs_mpi
from tests.unit.project.test_mpijob_template import CONTAINERS, PROJECT, SSHD

pytestmark = [
    pytest.mark.long,
    needs_mpi,
    pytest.mark.skipif(os.geteuid() != 0 or shutil.which("ip") is None, reason="needs root and iproute2"),
    pytest.mark.skipif(not Path("/usr/sbin/sshd").exists(), reason="needs sshd"),
]


@contextmanager
def worker(namespace: str, config: Path, log: Path) -> Iterator[None]:
    """Run the sshd of a worker in a network namespace, on a host with its name."""
    Path("/run/sshd").mkdir(exist_ok=True)  # which sshd needs as root
    inside = f'hostname {namespace}; exec "$0" -De -f "$1"'
    command = [
        "ip",
        "netns",
        "exec",
        namespace,
        "unshare",
        "--uts",
        "sh",
        "-c",
        inside,
        "/usr/sbin/sshd",
        config,
    ]
    with log.open("wb") as stream, subprocess.Popen(command, stderr=stream) as process:
        try:
            deadline = time.monotonic() + 20
            while "listening" not in log.read_text():
                assert process.poll() is None and time.monotonic() < deadline, log.read_text()
                time.sleep(0.05)
            yield
        finally:
            process.terminate()


@dataclass(frozen=True)
class Hosts:
    """Two hosts, of which the second has sshd.

    Attributes:
        first: Namespace of the first.
        net: Beginning of the addresses.
        key: Private key for the second.
        hostfile: A rank on each.
        log: What sshd has written.
    """

    first: str
    net: str
    key: Path
    hostfile: Path
    log: Path


@pytest.fixture
def ranks(hosts: tuple[str, str], tmp_path: Path) -> Iterator[Hosts]:  # noqa: F811
    name, net = hosts
    keys, config, log = tmp_path / "ssh", tmp_path / "sshd_config", tmp_path / "log"
    keys.mkdir(mode=0o700)
    subprocess.run(["ssh-keygen", "-q", "-t", "ecdsa", "-N", "", "-f", keys / "id_rsa"], check=True)
    shutil.copy(keys / "id_rsa.pub", keys / "authorized_keys")
    config.write_text((PROJECT / SSHD).read_text().replace("/tmp/.ssh", str(keys)))
    hostfile = tmp_path / "hostfile"
    hostfile.write_text(f"{net}.1 slots=1\n{net}.2 slots=1\n")
    with worker(f"{name}b", config, log):
        yield Hosts(f"{name}a", net, keys / "id_rsa", hostfile, log)
    assert "Accepted publickey" in log.read_text()


def test_the_command_of_the_launcher_partitions_over_hosts_with_sshd(ranks: Hosts, tmp_path: Path) -> None:
    graph, out = tmp_path / "in", tmp_path / "out"
    write_graph(tmp_path, communities=True)
    shutil.rmtree(out)  # of the graph that it has prepared

    _, verb, *words = CONTAINERS["Launcher"]["args"]
    changes = {
        "s3://graphs/input/mag": str(graph),
        "s3://graphs/output/mag": str(out),
        "/etc/mpi/hostfile": str(ranks.hostfile),
    }
    words = [changes.get(word, word) for word in words]
    words[words.index("--mpi-ranks") + 1] = "2"
    where = words.index("--mpirun") + 1
    network = f"--mca btl_tcp_if_include {ranks.net}.0/24 --mca oob_tcp_if_include {ranks.net}.0/24"
    start = f"ip netns exec {ranks.first} mpirun {network}"
    words[where] = words[where].replace("mpirun", start, 1).replace("-p 2222", f"-p 2222 -i {ranks.key}")
    words[where] = words[where].replace("-x NUMBA_CACHE_DIR=/scratch/numba ", "")  # a folder of the pod
    words[where] = words[where].replace("-x TMPDIR=/scratch", f"-x TMPDIR={tmp_path}")
    done = call(verb, *words, "--on-defect", "exclude")
    assert done.returncode == 0, done.stderr
    assert "largest memory of the MPI ranks in MiB: " in done.stderr
    common = "--num-parts", 8, "--engine", "two-level", "--on-defect", "exclude"
    alone = call("run", graph, tmp_path / "alone", *common)
    assert alone.returncode == 0, alone.stderr
    assert parts(out) == parts(tmp_path / "alone")


def test_the_operator_starts_ranks_with_the_settings_of_the_environment(
    ranks: Hosts, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mpirun = tmp_path / "bin/mpirun.openmpi"  # a worker on the first host
    mpirun.parent.mkdir()
    mpirun.write_text(f'#!/bin/sh\nexec ip netns exec {ranks.first} {shutil.which("mpirun")} "$@"\n')
    mpirun.chmod(0o755)
    monkeypatch.setenv("PATH", f"{mpirun.parent}:{os.environ['PATH']}")
    ssh = f"-p 2222 -i {ranks.key} -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
    monkeypatch.setenv("OMPI_MCA_plm_rsh_args", ssh)
    monkeypatch.setenv("OMPI_MCA_btl_tcp_if_include", f"{ranks.net}.0/24")
    monkeypatch.setenv("OMPI_MCA_oob_tcp_if_include", f"{ranks.net}.0/24")
    monkeypatch.setenv("OMPI_MCA_mca_base_env_list", f"TMPDIR={tmp_path}")
    write_graph(tmp_path, communities=True)
    shutil.copytree(tmp_path / "out", tmp_path / "alone")
    where = {"input_uri": str(tmp_path / "in"), "num_parts": "4", "engine": "two-level"}
    over = {"mpi_ranks": "2", "hostfile": str(ranks.hostfile), "output_uri": str(tmp_path / "out")}
    result = TaskInstance().run(PartitionNodesOperator(task_id="partition", **where, **over))
    assert not result["skipped"]
    alone = PartitionNodesOperator(task_id="alone", output_uri=str(tmp_path / "alone"), **where)
    TaskInstance().run(alone)
    assert parts(tmp_path / "out") == parts(tmp_path / "alone")


def parts(output: Path) -> dict[str, bytes]:
    """The assignment in an output, without the options."""
    folder = output / layout.ASSIGNMENT
    found = {path.name: path.read_bytes() for path in folder.rglob("*.npy")}
    assert found
    return found
