"""Sections of the quality page about an incremental run, and about the history of the graph."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import escape
from typing import Any

from partition_ops.stages.quality.charts import line_chart, places_by_time
from partition_ops.stages.quality.history import Entry
from partition_ops.stages.quality.local_times import moment
from partition_ops.stages.quality.tables import MIB, table

DRAWN: dict[str, Callable[[float], str]] = {
    "edges cut": "{:.1%}".format,
    "worst type imbalance": "{:.3f}".format,
    "remote rows, slowest trainer": "{:,.0f}".format,
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
<p class="soft">Runs by the time at which they were published. This run is the last one; its time and its
seconds will be in the history of the next run.</p>
<div class="charts">{_history_charts(entries)}</div>
<div class="wide">{_history_table(entries)}</div>"""


def shows_times(history: Mapping[str, Any]) -> bool:
    """Return whether `history_section` has times."""
    return any(_published(entry) for entry in history["entries"])


def _published(entry: Entry) -> str:
    """Return when a run was published; nothing for this run, and for runs of earlier versions."""
    return moment(entry["published"]) if "published" in entry else ""


def _figures(entry: Entry) -> dict[str, float | None]:
    """Return the figures of a run that are drawn."""
    seconds = entry.get("seconds")
    values = (
        entry["edge_cut"],
        entry["worst_imbalance"],
        entry.get("slowest_rows"),
        entry["moved"],
        entry["num_edges"],
        sum(seconds.values()) if seconds else None,
    )
    return dict(zip(DRAWN, values, strict=True))


def _history_charts(entries: Sequence[Entry]) -> str:
    figures = [_figures(entry) for entry in entries]
    names = [
        ", ".join(filter(None, (f"run {number}", _published(entry))))
        for number, entry in enumerate(entries, 1)
    ]
    times = [
        datetime.fromisoformat(entry["published"]) if "published" in entry else None for entry in entries
    ]
    places, ends = places_by_time(times), (_published(entries[0]), "this run")
    return "".join(
        line_chart(name, [found[name] for found in figures], names, shown, places=places, ends=ends)
        for name, shown in DRAWN.items()
    )


def _history_table(entries: Sequence[Entry]) -> str:
    rows = [
        [
            str(number),
            _published(entry),
            entry["mode"],
            f"{entry['num_nodes']:,}",
            *("" if value is None else DRAWN[name](value) for name, value in _figures(entry).items()),
            f"{entry['bytes'] / 2**20:,.1f}",
        ]
        for number, entry in enumerate(entries, 1)
    ]
    return table(["run", "published", "mode", "nodes", *DRAWN, "MiB"], rows)
