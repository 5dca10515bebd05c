"""The quality report as one HTML page that opens without a network: styles and pictures are inside."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

import numpy as np
from matplotlib.colors import LinearSegmentedColormap, Normalize
from matplotlib.ticker import FuncFormatter, MaxNLocator

from partition_ops.artifacts.run_figures import relative_shares
from partition_ops.stages.quality.drawing import COLOUR, bar_chart, inline_picture, new_chart, table
from partition_ops.stages.quality.page_sections import history_section, migration_section, probe_section

Report = dict[str, Any]

STYLE = """
:root { color-scheme: light; --ink: #1d2733; --soft: #5b6b7c; --line: #d9e0e7; --accent: #1f6f8b; }
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 2rem auto; max-width: 62rem;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.soft { color: var(--soft); margin: .2rem 0 1.5rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
.figure { border: 1px solid var(--line); border-radius: 8px; padding: .7rem 1.1rem; min-width: 8.5rem; }
.figure b { display: block; font-size: 1.5rem; color: var(--accent); }
table { border-collapse: collapse; width: 100%; } th, td { padding: .35rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; } tr { border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; } svg { max-width: 100%; height: auto; }
.wide th { white-space: nowrap; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; } .figures { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
  .figure { min-width: 0; padding: .4rem .6rem; font-size: .85rem; } .figure b { font-size: 1.1rem; }
}
"""
ANNOTATED = 16  # partitions: with more of them, figures do not fit into the squares
TABULATED = 256  # partitions: a page with more rows is a file to load, which report.json is for
SPREAD = 0.25  # of an equal share: colours end there
SHARES = LinearSegmentedColormap.from_list("shares", ["#3d7fb5", "#ffffff", "#d9822b"])


def quality_page(report: Report, history: Mapping[str, Any], times: str, speeds: str) -> str:
    """Return the page of a quality report.

    Args:
        report: Content of ``quality/report.json``.
        history: Content of ``quality/history.json``.
        times: Path of the picture of `time_chart`, relative to the page. It is not inside the page, because
            no two runs take the same time, and the same report is to give the same bytes.
        speeds: Path of the picture of `speed_chart`, also relative to the page.

    Returns:
        HTML that loads nothing but these two pictures.
    """
    title = f"Partitions of {escape(report['graph_name'])}"
    notes = "".join(f"<p>Note: {escape(note)}.</p>" for note in report.get("notes", ()))
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title>
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{STYLE}</style></head><body>
<h1>{title}</h1>
<p class="soft">{report["num_nodes"]:,} nodes and {report["num_edges"]:,} edges in {report["num_parts"]}
partitions</p>
<div class="figures">{_key_figures(report)}</div>
{notes}
<h2>Nodes of each type by partition</h2>
<p class="soft">1.00 is an equal share: the type's nodes divided by the number of partitions. Orange is
heavier, blue is lighter.</p>
<div class="wide">{_balance_chart(report)}</div>
<div class="wide">{_balance_table(report)}</div>
<details{" open" if report["num_parts"] <= ANNOTATED else ""}><summary>Nodes by partition</summary>
<div class="wide">{_node_table(report)}</div></details>
<h2>Inner and halo nodes by partition</h2>
<p class="soft">Halo nodes belong to another partition; their features are fetched from there.</p>
{_halo_chart(report)}
<div class="wide">{_partition_table(report)}</div>
<h2>Edges of each type</h2>
<div class="wide">{_edge_table(report)}</div>
{_degree_section(report)}
{migration_section(report)}
{history_section(history)}
{probe_section(report, speeds)}
<h2>Time by stage</h2>
<p class="soft">Seconds of the tasks before this one; scatter and gather are sums over tasks that run in
parallel.</p>
<img src="{times}" alt="The picture is missing: {times}">
</body></html>
"""


def _key_figures(report: Report) -> str:
    worst = max(entry["imbalance"] for entry in report["node_types"].values())
    lightest = min(min(relative_shares(entry["per_part"])) for entry in report["node_types"].values())
    whole = relative_shares([entry["inner_nodes"] for entry in report["partitions"]])
    figures = {
        "edges cut": f"{report['edge_cut']['fraction']:.2%}",
        "worst type imbalance": f"{worst:.3f}",
        "lightest share of a type": f"{lightest:.3f}",
        "lightest and heaviest partition": f"{min(whole):.3f} to {max(whole):.3f}",
        "replication factor": f"{report['replication_factor']:.3f}",
        "communication volume": f"{report['communication_volume']:,}",
    }
    return "".join(f'<div class="figure"><b>{value}</b>{name}</div>' for name, value in figures.items())


def _balance_chart(report: Report) -> str:
    types, parts = report["node_types"], report["num_parts"]
    shares = np.array([relative_shares(entry["per_part"]) for entry in types.values()])
    figure, axes = new_chart(1.2 + 0.32 * len(types))
    ends = Normalize(1 - SPREAD, 1 + SPREAD)
    drawn = axes.imshow(shares, cmap=SHARES, aspect="auto", interpolation="none", norm=ends)
    if parts <= ANNOTATED:
        for row, column in np.ndindex(shares.shape):
            axes.text(column, row, f"{shares[row, column]:.2f}", ha="center", va="center", fontsize=8)
    axes.set_yticks(range(len(types)), list(types))
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("partition")
    bar = figure.colorbar(drawn, ax=axes, extend="both", aspect=8)
    bar.set_ticks([1 - SPREAD, 1, 1 + SPREAD])
    return inline_picture(figure, "Share of each node type by partition, relative to an equal share")


def _balance_table(report: Report) -> str:
    counts = {name: entry["per_part"] for name, entry in report["node_types"].items()}
    if len(counts) > 1:
        counts["all types"] = [entry["inner_nodes"] for entry in report["partitions"]]
    balance = report.get("balance", {}).get("node_types", {})  # reports of earlier versions have none
    allowed = {name: entry.get("whole_nodes") for name, entry in balance.items()}
    rows = []
    for name, per_part in counts.items():
        shares = relative_shares(per_part)
        row = [name, f"{sum(per_part):,}"]
        for extreme in (min(shares), max(shares)):
            part = shares.index(extreme)
            row += [f"{extreme:.3f}", f"{per_part[part]:,}", str(part)]
        rows.append([*row, f"{allowed[name]:.3f}" if allowed.get(name) else ""])
    head = [
        name for extreme in ("lightest", "heaviest") for name in (f"{extreme} share", "nodes", "partition")
    ]
    if not any(allowed.values()):
        return table(["node type", "nodes", *head], [row[:-1] for row in rows])
    reason = """<p class="soft">A node cannot be split: of a type with few nodes, a partition may hold one
more than its share, even if that is more than the tolerance.</p>"""
    return table(["node type", "nodes", *head, "allowed share"], rows) + reason


def _halo_chart(report: Report) -> str:
    partitions = report["partitions"]
    figure, axes = new_chart(3.2)
    places, inner, halo = (
        [entry[key] for entry in partitions] for key in ("part", "inner_nodes", "halo_nodes")
    )
    axes.bar(places, inner, color=COLOUR, label="inner")
    axes.bar(places, halo, bottom=inner, color="#e0a458", label="halo")
    axes.set_xlabel("partition")
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.yaxis.set_major_formatter(FuncFormatter(lambda count, _: f"{count:,.0f}"))
    axes.legend(frameon=False, loc="lower right", bbox_to_anchor=(1, 1), ncols=2)
    return inline_picture(figure, "Inner and halo nodes by partition")


def _degree_section(report: Report) -> str:
    if not report.get("degrees"):
        return ""
    return f"""<h2>Degree and replication</h2>
<p class="soft">Number of partitions that have a node, its own included, by the number of its neighbours. The
more partitions have a hub, the more often its features are sent.</p>
{_degree_chart(report["degrees"])}"""


def _degree_chart(degrees: list[dict[str, Any]]) -> str:
    figure, axes = new_chart(3.2)
    places = range(len(degrees))
    names = [f"{row['least']:,}" if row["least"] == row["most"] else f"{row['least']:,}+" for row in degrees]
    bars = axes.bar(places, [row["replication_factor"] for row in degrees], color=COLOUR)
    axes.bar_label(bars, [f"{row['nodes']:,}" for row in degrees], fontsize=7, rotation=30, padding=2)
    axes.set_xticks(places, names)
    axes.set_xlabel("neighbours (numbers of nodes above the bars)")
    axes.set_ylabel("partitions a node is in")
    axes.margins(y=0.25)
    return inline_picture(figure, "Replication by degree")


def time_chart(seconds: Mapping[str, float]) -> str:
    """Return a chart of the seconds by stage, as SVG."""
    return bar_chart(seconds, "%.1f s", "seconds", "Seconds by stage")


def _node_table(report: Report) -> str:
    types = report["node_types"]
    columns = [entry["per_part"] for entry in types.values()]
    rows = [
        [str(part), *(f"{column[part]:,}" for column in columns)]
        for part in range(min(report["num_parts"], TABULATED))
    ]
    return table(["partition", *types], rows) + _left_out(report)


def _left_out(report: Report) -> str:
    more = report["num_parts"] - TABULATED
    if more <= 0:
        return ""
    return f'<p class="soft">The {more:,} partitions after these are in <code>report.json</code>.</p>'


def _partition_table(report: Report) -> str:
    return table(
        ["partition", "inner nodes", "halo nodes", "edges", "edges cut", "MiB"],
        [
            [
                str(entry["part"]),
                *(f"{entry[key]:,}" for key in ("inner_nodes", "halo_nodes", "edges", "cut_edges")),
                f"{entry['bytes'] / 2**20:,.1f}",
            ]
            for entry in report["partitions"][:TABULATED]
        ],
    ) + _left_out(report)


def _edge_table(report: Report) -> str:
    return table(
        ["edge type", "edges", "cut", "share cut", "imbalance"],
        [
            [
                name,
                f"{sum(entry['per_part']):,}",
                f"{entry['cut_edges']:,}",
                f"{entry['cut_fraction']:.2%}",
                f"{entry['imbalance']:.3f}",
            ]
            for name, entry in report["edge_types"].items()
        ],
    )
