"""Compare ``partition-ops estimate`` with measurements of each stage.

    python -m benchmarks.estimates GRAPH [--num-parts 4] [--engine auto] [--num-hops 1] [--graph-formats coo]
    python -m benchmarks.estimates --real history,names [--num-parts 4] …

With ``--real``, the graphs are those of `benchmarks.real_graph_sources`; ``all`` means all of them. Every
stage runs in its own process with its own temporary folder, and then the whole job runs in one process.
Memory is the peak resident set of the process (``ru_maxrss``), mapped files included. Disk is the size of the
files that the stage leaves, scratch included; temporary files are sampled every 20 ms. The columns with a
ratio are the estimate over the measurement. Ratios above 1.5 or below its inverse are marked, and the exit
code is then 1; memory and temporary files below 16 MiB, disk below 1 MiB and times below 3 s are ignored. The
estimated seconds are compared with those on the clock and, because other processes disturb these, also with
those of the processors, which a quiet machine divides among all: an estimate is good if it lies between the
two, or within the factor of either.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from partition_ops.system.parallel import cores

FACTOR = 1.5
WATCH_SECONDS = 0.02
LEAST_SECONDS = 3.0
LEAST = {"memory": 16 << 20, "disk": 1 << 20, "temporary": 16 << 20}
PROGRAM = (sys.executable, "-m", "partition_ops.cli")


@dataclass(frozen=True)
class Measured:
    """Resources that a process and its children used; bytes and seconds, and those of all processors."""

    memory: int
    disk: int
    temporary: int
    seconds: float
    processor: float


def folder_bytes(folder: Path) -> int:
    """Return the bytes of the files below a folder; files may disappear meanwhile."""
    total = 0
    for place, _, names in os.walk(folder):
        for name in names:
            try:
                total += (Path(place) / name).stat().st_size
            except FileNotFoundError:
                continue
    return total


def nameless_bytes(pid: int, folder: str) -> int:
    """Return the bytes of deleted files of a folder that a process still has open."""
    total = 0
    for link in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = str(link.readlink())
            if target.startswith(folder) and target.endswith("(deleted)"):
                total += link.stat().st_size
        except OSError:
            continue
    return total


def run(command: list[str], output: Path) -> Measured:
    """Run one verb in its own process.

    Raises:
        RuntimeError: It failed.
    """
    before = folder_bytes(output)
    with tempfile.TemporaryDirectory() as scratch, tempfile.TemporaryFile("w+") as errors:
        began = time.monotonic()
        process = subprocess.Popen(
            [*PROGRAM, *command],
            env={**os.environ, "TMPDIR": scratch},
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        temporary = 0
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            temporary = max(temporary, folder_bytes(Path(scratch)) + nameless_bytes(process.pid, scratch))
            time.sleep(WATCH_SECONDS)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}\n{errors.read()}")
    processor = usage.ru_utime + usage.ru_stime
    return Measured(usage.ru_maxrss * 1024, folder_bytes(output) - before, temporary, seconds, processor)


def measure(
    graph: str, folder: Path, options: list[str], halo: list[str], stages: list[str]
) -> dict[str, Measured]:
    """Run every stage, then the whole job."""
    output = folder / "stages"
    where = [graph, "--output", str(output)]
    commands = {
        "validate": ["validate", *where, "--no-data-docs"],
        "prepare": ["prepare", *where],
        "partition": ["partition", *where, *options],
        "convert": ["convert", *where, *halo],
        "idmap": ["idmap", *where],
        "quality": ["quality", *where],
    }
    found = {name: run(commands[name], output) for name in commands if name in stages}
    whole = folder / "whole"
    return {**found, "whole job": run(["run", graph, str(whole), *options, *halo], whole)}


def compare(estimate: dict[str, Any], measured: dict[str, Measured]) -> tuple[list[str], bool]:
    """Return the lines of a table, and whether all ratios are within the factor."""
    lines = [f"{'':10}" + "".join(f"{name + ' MiB':>24}{'':7}" for name in LEAST)]
    lines[0] += f"{'seconds: estimated, clock, processor':>38}"
    good = True
    for stage in (*estimate["stages"], estimate["whole"]):
        found = measured.get(stage["stage"])
        if found is None:
            continue
        # the whole job removes its scratch at the end
        scratch = 0 if stage["stage"] == "whole job" else stage["scratch"]
        disk = stage["output"] + scratch
        said = {"memory": stage["memory"], "disk": disk, "temporary": stage["temporary"] + stage["cache"]}
        line = f"{stage['stage']:10}"
        for name, least in LEAST.items():
            expected, real = said[name], getattr(found, name)
            significant = max(expected, real) >= least
            factor = expected / max(real, 1) if significant else 1.0
            near = 1 / FACTOR <= factor <= FACTOR
            good &= near
            times = f"{factor:5.2f}{' ' if near else '!'}" if significant else "     -"
            line += f"{expected / 2**20:11,.0f} {real / 2**20:11,.0f}  {times} "
        least = min(found.seconds, found.processor / cores())
        most = max(found.seconds, found.processor)
        near = least / FACTOR <= stage["seconds"] <= most * FACTOR or most < LEAST_SECONDS
        good &= near
        times = f"{stage['seconds']:7.1f} {found.seconds:7.1f} {found.processor:7.1f}"
        lines.append(f"{line}{times}{' ' if near else '!'}")
    return lines, good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", nargs="?")
    parser.add_argument("--real", help="names of real graphs, or 'all'")
    parser.add_argument("--num-parts", default="4")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--num-hops", default="1")
    parser.add_argument("--graph-formats", default="coo")
    args = parser.parse_args()
    options = ["--num-parts", args.num_parts, "--engine", args.engine]
    halo = ["--num-hops", args.num_hops, "--graph-formats", args.graph_formats]
    if not args.real:
        return 0 if show(args.graph, args.graph, options, halo) else 1
    from benchmarks.real_graph_sources import all_graphs, builders
    from benchmarks.real_graphs import write_chunked

    good = True
    for graph in all_graphs([*builders(Path())] if args.real == "all" else args.real.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            good &= show(graph.name, str(write_chunked(graph, Path(folder) / "graph")), options, halo)
    return 0 if good else 1


def show(name: str, graph: str, options: list[str], halo: list[str]) -> bool:
    """Print the table of one graph; return whether all ratios are within the factor."""
    asked = [*PROGRAM, "estimate", graph, *options, *halo, "--json"]
    estimate = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        stages = [stage["stage"] for stage in estimate["stages"]]
        measured = measure(graph, Path(folder), options, halo, stages)
    lines, good = compare(estimate, measured)
    print(f"{name}, {' '.join([*options, *halo])}; estimated, measured, and their ratio")
    print("\n".join(lines), flush=True)
    return good


if __name__ == "__main__":
    sys.exit(main())
