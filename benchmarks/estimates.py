"""Compare ``partition-ops estimate`` with measurements of each stage.

    python -m benchmarks.estimates GRAPH [--num-parts 4] [--engine auto] [--num-hops 1] [--graph-formats coo]

Every stage runs in its own process with its own temporary folder, and then the whole job runs in one process.
Memory is the peak resident set of the process (``ru_maxrss``), mapped files included. Disk is the size of the
files that the stage leaves, scratch included; temporary files are sampled every 20 ms. The last columns are
the estimate over the measurement. Ratios above 1.5 or below its inverse are marked, and the exit code is then
1; memory and temporary files below 16 MiB and disk below 1 MiB are ignored.
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

FACTOR = 1.5
WATCH_SECONDS = 0.02
LEAST = {"memory": 16 << 20, "disk": 1 << 20, "temporary": 16 << 20}
PROGRAM = (sys.executable, "-m", "partition_ops.cli")


@dataclass(frozen=True)
class Measured:
    """Resources that a process used; bytes and seconds."""

    memory: int
    disk: int
    temporary: int
    seconds: float


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
    return Measured(usage.ru_maxrss * 1024, folder_bytes(output) - before, temporary, seconds)


def measure(
    graph: str, folder: Path, options: list[str], halo: list[str], stages: list[str]
) -> dict[str, Measured]:
    """Run every stage, then the whole job."""
    output = folder / "stages"
    where = [graph, "--output", str(output)]
    commands = {
        "validate": ["validate", *where],
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
    lines = [f"{'':10}" + "".join(f"{name + ' MiB':>24}{'':7}" for name in LEAST) + f"{'seconds':>14}"]
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
        lines.append(line + f"{stage['seconds']:7.1f} {found.seconds:7.1f}")
    return lines, good


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph")
    parser.add_argument("--num-parts", default="4")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--num-hops", default="1")
    parser.add_argument("--graph-formats", default="coo")
    args = parser.parse_args()
    options = ["--num-parts", args.num_parts, "--engine", args.engine]
    halo = ["--num-hops", args.num_hops, "--graph-formats", args.graph_formats]
    asked = [*PROGRAM, "estimate", args.graph, *options, *halo, "--json"]
    estimate = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        stages = [stage["stage"] for stage in estimate["stages"]]
        measured = measure(args.graph, Path(folder), options, halo, stages)
    lines, good = compare(estimate, measured)
    print(f"{args.graph}, {' '.join([*options, *halo])}; estimated, measured, and their ratio")
    print("\n".join(lines))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
