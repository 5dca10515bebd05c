"""The results of `benchmarks.growth` as Markdown."""

from __future__ import annotations

from typing import Any

MOST_MOVED = {"1": 0.01, "5": 0.03, "20": 0.10}
MOST_CUT, MOST_IMBALANCE, MOST_SECONDS, MOST_DRIFT = 1.03, 1.05, 1 / 3, 1.05
QUICK = ("1", "5")  # percent of growth for which the time counts


def page(results: dict[str, Any]) -> str:
    """Return the results as Markdown."""
    cores, memory = results["machine"]["cores"], results["machine"]["memory_gib"]
    lines = [
        f"`{results['command']}`: {cores} cores, {memory} GiB, scale {results['scale']:g}, engine"
        f" {results['engine']}, medians of {results['rounds']} rounds. Seconds are those of the stage.",
        "",
        "| parts | growth | full s | incremental s | cut, full | cut, incremental | worst type imbalance"
        " | old nodes moved |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for parts, growths in results["growths"].items():
        for percent, ways in growths.items():
            full, ours = ways["full"], ways["incremental"]
            lines.append(
                f"| {parts} | {percent} % | {full['seconds']:.1f} | {ours['seconds']:.1f}"
                f" | {full['edge_cut']:.2%} | {ours['edge_cut']:.2%} | {ours['imbalance']:.3f}"
                f" | {ours['moved']:.3%} |"
            )
    lines += ["", "Successive growths of 5 %, each from the previous partitions:", ""]
    titles = (f"{parts} parts, cut relative to a full run" for parts in results["successive"])
    lines += [f"| step | {' | '.join(titles)} |"]
    lines += ["|---:|" + "---:|" * len(results["successive"])]
    for step, found in enumerate(zip(*results["successive"].values(), strict=True), 1):
        cells = " | ".join(f"{one['edge_cut'] / one['full']:.4f}" for one in found)
        lines.append(f"| {step} | {cells} |")
    return "\n".join([*lines, "", "## Targets", "", *_targets(results)]) + "\n"


def _targets(results: dict[str, Any]) -> list[str]:
    lines = ["| | target | measured, worst case |", "|---|---:|---:|"]
    every = [
        (percent, ways["full"], ways["incremental"])
        for growths in results["growths"].values()
        for percent, ways in growths.items()
    ]
    quick = max(ours["seconds"] / full["seconds"] for percent, full, ours in every if percent in QUICK)
    cut = max(ours["edge_cut"] / full["edge_cut"] for _, full, ours in every)
    imbalance = max(ours["imbalance"] for _, _, ours in every)
    lines.append(f"| seconds relative to a full run, at 1 and 5 % | ≤ {MOST_SECONDS:.2f} | {quick:.2f} |")
    lines.append(f"| edge cut relative to a full run | ≤ {MOST_CUT} | {cut:.3f} |")
    lines.append(f"| worst type imbalance | ≤ {MOST_IMBALANCE} | {imbalance:.3f} |")
    for percent, most in MOST_MOVED.items():
        moved = max((ours["moved"] for found, _, ours in every if found == percent), default=0.0)
        lines.append(f"| old nodes moved at {percent} % | ≤ {most:.0%} | {moved:.3%} |")
    in_a_row = [one for steps in results["successive"].values() for one in steps]
    if not in_a_row:
        return lines
    drift = max(one["edge_cut"] / one["full"] for one in in_a_row)
    title = "edge cut after successive growths, relative to a full run"
    lines.append(f"| {title} | ≤ {MOST_DRIFT} | {drift:.3f} |")
    return lines
