"""Where the seconds of a job go, by stage: processor time, wall time and page faults, of two versions.

    git worktree add BEFORE COMMIT
    python -m benchmarks.job_stages GRAPH [--before BEFORE] [--rounds 3] [--note TEXT]

Both versions run in turns. The busy share is processor time over wall time and cores. On a machine that other
processes use too, processor time says more than these two; ``--note`` says so in the results.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve()
PARTS = 4
START = "start and exit"
FIGURES = ("user", "sys", "wall", "faults")
Figures = dict[str, float]


def used() -> Figures:
    """Return processor time and page faults of this process and its finished children, and the time."""
    usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    times = {"user": sum(one.ru_utime for one in usages), "sys": sum(one.ru_stime for one in usages)}
    return {**times, "wall": time.monotonic(), "faults": sum(one.ru_minflt for one in usages)}


class Stages:
    """Adds what is used between the starts of tasks to the stage that is at work."""

    def __init__(self) -> None:
        self.found: dict[str, Figures] = {}
        self._stage, self._last = START, {**dict.fromkeys(FIGURES, 0.0), "wall": time.monotonic()}
        self._lock = threading.Lock()

    def enter(self, task: str) -> None:
        """Begin the stage of a task; tasks of one stage overlap, and so do idmap and quality."""
        with self._lock:
            now = used()
            sums = self.found.setdefault(self._stage, dict.fromkeys(FIGURES, 0.0))
            for name in FIGURES:
                sums[name] += now[name] - self._last[name]
            self._stage, self._last = stage_of(task), now


def stage_of(task: str) -> str:
    if task.startswith(("convert-part", "convert-config")):
        return "gather"
    if task.startswith("convert"):
        return "scatter"
    return {"idmap": "idmap and quality", "quality": "idmap and quality", "schema": "validate"}.get(
        task, task
    )


def run_job(graph: str, output: str) -> None:
    """Run a job in this process, and print the figures by stage."""
    from partition_ops.artifacts.tasks import Task
    from partition_ops.cli import main as partition_ops

    stages, run = Stages(), Task.run

    def watched(task: Task) -> Any:
        stages.enter(task.name)
        return run(task)

    Task.run = watched  # type: ignore[method-assign]
    sys.argv = ["partition-ops", "run", graph, output, "--num-parts", str(PARTS)]
    partition_ops()
    stages.enter("")
    print("\n" + json.dumps(stages.found))


def measured(checkout: Path, graph: Path) -> dict[str, Figures]:
    """Return the figures of a job by stage, with the package of a checkout."""
    from benchmarks.processes import measure

    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, str(HERE), "--child", str(graph), f"{folder}/out"]
        cost = measure(words, {"PYTHONPATH": str(checkout)})
    found: dict[str, Figures] = json.loads(cost.output.splitlines()[-1])
    seen = sum(figures["user"] + figures["sys"] for figures in found.values())
    found[START]["user"] += cost.cpu - seen  # the end of the process
    found[START]["wall"] += cost.wall - sum(figures["wall"] for figures in found.values())
    whole = {name: sum(figures[name] for figures in found.values()) for name in FIGURES}
    return {**found, "whole job": {**whole, "peak": cost.peak}}


def median(rounds: list[dict[str, Figures]]) -> dict[str, Figures]:
    def of(stage: str, name: str) -> float:
        return statistics.median(one[stage][name] for one in rounds)

    return {stage: {name: of(stage, name) for name in figures} for stage, figures in rounds[-1].items()}


def page(results: dict[str, Any]) -> str:
    versions: dict[str, dict[str, Figures]] = results["versions"]
    lines = [f"`{results['command']}`: medians of {results['rounds']} rounds, in turns; {PARTS} parts"]
    lines += [results["note"], ""]
    kinds = ("user s", "sys s", "wall s", "busy", "thousand page faults")
    cells = [f"{name}: {kind}" for name in versions for kind in kinds]
    lines += ["| stage | " + " | ".join(cells) + " |", "|---|" + "---:|" * len(cells)]
    for stage in next(iter(versions.values())):
        row = []
        for found in versions.values():
            figures = found[stage]
            busy = (figures["user"] + figures["sys"]) / (figures["wall"] * results["cores"])
            row += [*(f"{figures[kind]:.1f}" for kind in ("user", "sys", "wall")), f"{busy:.0%}"]
            row.append(f"{figures['faults'] / 1000:.0f}")
        lines.append(f"| {stage} | " + " | ".join(row) + " |")
    peaks = [f"{name}: {found['whole job']['peak'] / 1e9:.2f} GB" for name, found in versions.items()]
    return "\n".join([*lines, "", f"Peak memory of all processes: {', '.join(peaks)}."]) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("graph", type=Path)
    parser.add_argument("--before", type=Path, help="checkout of an earlier version")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--note", default="", help="what to say about the machine")
    parser.add_argument("--output", type=Path, default=HERE.parent / "results")
    args = parser.parse_args()
    from benchmarks.processes import machine

    checkouts = {"now": HERE.parents[1], **({"before": args.before.absolute()} if args.before else {})}
    runs: dict[str, Callable[[], dict[str, Figures]]] = {
        name: (lambda folder=folder: measured(folder, args.graph.absolute()))  # type: ignore[misc]
        for name, folder in reversed(checkouts.items())
    }
    found: dict[str, list[dict[str, Figures]]] = {name: [] for name in runs}
    for _ in range(args.rounds):
        for name, run in runs.items():
            found[name].append(run())
    results = {
        "command": "python -m benchmarks.job_stages GRAPH" + (" --before BEFORE" if args.before else ""),
        "rounds": args.rounds,
        "cores": machine()["cores"],
        "note": args.note,
        "versions": {name: median(rounds) for name, rounds in found.items()},
    }
    (args.output / "job_stages.md").write_text(page(results))
    print(page(results), end="")


if __name__ == "__main__":
    if sys.argv[1:2] == ["--child"]:
        sys.path.pop(0)  # the folder of this file
        run_job(*sys.argv[2:])
    else:
        main()
