"""Compare ``partition-ops estimate`` with measurements of each stage.

    python -m benchmarks.estimates GRAPH [--num-parts 4] [--engine auto] [--num-hops 1] [--graph-formats coo]
    python -m benchmarks.estimates --real history,names [--num-parts 4] …
    python -m benchmarks.estimates … --output benchmarks/results

With ``--real``, the graphs are those of `benchmarks.real_graph_sources`; ``all`` means those that are the
same on every machine. Another process writes them, because the peak resident set of a process counts that
of the process that started it. Every stage runs in its own process with its own temporary folder, and then
the whole job runs in one process. Memory is the peak resident set of the process and those that it starts,
mapped files included; pages that they share count once. Disk is the size of the files that the stage leaves,
scratch included; temporary files are sampled every 20 ms. The columns with a ratio are the estimate over the
measurement. Ratios above 1.5 or below its inverse are marked, and the exit code is then 1; memory and
temporary files below 16 MiB, disk below 1 MiB and times below 3 s are ignored. The estimated seconds are
compared with those of the processors, because other processes disturb the clock: a quiet machine needs
between the seconds of all processors divided by their number, and all of them. With ``--output``,
``estimates.json`` and ``.md`` in that folder get the figures; those of other graphs and options that are
there already stay.
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

from benchmarks.processes import MemoryWatch, machine
from partition_ops.system.parallel import cores

FACTOR = 1.5
WATCH_SECONDS = 0.02
LEAST_SECONDS = 3.0
LEAST = {"memory": 16 << 20, "disk": 1 << 20, "temporary": 16 << 20}
# real graphs that are the same on every machine
REAL = ("coauthors", "includes", "history", "roads", "terrain", "names", "files", "objects", "binaries")
FIGURES = (*LEAST, "seconds")
Row = dict[str, Any]
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
        temporary, watch = 0, MemoryWatch(process.pid)
        while True:
            ended, status, usage = os.wait4(process.pid, os.WNOHANG)
            if ended:
                break
            temporary = max(temporary, folder_bytes(Path(scratch)) + nameless_bytes(process.pid, scratch))
            time.sleep(WATCH_SECONDS)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.monotonic() - began
        memory = max(usage.ru_maxrss * 1024, watch.stop()[0])
        if process.returncode:
            errors.seek(0)
            raise RuntimeError(f"{' '.join(command)} ended with {process.returncode}\n{errors.read()}")
    processor = usage.ru_utime + usage.ru_stime
    return Measured(memory, folder_bytes(output) - before, temporary, seconds, processor)


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


def compare(estimate: dict[str, Any], measured: dict[str, Measured]) -> list[Row]:
    """Return a row for each stage, with estimate, measurement and their ratio of each figure.

    A ratio is 1 if both are small. That of the seconds is 1 if the estimate lies between the seconds of all
    processors and those divided by their number.
    """
    rows = []
    for stage in (*estimate["stages"], estimate["whole"]):
        found = measured.get(stage["stage"])
        if found is None:
            continue
        # the whole job removes its scratch at the end
        scratch = 0 if stage["stage"] == "whole job" else stage["scratch"]
        said = {
            "memory": stage["memory"],
            "disk": stage["output"] + scratch,
            "temporary": stage["temporary"] + stage["cache"],
        }
        row: Row = {"stage": stage["stage"]}
        for name, least in LEAST.items():
            expected, real = said[name], getattr(found, name)
            ratio = expected / max(real, 1) if max(expected, real) >= least else 1.0
            row[name] = {"estimated": expected, "measured": real, "ratio": round(ratio, 3)}
        first, last = found.processor / cores(), found.processor
        nearest = min(max(stage["seconds"], first), last)
        row["seconds"] = {
            "estimated": round(stage["seconds"], 2),
            "clock": round(found.seconds, 2),
            "processor": round(found.processor, 2),
            "ratio": round(stage["seconds"] / nearest, 3) if last >= LEAST_SECONDS else 1.0,
        }
        rows.append(row)
    return rows


def good(row: Row) -> bool:
    """Return whether all ratios of a stage are within the factor."""
    return all(1 / FACTOR <= row[name]["ratio"] <= FACTOR for name in FIGURES)


def page(runs: list[Row]) -> str:
    """Return the results as Markdown."""
    every = [(run, row) for run in runs for row in run["stages"]]
    beyond = sum(not good(row) for _, row in every)
    lines = [
        "Estimated / measured on two cores, `python -m benchmarks.estimates --output benchmarks/results`."
        f" {len(runs)} jobs, {len(every)} rows; {beyond} with a factor above {FACTOR}. Memory (peak) and disk"
        " in MiB; seconds: estimated / on the clock / of all processors. With other work on the machine, the"
        " clock shows more than the job needs. A factor is 1 if both figures are small, and that of"
        " the seconds if the estimate lies between those of all processors and half of them.",
        "",
        "| graph | parts | " + " | ".join(f"worst factor of {name}" for name in FIGURES) + " |",
        "|---|---:|" + "---:|" * len(FIGURES),
    ]
    for run in runs:
        worst = [max((row[name]["ratio"] for row in run["stages"]), key=_factor) for name in FIGURES]
        lines.append(
            "| " + " | ".join([run["graph"], str(run["parts"]), *(f"{one:.2f}" for one in worst)]) + " |"
        )
    lines += ["", "| graph | stage | memory | disk | temporary | seconds | above the factor |"]
    lines += ["|---|---|---:|---:|---:|---:|---|"]
    for run, row in every:
        pairs = [(row[name]["estimated"], row[name]["measured"]) for name in LEAST]
        cells = [f"{said / 2**20:,.0f} / {found / 2**20:,.0f}" for said, found in pairs]
        times = row["seconds"]
        cells.append(f"{times['estimated']:.1f} / {times['clock']:.1f} / {times['processor']:.1f}")
        above = ", ".join(name for name in FIGURES if _factor(row[name]["ratio"]) > FACTOR)
        lines.append("| " + " | ".join([run["graph"], row["stage"], *cells, above]) + " |")
    return "\n".join(lines) + "\n"


def _factor(ratio: float) -> float:
    return max(ratio, 1 / max(ratio, 1e-9))


def keep(run: Row, folder: Path) -> None:
    """Add a run to the results, in place of an older one of the same graph and options."""
    path, same = folder / "estimates.json", ("graph", "options")
    runs = json.loads(path.read_text())["runs"] if path.exists() else []
    runs = [one for one in runs if any(one[name] != run[name] for name in same)] + [run]
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps({"machine": machine(), "runs": runs}, indent=1) + "\n")
    (folder / "estimates.md").write_text(page(runs))


def write_real(name: str, folder: str) -> None:
    """Write one of the real graphs."""
    from benchmarks.real_graph_sources import all_graphs
    from benchmarks.real_graphs import write_chunked

    write_chunked(next(all_graphs([name])), Path(folder))


def main() -> int:
    if sys.argv[1:2] == ["--write"]:
        write_real(*sys.argv[2:])
        return 0
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("graph", nargs="?")
    parser.add_argument("--real", help="names of real graphs, or 'all'")
    parser.add_argument("--num-parts", default="4")
    parser.add_argument("--engine", default="auto")
    parser.add_argument("--num-hops", default="1")
    parser.add_argument("--graph-formats", default="coo")
    parser.add_argument("--output", type=Path, help="folder of the results")
    args = parser.parse_args()
    options = ["--num-parts", args.num_parts, "--engine", args.engine]
    halo = ["--num-hops", args.num_hops, "--graph-formats", args.graph_formats]
    if not args.real:
        run = look(Path(args.graph).name, args.graph, options, halo, args.output)
        return 0 if all(map(good, run["stages"])) else 1
    runs = []
    for name in REAL if args.real == "all" else args.real.split(","):
        with tempfile.TemporaryDirectory() as folder:
            graph = str(Path(folder) / "graph")
            subprocess.run([sys.executable, "-m", __spec__.name, "--write", name, graph], check=True)
            runs.append(look(name, graph, options, halo, args.output))
    return 0 if all(good(row) for run in runs for row in run["stages"]) else 1


def look(name: str, graph: str, options: list[str], halo: list[str], results: Path | None) -> Row:
    """Estimate and measure one graph, print the figures, and add them to the results."""
    asked = [*PROGRAM, "estimate", graph, *options, *halo, "--json"]
    estimate = json.loads(subprocess.run(asked, check=True, capture_output=True, text=True).stdout)
    with tempfile.TemporaryDirectory() as folder:
        stages = [stage["stage"] for stage in estimate["stages"]]
        measured = measure(graph, Path(folder), options, halo, stages)
    rows = compare(estimate, measured)
    sizes = {"nodes": estimate["nodes"], "edges": estimate["edges"], "parts": estimate["num_parts"]}
    run = {"graph": name, "options": [*options, *halo], **sizes, "stages": rows}
    print(page([run]), flush=True)
    if results is not None:
        keep(run, results)
    return run


if __name__ == "__main__":
    sys.exit(main())
