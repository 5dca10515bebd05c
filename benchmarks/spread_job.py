"""Compare a job on several small machines with the job on one large one: bytes, memory, processor time.

    python -m benchmarks.spread_job [--scale 10] [--machines 4] [--memory 1.3G] [--parts 8] [--folder DIR]

It needs root, iproute2, OpenMPI and the memory and cpuacct cgroups of version 1. `benchmarks.machines`
makes the machines of network namespaces; each has a cgroup with a limit of memory. The graph of
`benchmarks.mag_graph` in Parquet is on the S3 server of `local_stack`, outside of the machines. As in the
DAG, the tasks of ``validate``, ``prepare`` and ``convert`` are spread over the machines, each machine does
its own one after another, and the machines meet on S3; ``partition`` runs the engine ``two-level`` over MPI
with a rank on each; the other stages run on the first machine. Before, ``partition-ops run`` does the job
on one machine without a limit. Peaks are those of the largest process, with the pages of files that it has
mapped, and of the largest rank. With ``--output PATH``, the results also go to
``PATH.json`` and ``PATH.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.jobs import graph_at, say
from benchmarks.machines import Network, network
from benchmarks.processes import machine, measure
from benchmarks.s3_jobs import BUCKET, SOURCE, s3_copy
from partition_ops.artifacts.layout import MANIFEST
from partition_ops.artifacts.stage import find_stage
from partition_ops.options.values import build, parse_size

CGROUPS = Path("/sys/fs/cgroup")
SPREAD = ("validate", "prepare", "convert")
ENTER = """\
#!/bin/sh
echo $$ > {memory}/cgroup.procs && echo $$ > {processor}/cgroup.procs || exit 70
exec nsenter --net=/var/run/netns/{name} unshare --uts sh -c 'hostname {name}; exec "$0" "$@"' "$@"
"""
AGENT = """\
#!/bin/sh
host=$1
shift
exec {folder}/enter-$((${{host##*.}} - 1)) sh -c "$*"
"""
FIGURES = ("wall", "processor", "peak", "processes")
MEMORY_OF_RANKS = "largest memory of the MPI ranks in MiB: "


@dataclass
class Figures:
    """What a stage has taken.

    Attributes:
        wall: Seconds.
        processor: Processor seconds of all its processes.
        peak: Bytes, the largest process.
        processes: Number of processes, or of ranks.
    """

    wall: float = 0.0
    processor: float = 0.0
    peak: int = 0
    processes: int = 0


@dataclass(frozen=True)
class Machines:
    """The machines, and how to run commands on them.

    Attributes:
        made: Their network.
        folder: Has the scripts ``enter-0``, ``enter-1`` and so on, which run a command on a machine, and
            ``agent``, which OpenMPI calls instead of ssh.
    """

    made: Network
    folder: Path

    def cgroup(self, kind: str, number: int) -> Path:
        return CGROUPS / kind / self.made.namespace(number)

    def limit(self, number: int, memory: int) -> None:
        """Limit the memory of a machine; -1 for no limit."""
        (self.cgroup("memory", number) / "memory.limit_in_bytes").write_text(str(memory))

    def processor_seconds(self) -> float:
        """Return what all machines have used so far."""
        groups = (self.cgroup("cpuacct", number) for number in range(self.made.machines))
        return sum(int((group / "cpuacct.usage").read_text()) for group in groups) / 1e9

    def enter(self, number: int, command: Sequence[str]) -> list[str]:
        return [str(self.folder / f"enter-{number}"), *command]

    @property
    def mpirun(self) -> str:
        """The command that starts ranks over the network of the machines."""
        found = shutil.which("mpirun.openmpi") or shutil.which("mpirun") or "mpirun"
        network = "--mca btl tcp,self --mca btl_tcp_if_include eth0 --mca oob_tcp_if_include eth0"
        agent = f"--mca plm_rsh_agent {self.folder}/agent --mca mpi_yield_when_idle 1"
        return f"{found} --bind-to none {network} {agent}"

    def hostfile(self) -> Path:
        path = self.folder / "hosts"
        hosts = (f"{self.made.address(number)} slots=1\n" for number in range(self.made.machines))
        path.write_text("".join(hosts))
        return path


@contextmanager
def machines(made: Network, memory: int, folder: Path) -> Iterator[Machines]:
    """Make the cgroups and the scripts of machines, and remove the cgroups at the end."""
    found, numbers = Machines(made, folder), range(made.machines)
    groups = [found.cgroup(kind, number) for kind in ("memory", "cpuacct") for number in numbers]
    try:
        for group in groups:
            group.mkdir()
        for number in numbers:
            found.limit(number, memory)
            where = {"memory": found.cgroup("memory", number), "processor": found.cgroup("cpuacct", number)}
            _script(folder / f"enter-{number}", ENTER.format(name=made.namespace(number), **where))
        _script(folder / "agent", AGENT.format(folder=folder))
        yield found
    finally:
        for group in groups:
            with suppress(OSError):
                group.rmdir()


def _script(path: Path, text: str) -> None:
    path.write_text(text)
    path.chmod(0o755)


def options(parts: int, number: int, where: Machines) -> dict[str, Any]:
    """Return the options of the job on several machines; on one machine, only the first two count."""
    return {
        "num_parts": parts,
        "engine": "two-level",
        "validation_tasks": number,
        "prepare_tasks": number,
        "mpi_ranks": number,
        "hostfile": str(where.hostfile()),
        "mpirun": where.mpirun,
    }


def run_spread(where: Machines, chosen: dict[str, Any], output: str) -> dict[str, Figures]:
    """Run the job on all machines, and return the figures of its stages."""
    from partition_ops.jobs.options import RunConfig

    found: dict[str, Figures] = {}
    for stage in build(RunConfig, chosen).stages():
        found[stage.name] = figures = Figures()
        began, used = time.monotonic(), where.processor_seconds()
        say(stage.name)
        if stage.name in SPREAD:
            _tasks(where, chosen, output, stage.name, figures)
        text = _call(where, 0, chosen, output, stage.name, "", (), figures)
        figures.wall = time.monotonic() - began
        figures.processor = where.processor_seconds() - used
        ranks = [line.split(MEMORY_OF_RANKS)[1] for line in text.splitlines() if MEMORY_OF_RANKS in line]
        if ranks:
            memory = [int(one) for one in ranks[0].split(",")]
            figures.peak, figures.processes = max(memory) << 20, len(memory)
    return found


def _tasks(where: Machines, chosen: dict[str, Any], output: str, stage: str, figures: Figures) -> None:
    """Do the tasks of a stage that can be spread, a kind after the other, on all machines."""
    if stage == "convert":
        _call(where, 0, chosen, output, stage, find_stage(stage).tasks[0].name, (), figures)
    shares = json.loads(_call(where, 0, chosen, output, stage, "shares", (), figures).splitlines()[-1])
    for name, share in shares.items():
        with ThreadPoolExecutor(where.made.machines) as threads:

            def work(number: int, name: str = name, share: list[list[int]] = share) -> None:
                for numbers in share[number :: where.made.machines]:
                    _call(where, number, chosen, output, stage, name, numbers, figures)

            list(threads.map(work, range(where.made.machines)))


def _call(
    where: Machines,
    number: int,
    chosen: dict[str, Any],
    output: str,
    stage: str,
    name: str,
    numbers: Sequence[int],
    figures: Figures,
) -> str:
    """Run a task on a machine, as `do_task` says, and return what it prints."""
    words = [json.dumps(chosen), output, stage, name, *map(str, numbers)]
    command = [sys.executable, "-m", "benchmarks.spread_job", "--task", *words]
    cost = measure(where.enter(number, command))
    figures.peak, figures.processes = max(figures.peak, cost.peak), figures.processes + 1
    return cost.output


def do_task(chosen: str, output: str, stage_name: str, name: str, *numbers: str) -> None:
    """Do some tasks of a stage; without a name, the whole stage; ``shares`` prints who does which tasks."""
    import logging

    from partition_ops.jobs.one_stage import run_stage, run_task
    from partition_ops.jobs.options import RunConfig
    from partition_ops.storage import open_store

    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    stage = find_stage(stage_name)
    config = build(RunConfig, json.loads(chosen)).of(stage.config)
    with open_store(SOURCE) as source, open_store(output) as destination:
        if name == "shares":
            print(json.dumps(_shares(stage_name, config, source, destination)), flush=True)
        elif name:
            run_task(stage, name, config, source, destination, numbers=[*map(int, numbers)])
        else:
            run_stage(stage, config, source, destination)


def _shares(stage: str, config: Any, source: Any, destination: Any) -> dict[str, list[list[int]]]:
    """Return, by kind of task, the numbers of the tasks that share a process, as in the DAG."""
    from partition_ops.stages.convert.context import Conversion
    from partition_ops.stages.convert.plan import task_groups
    from partition_ops.stages.prepare import spread as prepare
    from partition_ops.stages.validate import spread as validate

    first, second = [task.name for task in find_stage(stage).tasks if task.each]
    if stage == "convert":
        groups = task_groups(Conversion(config, source, destination))
        return {first: groups.scatters, second: groups.gathers}
    spread = (validate if stage == "validate" else prepare).Spread(config, source, destination)
    return {first: spread.shares, second: spread.shares}


def run_alone(where: Machines, chosen: dict[str, Any], output: str) -> dict[str, Any]:
    """Run the job on the first machine, without a limit, and return its figures."""
    words = ["--num-parts", str(chosen["num_parts"]), "--engine", chosen["engine"]]
    cost = measure(where.enter(0, [sys.executable, "-m", "partition_ops.cli", "run", SOURCE, output, *words]))
    return {"wall": cost.wall, "processor": cost.cpu, "peak": cost.peak}


def artifacts(folder: Path) -> dict[str, str]:
    """Return the digests in the manifest of an output, by key."""
    manifest = json.loads((folder / MANIFEST).read_text())
    return {entry["key"]: entry["sha256"] for entry in manifest["artifacts"]}


def compare(made: Network, args: argparse.Namespace) -> dict[str, Any]:
    """Run both jobs, and return their figures."""
    graph = graph_at(args.folder, args.scale, "parquet")
    with (
        tempfile.TemporaryDirectory(prefix="spread-", dir=args.folder) as name,
        s3_copy(graph, Path(name), address=made.outside) as variables,
        machines(made, parse_size(args.memory), Path(name).absolute()) as where,
    ):
        os.environ |= variables
        chosen = options(args.parts, made.machines, where)
        where.limit(0, -1)
        say("one machine")
        alone = run_alone(where, chosen, f"s3://{BUCKET}/alone")
        where.limit(0, parse_size(args.memory))
        stages = run_spread(where, chosen, f"s3://{BUCKET}/spread")
        one, several = (artifacts(Path(name, "data", BUCKET, out)) for out in ("alone", "spread"))
    return {
        "machine": machine(),
        "scale": args.scale,
        "machines": made.machines,
        "memory of each": args.memory,
        "parts": args.parts,
        "alone": alone,
        "stages": {name: vars(figures) for name, figures in stages.items()},
        "artifacts": len(one),
        "different": sorted(key for key in {*one, *several} if one.get(key) != several.get(key)),
    }


def text_of(found: dict[str, Any]) -> str:
    """Return the figures as Markdown."""
    alone, stages, different = found["alone"], found["stages"], found["different"]
    total = sum(one["processor"] for one in stages.values())
    wall = sum(one["wall"] for one in stages.values())
    peak, count = (
        max(one["peak"] for one in stages.values()),
        sum(one["processes"] for one in stages.values()),
    )
    rows = [
        (name, one["wall"], one["processor"], one["peak"], one["processes"]) for name, one in stages.items()
    ]
    rows += [("all", wall, total, peak, count)]
    rows += [("one machine", alone["wall"], alone["processor"], alone["peak"], 1)]
    lines = [
        f"`python -m benchmarks.spread_job --scale {found['scale']:g}`: {found['machines']} machines of"
        f" {found['memory of each']}, {found['parts']} partitions, S3 to S3.",
        f"{len(different)} of {found['artifacts']} artifacts differ from those of one machine.",
        *(f"- {key}" for key in different),
        "",
        "| stage | wall s | processor s | largest process or rank, GiB | processes |",
        "|---|---:|---:|---:|---:|",
        *(f"| {name} | {a:.1f} | {b:.1f} | {c / 2**30:.2f} | {d} |" for name, a, b, c, d in rows),
        "",
        f"The largest process or rank has {peak / alone['peak']:.2f} of the memory of one machine, and all"
        f" together take {total / alone['processor']:.2f} of its processor time.",
        f"Machine: {found['machine']}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    if sys.argv[1:2] == ["--task"]:
        do_task(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--memory", default="1.3G", help="of each machine")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--folder", type=Path, default=Path(".local/bench"), help="folder of the graphs")
    parser.add_argument("--output", type=Path, help="path of the results, without .json and .md")
    parser.add_argument("--network", help=argparse.SUPPRESS)  # of the process on the switch
    args = parser.parse_args()
    if args.network is None:  # the S3 server, and what starts the tasks, are on the switch
        args.folder.mkdir(parents=True, exist_ok=True)
        graph_at(args.folder, args.scale, "parquet")
        with network(args.machines) as made:
            inside = ["nsenter", f"--net=/var/run/netns/{made.switch}"]
            words = [*sys.argv[1:], "--network", made.name]
            return subprocess.run([*inside, sys.executable, "-m", "benchmarks.spread_job", *words]).returncode
    found = compare(Network(args.network, args.machines), args)
    if args.output is not None:
        args.output.with_suffix(".json").write_text(json.dumps(found, indent=1) + "\n")
        args.output.with_suffix(".md").write_text(text_of(found))
    print(text_of(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
