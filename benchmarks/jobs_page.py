"""The results of `benchmarks.jobs` on the pages: tables, figures in sentences, and curves.

    python -m benchmarks.jobs_page

It writes ``benchmarks/results/jobs.md`` and ``docs/images/benchmark.svg``. In README and the pages, it renews
what stands between ``<!-- jobs: NAME -->`` and ``<!-- end -->``: `table`, or one of `figures`. Korean pages
that were current stay so. A figure that the results do not have stays as it is.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from benchmarks.charts import panels

ROOT = Path(__file__).parents[1]
RESULTS, FILE = ROOT / "benchmarks/results", "jobs.json"
THEIRS, OURS, FAST = "partition_graph", "partition-ops", "partition-ops --effort fast"
S3 = "partition-ops, S3 to S3"
CHART = ROOT / "docs/images/benchmark.svg"
PAGES = ("README.md", "limits.md", "measurements.md", "operations.md")
SPEED = {"0.03/4": 1.2, "0.1/4": 1.5, "0.3/4": 3.0, "0.45/4": 3.5, "1/4": 6.0, "0.2/16": 1.5, "0.2/64": 1.2}
MEMORY = {"0.03/4": 0.7, "0.1/4": 0.5, "0.3/4": 0.35, "0.45/4": 0.35, "1/4": 0.25}
TENFOLD = "10/4"  # ten times scale 1
CUT, TIMES_TENFOLD, GB_TENFOLD, TIMES_S3 = 0.96, 10.0, 4.0, 1.8
MARKED = re.compile(r"(<!-- jobs: (.+?) -->)(.*?)(<!-- end -->)", re.DOTALL)
HEADS = {
    "en": ("M edges", "parts", "times as fast", "seconds", "GB", "% of the edges cut"),
    "ko": ("에지(백만)", "파티션", "속도(배)", "초", "GB", "잘린 에지(%)"),
}
Case = dict[str, Any]


def compared(results: dict[str, Any]) -> list[tuple[str, Case]]:
    """Return the cases that DGL also ran, by number of partitions and size."""
    both = [(key, case) for key, case in results["cases"].items() if THEIRS in case["jobs"]]
    return sorted(both, key=lambda item: (item[1]["parts"], item[1]["scale"]))


def ratios(case: Case) -> dict[str, float]:
    """Return speed, memory and cut of ours relative to theirs."""
    ours, theirs = case["jobs"][OURS], case["jobs"][THEIRS]
    return {
        "speed": theirs["cost"]["wall"] / ours["cost"]["wall"],
        "memory": ours["cost"]["peak"] / theirs["cost"]["peak"],
        "cut": ours["edge_cut"] / theirs["edge_cut"],
    }


def figures(results: dict[str, Any]) -> dict[str, str]:
    """Return the figures that sentences quote, by name."""
    found: dict[str, str] = {}
    for key, case in results["cases"].items():
        ours = case["jobs"][OURS]
        found[f"edges {key}"] = f"{case['edges'] / 1e6:.3g}"
        found[f"seconds {key}"] = _seconds(ours["cost"]["wall"])
        found[f"GB {key}"] = f"{ours['cost']['peak'] / 1e9:.2g}"
        found[f"core hours {key}"] = f"{ours['cost']['wall'] * case['machine']['cores'] / 3600:.1g}"
        if THEIRS in case["jobs"]:
            one = ratios(case)
            found[f"speed {key}"] = f"{one['speed']:.1f}"
            found[f"memory {key}"] = f"{one['memory']:.0%}".replace("%", " %")
            found[f"cut {key}"] = f"{one['cut']:.2f}"
        if S3 in case["jobs"]:
            on_s3 = case["jobs"][S3]["cost"]["wall"]
            found["seconds S3"] = _seconds(on_s3)
            found["times S3"] = f"{on_s3 / ours['cost']['wall']:.1f}"
    if TENFOLD in results["cases"]:
        found[f"times {TENFOLD}"] = f"{times_tenfold(results['cases']):.1f}"
    return found


def times_tenfold(cases: dict[str, Case]) -> float:
    """Return the time of ten times the graph over that of scale 1."""
    large, usual = (cases[key]["jobs"][OURS]["cost"]["wall"] for key in (TENFOLD, "1/4"))
    return float(large / usual)


def _seconds(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:.0f}"


def table(results: dict[str, Any], language: str = "en") -> list[str]:
    """Return seconds, memory and cut of theirs and ours at each size."""
    edges, parts, speed, *kinds = HEADS[language]
    head = [f"{kind}: `{name}`" for kind in kinds for name in (THEIRS, OURS)]
    lines = [f"| {edges} | {parts} | {speed} | " + " | ".join(head) + " |", "|" + "---:|" * (3 + len(head))]
    for _, case in compared(results):
        both = [case["jobs"][name] for name in (THEIRS, OURS)]
        cells = [
            f"{case['edges'] / 1e6:.1f}",
            f"{case['parts']}",
            f"{ratios(case)['speed']:.1f}",
            *(f"{job['cost']['wall']:.1f}" for job in both),
            *(f"{job['cost']['peak'] / 1e9:.2f}" for job in both),
            *(f"{job['edge_cut'] * 100:.1f}" for job in both),
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def page(results: dict[str, Any]) -> str:
    """Return all results as Markdown."""
    lines = [
        "Medians of rounds, with the least and the greatest wall time. Each round runs every row once.",
        "",
    ]
    for case in sorted(results["cases"].values(), key=lambda case: (case["scale"], case["parts"])):
        rounds = max(len(job["rounds"]) for job in case["jobs"].values())
        size = f"{case['edges'] / 1e6:.1f} M edges, {case['parts']} parts"
        lines += [f"## Scale {case['scale']:g}, {size}, rounds: {rounds}", ""]
        cores, memory = case["machine"]["cores"], case["machine"]["memory_gib"]
        note = f"; {case['note']}" if case["note"] else ""
        lines += [f"`{case['command']}`: {cores} cores, {memory} GiB{note}.", ""]
        lines += [*_jobs(case["jobs"]), "", *_stages(case["jobs"]), ""]
    return "\n".join([*lines, "## Targets", "", *_targets(results)]) + "\n"


def _jobs(jobs: dict[str, Any]) -> list[str]:
    lines = [
        "| | wall s | CPU s | peak GB | edge cut | worst type imbalance |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, job in jobs.items():
        cost = job["cost"]
        walls = sorted(one["wall"] for one in job["rounds"])
        wall = f"{cost['wall']:.1f} ({walls[0]:.1f} to {walls[-1]:.1f})"
        used = f"{wall} | {cost['cpu']:.1f} | {cost['peak'] / 1e9:.2f}"
        lines.append(f"| {name} | {used} | {job['edge_cut']:.2%} | {job['imbalance']:.3f} |")
    return lines


def _stages(jobs: dict[str, Any]) -> list[str]:
    mine = {name: job["stages"] for name, job in jobs.items() if "stages" in job}
    names = list(dict.fromkeys(stage for stages in mine.values() for stage in stages))
    lines = ["| seconds by stage | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for name, stages in mine.items():
        cells = (f"{stages[stage]:.1f}" if stage in stages else "" for stage in names)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _targets(results: dict[str, Any]) -> Iterator[str]:
    """Give the lines of a table of ratios to `partition_graph`, with their targets, and of other targets."""
    yield from ("| | target | measured | |", "|---|---:|---:|---|")
    cases = results["cases"]
    for key, case in compared(results):
        for name, limit in (("speed", SPEED.get(key)), ("memory", MEMORY.get(key)), ("cut", CUT)):
            if limit is not None:
                title = (
                    f"scale {case['scale']:g}, {case['parts']} parts: {name} relative to `partition_graph`"
                )
                yield _target(title, ratios(case)[name], limit, least=name == "speed")
        if FAST in case["jobs"]:
            title = f"scale {case['scale']:g}, {case['parts']} parts: cut relative to `--effort fast`"
            cuts = [case["jobs"][name]["edge_cut"] for name in (OURS, FAST)]
            yield _target(title, cuts[0] / cuts[1], 1.0)
    if "1/4" in cases:
        local = cases["1/4"]["jobs"][OURS]["cost"]["wall"]
        if S3 in cases["1/4"]["jobs"]:
            on_s3 = cases["1/4"]["jobs"][S3]["cost"]["wall"]
            yield _target("S3 to S3, time relative to the local job", on_s3 / local, TIMES_S3)
        if TENFOLD in cases:
            tenfold = cases[TENFOLD]["jobs"][OURS]["cost"]
            yield _target(
                "ten times the graph, time relative to scale 1", times_tenfold(cases), TIMES_TENFOLD
            )
            yield _target("ten times the graph, peak GB", tenfold["peak"] / 1e9, GB_TENFOLD)


def _target(title: str, value: float, limit: float, *, least: bool = False) -> str:
    reached = value >= limit if least else value <= limit
    return f"| {title} | {'≥' if least else '≤'} {limit:g} | {value:.2f} | {'' if reached else 'missed'} |"


def chart(results: dict[str, Any], path: Path) -> None:
    """Draw seconds, memory and cut against the number of edges, for the cases with four partitions."""
    from matplotlib.ticker import FuncFormatter, NullLocator

    cases = [case for _, case in compared(results) if case["parts"] == 4]
    values = {
        "whole job, seconds": lambda job: job["cost"]["wall"],
        "peak memory, GB": lambda job: job["cost"]["peak"] / 1e9,
        "edges cut, %": lambda job: job["edge_cut"] * 100,
    }
    lines = {"dgl.distributed.partition_graph": (THEIRS, "#9aa5b1"), "partition-ops": (OURS, "#1f6feb")}
    edges = [case["edges"] / 1e6 for case in cases]
    with panels(path, dict.fromkeys(values, "million edges"), (10, 3.2)) as axes:
        for axis, value in zip(axes, values.values(), strict=True):
            for label, (name, colour) in lines.items():
                drawn = [value(case["jobs"][name]) for case in cases]
                axis.plot(edges, drawn, marker="o", color=colour, label=label)
            axis.set_xscale("log")
            axis.set_xticks(edges)
            axis.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:.1f}" if x < 10 else f"{x:.0f}"))
            axis.xaxis.set_minor_locator(NullLocator())
            axis.set_ylim(bottom=0)
        axes[0].legend(frameon=False)


def with_results(text: str, results: dict[str, Any], language: str = "en") -> str:
    """Return a page with the results in place of older ones."""
    known = figures(results)

    def now(found: re.Match[str]) -> str:
        begin, name, before, end = found.groups()
        if name == "table":
            return f"{begin}\n\n" + "\n".join(table(results, language)) + f"\n\n{end}"
        return begin + known.get(name, before) + end

    return MARKED.sub(now, text)


def renew(results: dict[str, Any]) -> None:
    """Write the results to all pages and pictures of the repository."""
    (RESULTS / "jobs.md").write_text(page(results))
    chart(results, CHART)
    for name in PAGES:
        english, korean = ROOT / ("" if name == "README.md" else "docs") / name, ROOT / "docs/ko" / name
        command = [sys.executable, str(ROOT / "docs/korean.py")]
        older = subprocess.run(command, capture_output=True, text=True, check=False).stdout
        english.write_text(with_results(english.read_text(), results))
        korean.write_text(with_results(korean.read_text(), results, "ko"))
        if f"ko/{name}" not in older:
            subprocess.run([*command, name], check=True)


if __name__ == "__main__":
    renew(json.loads((RESULTS / FILE).read_text()))
