"""The quality report as one HTML page that opens without a network: styles and pictures are inside."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from partition_ops.artifacts.run_figures import relative_shares
from partition_ops.stages.quality import charts
from partition_ops.stages.quality.local_times import inline_script
from partition_ops.stages.quality.page_sections import history_section, migration_section, shows_times
from partition_ops.stages.quality.tables import TABULATED, left_out, table
from partition_ops.stages.quality.training_section import probe_section, training_section

Report = dict[str, Any]

STYLE = (
    f"""{charts.COLOURS}{charts.STYLE}"""
    + """
body { font: 15px/1.5 system-ui, sans-serif; color: var(--ink); margin: 2rem auto; max-width: 62rem;
  padding: 0 1rem; }
h1 { font-size: 1.6rem; margin: 0; overflow-wrap: anywhere; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.soft { color: var(--soft); margin: .2rem 0 1.5rem; }
.figures { display: flex; flex-wrap: wrap; gap: 1rem; }
.figure { border: 1px solid var(--line); border-radius: 8px; padding: .7rem 1.1rem; min-width: 8.5rem; }
.figure b { display: block; font-size: 1.5rem; color: var(--accent); }
table { border-collapse: collapse; width: 100%; } th, td { padding: .35rem .6rem; text-align: right; }
th:first-child, td:first-child { text-align: left; } tr { border-bottom: 1px solid var(--line); }
.wide { overflow-x: auto; } .wide :is(th, td) { white-space: nowrap; }
.wide > svg, .wide > img { display: block; width: 100%; min-width: 45rem; max-width: 50rem; margin: .5rem 0; }
.charts { display: flex; flex-wrap: wrap; gap: 1rem; }
figure { margin: 0; flex: 1 1 22rem; max-width: 30rem; } figcaption { font-weight: 600; }
@media (max-width: 40rem) {
  body { margin: 1rem auto; } .figures { display: grid; grid-template-columns: 1fr 1fr; gap: .5rem; }
  .figure { min-width: 0; padding: .4rem .6rem; font-size: .85rem; } .figure b { font-size: 1.1rem; }
}
"""
)
OPENED = 16  # partitions: the table of nodes is folded if there are more
SPREAD = 0.25  # of an equal share: colours end there


def quality_page(report: Report, history: Mapping[str, Any], times: str, speeds: str) -> str:
    """Return the page of a quality report.

    Args:
        report: Content of ``quality/report.json``.
        history: Content of ``quality/history.json``.
        times: Path of the picture of `time_chart`, relative to the page. It is not inside the page, because
            no two runs take the same time, and the same report is to give the same bytes.
        speeds: Path of the picture of `speed_chart`, also relative to the page.

    Returns:
        HTML that loads nothing but these two pictures. If it has times, a script in it shows them in the zone
        of the viewer.
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
<details{" open" if report["num_parts"] <= OPENED else ""}><summary>Nodes by partition</summary>
<div class="wide">{_node_table(report)}</div></details>
<h2>Inner and halo nodes by partition</h2>
<p class="soft">Halo nodes belong to another partition; their features are fetched from there.</p>
<div class="wide">{_halo_chart(report)}</div>
{_fullest(report)}
<div class="wide">{_partition_table(report)}</div>
<h2>Edges of each type</h2>
<div class="wide">{_edge_table(report)}</div>
{_degree_section(report)}
{training_section(report)}
{migration_section(report)}
{history_section(history)}
{probe_section(report, speeds)}
<h2>Time by stage</h2>
<p class="soft">Seconds of the tasks before this one; scatter and gather are sums over tasks that run in
parallel.</p>
<div class="wide"><img src="{times}" alt="Seconds by stage, in {times}"></div>
{f"<script>{inline_script()}</script>" if shows_times(history) else ""}
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
    slowest = report.get("training", {}).get("slowest")
    if slowest:
        figures["remote rows a batch, slowest trainer"] = f"{slowest['remote_rows_per_batch']:,.0f}"
    return "".join(f'<div class="figure"><b>{value}</b>{name}</div>' for name, value in figures.items())


def _balance_chart(report: Report) -> str:
    shares = {name: relative_shares(entry["per_part"]) for name, entry in report["node_types"].items()}
    label = "Share of each node type by partition, relative to an equal share; see the tables below"
    return charts.share_chart(shares, "partition", label, spread=SPREAD)


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
    series = {kind: [entry[f"{kind}_nodes"] for entry in report["partitions"]] for kind in ("inner", "halo")}
    label = "Inner and halo nodes by partition; see the table below"
    return charts.column_chart(series, "{:,.0f}".format, "partition", label)


def _fullest(report: Report) -> str:
    """Return a sentence about the fullest partition; nothing for reports of version 0.2.0."""
    found = report.get("balance", {}).get("fullest")
    if not found:
        return ""
    most = [f"{kind}: {one['ratio']:.3f} (partition {one['part']})" for kind, one in found.items()]
    return f'<p class="soft">The fullest partition over the mean. {"; ".join(most).capitalize()}.</p>'


def _degree_section(report: Report) -> str:
    if not report.get("degrees"):
        return ""
    return f"""<h2>Degree and replication</h2>
<p class="soft">Number of partitions that have a node, its own included, by the number of its neighbours. The
more partitions have a hub, the more often its features are sent.</p>
<div class="wide">{_degree_chart(report["degrees"])}</div>"""


def _degree_chart(degrees: list[dict[str, Any]]) -> str:
    bars = {_degree_name(row): row["replication_factor"] for row in degrees}
    return charts.bar_chart(
        bars, "{:.2f}".format, "partitions a node is in, by its neighbours", "Replication by degree"
    )


def _degree_name(row: Mapping[str, Any]) -> str:
    least, most = row["least"], row["most"]
    degree = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    return f"{degree} ({row['nodes']:,} nodes)"


def time_chart(seconds: Mapping[str, float]) -> str:
    """Return a chart of the seconds by stage, as SVG."""
    return charts.picture(charts.bar_chart(seconds, "{:.1f} s".format, "seconds", "Seconds by stage"))


def _node_table(report: Report) -> str:
    types = report["node_types"]
    columns = [entry["per_part"] for entry in types.values()]
    rows = [
        [str(part), *(f"{column[part]:,}" for column in columns)]
        for part in range(min(report["num_parts"], TABULATED))
    ]
    return table(["partition", *types], rows) + left_out(report["num_parts"])


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
    ) + left_out(report["num_parts"])


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
