"""Compare a job on several small machines with the job on one large one: bytes, memory, processor time.

    python -m benchmarks.spread_job [--scale 10] [--machines 4] [--memory 1.3G] [--parts 8] [--kill]
        [--folder DIR]

It needs root, iproute2, OpenMPI and the memory and cpuacct cgroups of version 1. `benchmarks.machines`
makes the machines of network namespaces; each has a cgroup with a limit of memory. The graph of
`benchmarks.mag_graph` in Parquet is on the S3 server of `local_stack`, outside of the machines. As in the
DAG, the tasks of ``validate``, ``prepare`` and ``convert`` are spread over the machines, each machine does
its own one after another, and the machines meet on S3; ``partition`` runs the engine ``two-level`` over MPI
with a rank on each; the other stages run on the first machine. As with Airflow's preloaded workers, a worker
on each machine has imported what tasks need, and forks a process for each; its imports count. Before,
``partition-ops run`` does the job on one machine without a limit. Peaks are those of the largest process,
with the pages of files that it has mapped, and of the largest rank. *Sent* is what the machines have sent to
one another and to the server.

With ``--kill``, each kind of task and each stage is first begun on a machine whose processes are killed after
some seconds, and ``partition`` while a rank on another machine is killed. With ``--output PATH``, the results
also go to ``PATH.json`` and ``PATH.md``.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.jobs import graph_at, say
from benchmarks.machines import Network, network
from benchmarks.processes import fork, machine, measure, report
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
KILLED_AFTER = 4.0  # seconds
MEMORY_OF_RANKS = "largest memory of the MPI ranks in MiB: "


@dataclass
class Figures:
    """What a stage has taken.

    Attributes:
        wall: Seconds.
        processor: Processor seconds of all its processes.
        peak: Bytes, the largest process.
        processes: Number of processes, or of ranks.
        sent: Bytes that the machines have sent.
        kills: How often the processes of a machine were killed.
    """

    wall: float = 0.0
    processor: float = 0.0
    peak: int = 0
    processes: int = 0
    sent: int = 0
    kills: int = 0


@dataclass
class Worker:
    """A process on a machine that has imported what tasks need, and forks a process for each of its tasks.

    Attributes:
        command: Runs `work_on_tasks` on the machine.
    """

    command: list[str]
    _process: subprocess.Popen[str] | None = field(default=None, init=False)

    def do(self, words: Sequence[str]) -> dict[str, Any]:
        """Do tasks, see `do_task`; return ``peak``, the bytes of memory of their process, and its output."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True)
        to, answers = self._process.stdin, self._process.stdout
        if to is None or answers is None:
            raise RuntimeError("a worker has no pipes")
        to.write(json.dumps(list(words)) + "\n")
        to.flush()
        line = answers.readline()
        if not line:
            raise RuntimeError(f"the worker for {words[2:]} ended with {self._process.wait()}")
        answer: dict[str, Any] = json.loads(line)
        if answer["status"]:
            raise RuntimeError(f"{words[2:]} ended with {answer['status']}\n{answer['output'][-2000:]}")
        return answer

    def stop(self) -> None:
        """End the process, if there is one; the next task starts another."""
        if self._process is not None:
            self._process.communicate()
            self._process = None


def work_on_tasks() -> None:
    """Be the process of a `Worker`: read a line with the words of some tasks, and fork a process for them."""
    from graph_partitioning.preloading import library_modules, preload

    preload(library_modules())
    for line in sys.stdin:
        words = json.loads(line)
        with tempfile.TemporaryFile("w+") as printed:
            child = fork(partial(_do_printed, words, printed.fileno()))
            _, status, usage = os.wait4(child, 0)
            printed.seek(0)
            output = printed.read()
        found = {"status": os.waitstatus_to_exitcode(status), "peak": usage.ru_maxrss << 10, "output": output}
        print(json.dumps(found), flush=True)


def _do_printed(words: list[str], output: int) -> None:
    """Do tasks in a process that was forked for them, which prints to a file."""
    for stream in (1, 2):
        os.dup2(output, stream)
    do_task(*words)


@dataclass(frozen=True)
class Machines:
    """The machines, and how to run commands on them.

    Attributes:
        made: Their network.
        folder: Has the scripts ``enter-0``, ``enter-1`` and so on, which run a command on a machine, and
            ``agent``, which OpenMPI calls instead of ssh.
        workers: The worker of each machine.
    """

    made: Network
    folder: Path
    workers: list[Worker]

    def cgroup(self, kind: str, number: int) -> Path:
        return CGROUPS / kind / self.made.namespace(number)

    def limit(self, number: int, memory: int) -> None:
        """Limit the memory of a machine; -1 for no limit."""
        (self.cgroup("memory", number) / "memory.limit_in_bytes").write_text(str(memory))

    def processor_seconds(self) -> float:
        """Return what all machines have used so far."""
        groups = (self.cgroup("cpuacct", number) for number in range(self.made.machines))
        return sum(int((group / "cpuacct.usage").read_text()) for group in groups) / 1e9

    def sent(self) -> int:
        """Return the bytes that all machines have sent so far."""
        total = 0
        for number in range(self.made.machines):
            shown = ["ip", "-n", self.made.namespace(number), "-s", "-j", "link", "show", "eth0"]
            done = subprocess.run(shown, capture_output=True, check=True)
            total += int(json.loads(done.stdout)[0]["stats64"]["tx"]["bytes"])
        return total

    def processes(self, number: int) -> list[int]:
        """Return the processes of a machine."""
        found = (self.cgroup("memory", number) / "cgroup.procs").read_text().split()
        return [*map(int, found)]

    def kill(self, number: int) -> bool:
        """Kill the processes of a machine; return whether there were any."""
        found = self.processes(number)
        for process in found:
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        return bool(found)

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
    numbers = range(made.machines)
    scripts = [folder / f"enter-{number}" for number in numbers]
    words = [sys.executable, "-m", "benchmarks.spread_job", "--worker"]
    workers = [Worker([str(path), *words]) for path in scripts]
    found = Machines(made, folder, workers)
    groups = [found.cgroup(kind, number) for kind in ("memory", "cpuacct") for number in numbers]
    try:
        for group in groups:
            group.mkdir()
        for number in numbers:
            found.limit(number, memory)
            where = {"memory": found.cgroup("memory", number), "processor": found.cgroup("cpuacct", number)}
            _script(scripts[number], ENTER.format(name=made.namespace(number), **where))
        _script(folder / "agent", AGENT.format(folder=folder))
        yield found
    finally:
        for worker in workers:
            worker.stop()
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
        "convert_tasks": number,
        "mpi_ranks": number,
        "hostfile": str(where.hostfile()),
        "mpirun": where.mpirun,
    }


def run_spread(
    where: Machines, chosen: dict[str, Any], output: str, *, kill: bool = False
) -> dict[str, Figures]:
    """Run the job on all machines, and return the figures of its stages, without those of what is killed."""
    from partition_ops.jobs.options import RunConfig

    found: dict[str, Figures] = {}
    for stage in build(RunConfig, chosen).stages():
        found[stage.name] = figures = Figures()
        say(stage.name)
        work = StageWork(where, chosen, output, stage.name, figures, kill)
        if stage.name in SPREAD:
            work.do_tasks()
        work.do_last()
    return found


@dataclass(frozen=True)
class StageWork:
    """The work of a stage, on all machines."""

    where: Machines
    chosen: dict[str, Any]
    output: str
    stage: str
    figures: Figures = field(default_factory=Figures)
    kill: bool = False

    def do_tasks(self) -> None:
        """Do the tasks of a stage that can be spread, a kind after the other, on all machines."""
        machines = self.where.made.machines
        if self.stage == "convert":
            self._measured([(0, find_stage(self.stage).tasks[0].name, ())])
        shares = json.loads(self.where.workers[0].do(self._words("shares"))["output"].splitlines()[-1])
        for name, share in shares.items():
            if self.kill:
                self._killed(1, self._command(1, name, share[1 % len(share)]), 1)
            self._measured([(number % machines, name, numbers) for number, numbers in enumerate(share)])

    def do_last(self) -> None:
        """Do the task that ends a stage, or all of a stage that is not spread."""
        if self.kill:
            self._killed(0, self._command(0, ""), int(self.stage == "partition"))
        text = self._measured([(0, "", ())])
        ranks_memory = [
            line.split(MEMORY_OF_RANKS)[1] for line in text.splitlines() if MEMORY_OF_RANKS in line
        ]
        if ranks_memory:
            memory = [int(one) for one in ranks_memory[0].split(",")]
            self.figures.peak, self.figures.processes = max(memory) << 20, len(memory)

    def _words(self, name: str, numbers: Sequence[int] = ()) -> list[str]:
        """Return the arguments of `do_task` for some tasks."""
        return [json.dumps(self.chosen), self.output, self.stage, name, *map(str, numbers)]

    def _command(self, number: int, name: str, numbers: Sequence[int] = ()) -> list[str]:
        """Return the command that does some tasks on a machine, in a process of its own."""
        words = [sys.executable, "-m", "benchmarks.spread_job", "--task", *self._words(name, numbers)]
        return self.where.enter(number, words)

    def _measured(self, calls: list[tuple[int, str, Sequence[int]]]) -> str:
        """Do tasks, those of a machine one after another; return what the last one prints."""
        where, figures = self.where, self.figures
        os.sync()
        began, used, sent = time.monotonic(), where.processor_seconds(), where.sent()

        def work(machine: int) -> str:
            printed = ""
            for number, name, numbers in calls:
                if number == machine:
                    done = where.workers[machine].do(self._words(name, numbers))
                    figures.peak, printed = max(figures.peak, done["peak"]), done["output"]
                    figures.processes += 1
            return printed

        with ThreadPoolExecutor(where.made.machines) as threads:
            printed = [*threads.map(work, range(where.made.machines))]
        figures.wall += time.monotonic() - began
        figures.processor += where.processor_seconds() - used
        figures.sent += where.sent() - sent
        return next(filter(None, reversed(printed)), "")

    def _killed(self, number: int, command: list[str], victim: int) -> None:
        """Begin tasks on a machine, and kill the processes of a machine some seconds after they start."""
        self.where.workers[victim].stop()  # so that the machine has no process before
        with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.STDOUT) as process:
            while process.poll() is None and not self.where.processes(victim):
                time.sleep(0.1)
            with suppress(subprocess.TimeoutExpired):
                process.wait(KILLED_AFTER)
            killed = self.where.kill(victim)
            self.figures.kills += killed
            if killed and process.wait() == 0:
                problem = f"machine {victim} was killed, and machine {number} saw no error"
                raise RuntimeError(f"{self.stage}: {problem}")


def do_task(chosen: str, output: str, stage_name: str, name: str, *numbers: str) -> None:
    """Do some tasks of a stage; without a name, the whole stage; ``shares`` prints who does which tasks."""
    import logging

    from partition_ops.jobs.one_stage import run_stage, run_task
    from partition_ops.jobs.options import RunConfig
    from partition_ops.storage import open_store
    from partition_ops.system.memory import keep_freed_memory

    logging.basicConfig(level=logging.INFO, stream=sys.stdout, format="%(message)s")
    keep_freed_memory()  # as the operators do
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
        data = Path(name, "data", BUCKET)
        alone = run_alone(where, chosen, f"s3://{BUCKET}/alone")
        one = artifacts(data / "alone")
        shutil.rmtree(data / "alone")  # the disk may not have room for two outputs
        where.limit(0, parse_size(args.memory))
        stages = run_spread(where, chosen, f"s3://{BUCKET}/spread", kill=args.kill)
        several = artifacts(data / "spread")
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
    names = ("wall", "processor", "peak", "sent", "processes", "kills")
    every = {name: [one[name] for one in stages.values()] for name in names}
    all_of = {name: (max if name == "peak" else sum)(values) for name, values in every.items()}
    one_machine = {**alone, "sent": 0, "processes": 1, "kills": 0}
    rows = [*stages.items(), ("all", all_of), ("one machine", one_machine)]
    lines = [
        f"`python -m benchmarks.spread_job --scale {found['scale']:g}`: {found['machines']} machines of"
        f" {found['memory of each']}, {found['parts']} partitions, S3 to S3.",
        f"{len(different)} of {found['artifacts']} artifacts differ from those of one machine.",
        *(f"- {key}" for key in different),
        "",
        "| stage | wall s | processor s | largest process or rank, GiB | sent, MiB | processes | kills |",
        "|---|---:|---:|---:|---:|---:|---:|",
        *(
            f"| {name} | {one['wall']:.1f} | {one['processor']:.1f} | {one['peak'] / 2**30:.2f}"
            f" | {one['sent'] >> 20} | {one['processes']} | {one['kills']} |"
            for name, one in rows
        ),
        "",
        f"The largest process or rank has {all_of['peak'] / alone['peak']:.2f} of the memory of one machine,"
        f" and all together take {all_of['processor'] / alone['processor']:.2f} of its processor time.",
        "Pages of mapped files count, which the system keeps while there is memory: on one machine, they vary"
        " from run to run.",
        f"Machine: {found['machine']}.",
    ]
    return "\n".join(lines) + "\n"


def main() -> int:
    if sys.argv[1:2] == ["--task"]:
        do_task(*sys.argv[2:])
        return 0
    if sys.argv[1:2] == ["--worker"]:
        work_on_tasks()
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--scale", type=float, default=10)
    parser.add_argument("--machines", type=int, default=4)
    parser.add_argument("--memory", default="1.3G", help="of each machine")
    parser.add_argument("--parts", type=int, default=8)
    parser.add_argument("--kill", action="store_true", help="kill each kind of task and each stage first")
    parser.add_argument("--folder", type=Path, default=Path(".local/bench"), help="folder of the graphs")
    parser.add_argument("--output", type=Path, help="path of the results, without .json and .md")
    parser.add_argument("--network", help=argparse.SUPPRESS)  # of the process on the switch
    args = parser.parse_args()
    if args.network is None:  # the S3 server, and what starts the tasks, are on the switch
        args.folder.mkdir(parents=True, exist_ok=True)
        graph_at(args.folder, args.scale, "parquet")
        with network(args.machines) as made:
            words = [sys.executable, "-m", "benchmarks.spread_job", *sys.argv[1:], "--network", made.name]
            return subprocess.run(made.on_switch(words)).returncode
    found = compare(Network(args.network, args.machines), args)
    report(found, text_of(found), args.output)
    return 0


if __name__ == "__main__":
    sys.exit(main())
