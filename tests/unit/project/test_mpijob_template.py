"""The template of an MPIJob: options that exist, and the same ranks, user, image and paths everywhere."""

from __future__ import annotations

import re
import shlex
from typing import Any

import yaml

from local_stack.folders import PROJECT
from partition_ops.cli.dispatch import build_parser
from partition_ops.jobs.options import RunConfig
from partition_ops.options.arguments import check_arguments, config_of
from partition_ops.stages.partition.engine import find_engine
from partition_ops.stages.partition.mpi.options import MpiOptions
from partition_ops.stages.partition.options import PartitionConfig

TEMPLATE = PROJECT / "deploy/mpi/mpijob.yaml"
SSHD = "deploy/mpi/sshd_config"
JOB: dict[str, Any] = yaml.safe_load(TEMPLATE.read_text())
PODS = {name: one["template"]["spec"] for name, one in JOB["spec"]["mpiReplicaSpecs"].items()}
CONTAINERS = {name: pod["containers"][0] for name, pod in PODS.items()}


def launched() -> RunConfig:
    """The options of the launcher, as the command line takes them."""
    program, *words = CONTAINERS["Launcher"]["args"]
    assert program == "partition-ops"
    arguments = build_parser().parse_args(words)
    check_arguments(arguments)
    return config_of(arguments, RunConfig)


def test_the_launcher_has_a_rank_for_each_worker() -> None:
    replicas = JOB["spec"]["mpiReplicaSpecs"]
    assert (JOB["apiVersion"], JOB["kind"]) == ("kubeflow.org/v2beta1", "MPIJob")
    config = launched()
    mpi = config.own(MpiOptions)
    assert find_engine(config.engine).many_machines
    assert mpi.ranks == replicas["Worker"]["replicas"] * JOB["spec"]["slotsPerWorker"]
    assert mpi.hostfile == "/etc/mpi/hostfile"  # where the operator mounts it
    assert replicas["Launcher"]["replicas"] == 1


def test_the_verb_partition_takes_the_same_options() -> None:
    _, _, source, output, *words = CONTAINERS["Launcher"]["args"]
    for name in ("--validation-tasks", "--prepare-tasks"):
        at = words.index(name)
        words = words[:at] + words[at + 2 :]
    arguments = build_parser().parse_args(["partition", source, "--output", output, *words])
    check_arguments(arguments)
    assert config_of(arguments, PartitionConfig).own(MpiOptions) == launched().own(MpiOptions)


def test_ssh_finds_the_port_and_the_keys_of_the_workers() -> None:
    lines = (PROJECT / SSHD).read_text().splitlines()
    sshd = dict(line.split(maxsplit=1) for line in lines if line and not line.startswith("#"))
    words = shlex.split(launched().own(MpiOptions).mpirun or "")
    ssh = words[words.index("plm_rsh_args") + 1]
    assert f"-p {sshd['Port']} " in ssh
    assert CONTAINERS["Worker"]["readinessProbe"]["tcpSocket"]["port"] == int(sshd["Port"])
    keys = JOB["spec"]["sshAuthMountPath"]
    assert (sshd["HostKey"], sshd["AuthorizedKeysFile"]) == (f"{keys}/id_rsa", f"{keys}/authorized_keys")
    home = re.search(r"--home-dir (\S+)", (PROJECT / "Dockerfile").read_text())
    assert home is not None and keys == f"{home[1]}/.ssh"  # where the client looks


def test_the_image_has_what_the_pods_run() -> None:
    dockerfile = (PROJECT / "Dockerfile").read_text()
    assert CONTAINERS["Worker"]["command"] == ["sh", "-c"]
    copied, started = CONTAINERS["Worker"]["args"][0].split(" && ")
    assert started == f"exec /usr/sbin/sshd -De -f /opt/partition-ops/{SSHD}"
    loops = re.search(r"NUMBA_CACHE_DIR=(\S+) partition-ops compile", dockerfile)
    assert loops is not None and copied == f"cp -R {loops[1]} /scratch/numba"
    assert "-x NUMBA_CACHE_DIR=/scratch/numba " in (launched().own(MpiOptions).mpirun or "")
    assert f"!{SSHD}" in (PROJECT / ".dockerignore").read_text().splitlines()
    installed = re.search(r'if \[ "\$MPI" = 1 \]; then (.*); fi', dockerfile)
    assert installed is not None
    assert {"openmpi-bin", "openssh-client", "openssh-server"} <= {*installed[1].split()}
    assert "WORKDIR /opt/partition-ops" in dockerfile and 'ENTRYPOINT ["entrypoint"]' in dockerfile
    assert "command" not in CONTAINERS["Launcher"]  # so that the entrypoint makes folders below /scratch


def test_pods_run_as_the_user_of_the_image_with_memory_as_request_and_limit() -> None:
    values = yaml.safe_load((PROJECT / "deploy/helm/values.yaml").read_text())
    tag = values["images"]["airflow"]["tag"]
    for pod, container in zip(PODS.values(), CONTAINERS.values(), strict=True):
        assert pod["securityContext"] == values["securityContexts"]["pod"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert container["image"].endswith(f"/partition-ops:{tag}")
        resources = container["resources"]
        assert resources["requests"]["memory"] == resources["limits"]["memory"]
        mounts = {one["name"]: one["mountPath"] for one in container["volumeMounts"]}
        assert mounts == {"scratch": "/scratch"} and [one["name"] for one in pod["volumes"]] == ["scratch"]
