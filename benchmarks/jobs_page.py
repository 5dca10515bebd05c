"""The results of `benchmarks.jobs` as Markdown and as a chart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

THEIRS, OURS = "dgl partition_graph", "partition-ops auto"
LIMITS = (  # targets, as ratios at scale 1
    ("whole job, speed relative to partition_graph", "wall", 6.0, True),
    ("peak memory relative to partition_graph", "peak", 0.25, False),
    ("edge cut relative to partition_graph", "edge_cut", 0.91, False),
)


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    cores, memory = results["machine"]["cores"], results["machine"]["memory_gib"]
    lines = [
        f"`{results['command']}`: {cores} cores, {memory} GiB. Medians, with the least and the greatest wall"
        " time. Each round runs every row once.",
        "",
    ]
    for scale, found in results["scales"].items():
        rounds = len(next(iter(found["jobs"].values()))["rounds"])
        title = f"## Scale {scale}, {found['parts']} parts, the whole job, {rounds} rounds"
        lines += [title, "", *_jobs(found["jobs"]), ""]
        lines += [*_stages(found["jobs"]), ""]
        if "partitioning" in found:
            lines += ["Partitioning only, without the start of the process:", ""]
            lines += [*_partitioning(found["partitioning"]), ""]
    if "1" in results["scales"]:
        lines += ["## Targets at scale 1", "", *_ratios(results)]
    return "\n".join(lines) + "\n"


def _jobs(jobs: dict[str, Any]) -> list[str]:
    lines = [
        "| | wall s | CPU s | peak GB | edge cut | worst type imbalance |",
        "|---|---:|---:|---:|---:|---:|",
    ]
    for name, job in jobs.items():
        cost = job["cost"]
        walls = sorted(one["wall"] for one in job["rounds"])
        wall = f"{cost['wall']:.1f} ({walls[0]:.1f} to {walls[-1]:.1f})"
        figures = f"{wall} | {cost['cpu']:.1f} | {cost['peak'] / 1e9:.2f}"
        lines.append(f"| {name} | {figures} | {job['edge_cut']:.2%} | {job['imbalance']:.3f} |")
    return lines


def _stages(jobs: dict[str, Any]) -> list[str]:
    mine = {name: job["stages"] for name, job in jobs.items() if "stages" in job}
    names = list(dict.fromkeys(stage for stages in mine.values() for stage in stages))
    lines = ["| seconds by stage | " + " | ".join(names) + " |", "|---|" + "---:|" * len(names)]
    for name, stages in mine.items():
        cells = (f"{stages[stage]:.1f}" if stage in stages else "" for stage in names)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return lines


def _partitioning(found: dict[str, Any]) -> list[str]:
    lines = ["| | s | peak GB | edge cut | worst type imbalance |", "|---|---:|---:|---:|---:|"]
    for name, one in found.items():
        figures = f"{one['seconds']:.1f} | {one['cost']['peak'] / 1e9:.2f}"
        lines.append(f"| {name} | {figures} | {one['edge_cut']:.2%} | {one['imbalance']:.3f} |")
    return lines


def _ratios(results: dict[str, Any]) -> list[str]:
    scales = results["scales"]
    jobs, alone = scales["1"]["jobs"], scales["1"]["partitioning"]
    theirs, ours = ({**jobs[name]["cost"], **jobs[name]} for name in (THEIRS, OURS))
    lines = ["| | target | measured |", "|---|---:|---:|"]
    for title, figure, limit, more in LIMITS:
        ratio = theirs[figure] / ours[figure] if more else ours[figure] / theirs[figure]
        lines.append(f"| {title} | {'≥' if more else '≤'} {limit:g} | {ratio:.2f} |")
    lines.append(f"| worst type imbalance | ≤ 1.05 | {ours['imbalance']:.3f} |")
    lines.append(f"| processor time of the whole job, s | ≤ 20 | {ours['cpu']:.1f} |")
    busy = ours["cpu"] / (ours["wall"] * results["machine"]["cores"])
    lines.append(f"| share of the time that the cores are busy | ≥ 0.8 | {busy:.2f} |")
    faster = alone["metis"]["seconds"] / alone["two-level"]["seconds"]
    lines.append(f"| partitioning, speed relative to METIS with the same constraints | ≥ 5 | {faster:.1f} |")
    on_s3 = jobs.get(f"{OURS}, S3 to S3")
    if on_s3:
        slower = on_s3["cost"]["wall"] / ours["wall"]
        lines.append(f"| S3 to S3, time relative to the local run | ≤ 2 | {slower:.2f} |")
    if "10" in scales:
        tenfold = scales["10"]["jobs"]
        lines.append(f"| tenfold graph, peak GB | ≤ 6 | {tenfold[OURS]['cost']['peak'] / 1e9:.1f} |")
        for name, job in tenfold.items():
            title = f"tenfold graph{name.removeprefix(OURS)}, time relative to scale 1"
            lines.append(f"| {title} | ≤ 10.5 | {job['cost']['wall'] / ours['wall']:.1f} |")
    return lines


def chart(results: dict[str, Any], path: Path) -> None:
    """Draw wall time, peak memory and edge cut at the largest scale that DGL also ran."""
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "partition-ops"
    from matplotlib import pyplot as plt

    both = {scale: found for scale, found in results["scales"].items() if THEIRS in found["jobs"]}
    if not both:
        return
    scale = max(both, key=float)
    jobs = {name: job for name, job in both[scale]["jobs"].items() if "random" not in name}
    figures = {
        "whole job, seconds": lambda job: job["cost"]["wall"],
        "peak memory, GB": lambda job: job["cost"]["peak"] / 1e9,
        "edges cut, %": lambda job: job["edge_cut"] * 100,
    }
    drawing, axes = plt.subplots(1, len(figures), figsize=(10, 0.5 * len(jobs) + 1.2), sharey=True)
    colours = ["#9aa5b1" if name == THEIRS else "#1f6feb" for name in jobs]
    for axis, (title, figure) in zip(axes, figures.items(), strict=True):
        bars = axis.barh(list(jobs), [figure(job) for job in jobs.values()], color=colours)
        axis.bar_label(bars, fmt="%.1f", padding=3)
        axis.set_title(title, fontsize=10)
        axis.spines[["top", "right"]].set_visible(False)
        axis.margins(x=0.18)
    axes[0].invert_yaxis()
    drawing.tight_layout()
    drawing.savefig(path, format="svg", metadata={"Date": None})
    plt.close(drawing)
