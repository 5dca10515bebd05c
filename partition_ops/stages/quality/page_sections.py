"""Sections of the quality page about an incremental run, the history of the graph, and probing."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from typing import Any

from partition_ops.artifacts.charts import bar_chart, line_chart, picture
from partition_ops.stages.quality.history import Entry

MIB = 1 << 20
DRAWN: dict[str, Callable[[float], str]] = {
    "edges cut": "{:.1%}".format,
    "worst type imbalance": "{:.3f}".format,
    "old nodes moved": "{:.1%}".format,
    "edges": "{:,.0f}".format,
    "seconds": "{:,.0f}".format,
}


def migration_section(report: Mapping[str, Any]) -> str:
    """Return the section about moved nodes; nothing unless the run is incremental.

    Args:
        report: As it is in ``quality/report.json``.
    """
    if "migration" not in report:
        return ""
    found = report["migration"]
    types = found["node_types"].values()
    old, moved, new = (sum(one[kind] for one in types) for kind in ("old", "moved", "new"))
    return f"""<h2>Since the previous run</h2>
<p class="soft">{escape(_how(found))}</p>
<div class="figures">
<div class="figure"><b>{moved:,}</b>old nodes moved, {_share(moved, old)}</div>
<div class="figure"><b>{new:,}</b>new nodes</div>
<div class="figure"><b>{found["bytes_to_fetch"] / MIB:,.1f} MiB</b>of features to fetch again</div>
</div>
<div class="wide">{_type_table(found)}</div>
<div class="wide">{_cut_table(found["edge_cut"])}</div>"""


def _how(found: Mapping[str, Any]) -> str:
    if found["mode"] == "full":
        return f"Full run: {found['reason']}."
    kept = "Old nodes kept their partition unless moving them reduced the cut enough"
    return f"{kept}; {found['reason']}." if found["reason"] else f"{kept}."


def _share(part: int, whole: int) -> str:
    return f"{part / whole:.2%}" if whole else "0.00%"


def _type_table(found: Mapping[str, Any]) -> str:
    before, now = found["imbalance"]["before"], found["imbalance"]["now"]
    head = ["node type", "old", "moved", "share moved", "new", "MiB to fetch", "imbalance before", "now"]
    rows = [
        [
            name,
            *(f"{one[kind]:,}" for kind in ("old", "moved")),
            _share(one["moved"], one["old"]),
            f"{one['new']:,}",
            f"{one['bytes_to_fetch'] / MIB:,.1f}",
            f"{before[name]:.3f}",
            f"{now[name]:.3f}",
        ]
        for name, one in found["node_types"].items()
    ]
    return table(head, rows)


def _cut_table(cuts: Mapping[str, float | None]) -> str:
    names = {
        "before": "the previous run",
        "now": "now",
        "last_full": "the last full run",
        "full": "a full run now",
    }
    rows = [[name, f"{cuts[key]:.2%}"] for key, name in names.items() if cuts[key] is not None]
    return table(["pairs of neighbours cut", "share"], rows) if rows else ""


def history_section(history: Mapping[str, Any]) -> str:
    """Return curves and a table over the runs; nothing if there is only one.

    Args:
        history: As it is in ``quality/history.json``.
    """
    entries = history["entries"]
    if len(entries) < 2:
        return ""
    return f"""<h2>From run to run</h2>
<p class="soft">Oldest first, this run last; its seconds will be in the history of the next run.</p>
<div class="charts">{_history_charts(entries)}</div>
<div class="wide">{_history_table(entries)}</div>"""


def _figures(entry: Entry) -> dict[str, float | None]:
    """Return the figures of a run that are drawn."""
    seconds = entry.get("seconds")
    values = (
        entry["edge_cut"],
        entry["worst_imbalance"],
        entry["moved"],
        entry["num_edges"],
        sum(seconds.values()) if seconds else None,
    )
    return dict(zip(DRAWN, values, strict=True))


def _history_charts(entries: Sequence[Entry]) -> str:
    figures = [_figures(entry) for entry in entries]
    names = [f"run {number}" for number in range(1, len(entries) + 1)]
    return "".join(
        line_chart(name, [found[name] for found in figures], names, shown) for name, shown in DRAWN.items()
    )


def _history_table(entries: Sequence[Entry]) -> str:
    rows = [
        [
            str(number),
            entry["mode"],
            f"{entry['num_nodes']:,}",
            *("" if value is None else DRAWN[name](value) for name, value in _figures(entry).items()),
            f"{entry['bytes'] / 2**20:,.1f}",
        ]
        for number, entry in enumerate(entries, 1)
    ]
    return table(["run", "mode", "nodes", *DRAWN, "MiB"], rows)


def probe_section(report: Mapping[str, Any], speeds: str) -> str:
    """Return the section about the results of ``probe``; nothing if it was not run.

    Args:
        report: As it is in ``quality/report.json``.
        speeds: Path of the picture of `speed_chart`, relative to the page.
    """
    if "probe" not in report:
        return ""
    probe = report["probe"]
    total = probe["total"]
    return f"""<h2>What trainers fetch from other partitions</h2>
<p class="soft">Sampled as by the trainer of each partition: {_sampled(probe["options"])}.</p>
<div class="figures">
<div class="figure"><b>{total["remote_neighbour_share"]:.2%}</b>remote neighbours</div>
<div class="figure"><b>{total["remote_bytes_per_batch"] / MIB:,.2f} MiB</b>fetched remotely per batch</div>
</div>
<div class="wide">{_probe_table(probe["partitions"])}</div>
<p class="soft">Batches per second in one sampling thread, on the machine that ran the probe.</p>
<div class="wide"><img src="{speeds}" alt="Batches per second by partition, in {speeds}"></div>"""


def speed_chart(speeds: Mapping[str, float]) -> str:
    """Return a chart of the batches a second by partition, as SVG."""
    bars = {f"part {part}": speed for part, speed in speeds.items()}
    return picture(bar_chart(bars, "{:,.1f}".format, "batches per second", "Batches per second by partition"))


def _sampled(options: Mapping[str, Any]) -> str:
    fanouts = " and ".join("all" if fanout < 0 else str(fanout) for fanout in options["fanouts"])
    names = ", ".join(f"{ntype}/{name}" for ntype, found in options["features"].items() for name in found)
    fetched = f"the features {names}" if names else "no feature"
    return escape(
        f"up to {options['batches']:,} batches of {options['batch_size']:,} nodes of type"
        f" {options['node_type']}, {fanouts} neighbours of each edge type by layer, and for every input node"
        f" {fetched}"
    )


def _probe_table(partitions: list[dict[str, Any]]) -> str:
    head = ["partition", "seeds", "batches", "neighbours", "remote", "remote MiB per batch"]
    return table(
        head,
        [
            [
                str(one["part"]),
                *(f"{one[key]:,}" for key in ("seeds", "batches", "neighbours")),
                f"{one['remote_neighbour_share']:.2%}",
                f"{one['remote_bytes_per_batch'] / MIB:,.2f}",
            ]
            for one in partitions
        ],
    )


def table(head: list[str], rows: list[list[str]]) -> str:
    """Return an HTML table; all cells are text."""
    lines = ["<tr>" + "".join(f'<th scope="col">{escape(cell)}</th>' for cell in head) + "</tr>"]
    lines += ["<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows]
    return "<table>" + "".join(lines) + "</table>"
