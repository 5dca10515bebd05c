"""The section of the quality page about the runs before."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import FuncFormatter, MaxNLocator

from partition_ops.stages.quality.drawing import inline_picture, table
from partition_ops.stages.quality.history import Entry

DRAWN: dict[str, Callable[[float], str]] = {
    "edges cut": "{:.1%}".format,
    "worst type imbalance": "{:.3f}".format,
    "old nodes moved": "{:.1%}".format,
    "edges": "{:,.0f}".format,
    "seconds": "{:,.0f}".format,
}


def history_section(history: Mapping[str, Any]) -> str:
    """Curves and a table over the runs, or nothing where there is one only.

    Args:
        history: As it is in ``quality/history.json``.
    """
    entries = history["entries"]
    if len(entries) < 2:
        return ""
    return f"""<h2>From run to run</h2>
<p class="soft">Oldest first, this one last; its own seconds are in the history of the run after it.</p>
{_chart(entries)}
<div class="wide">{_table(entries)}</div>"""


def _figures(entry: Entry) -> dict[str, float | None]:
    """What is drawn of a run."""
    seconds = entry.get("seconds")
    values = (
        entry["edge_cut"],
        entry["worst_imbalance"],
        entry["moved"],
        entry["num_edges"],
        sum(seconds.values()) if seconds else None,
    )
    return dict(zip(DRAWN, values, strict=True))


def _chart(entries: Sequence[Entry]) -> str:
    figure = Figure(figsize=(9, 1.5 * len(DRAWN)), layout="constrained")
    rows: Sequence[Axes] = figure.subplots(len(DRAWN), sharex=True)
    figures = [_figures(entry) for entry in entries]
    for axes, (name, shown) in zip(rows, DRAWN.items(), strict=True):
        known = [(run, value) for run, found in enumerate(figures, 1) if (value := found[name]) is not None]
        axes.plot([run for run, _ in known], [value for _, value in known], marker="o", color="#1f6f8b")
        axes.set_title(name, fontsize=9, loc="left")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _, shown=shown: shown(value)))
        axes.margins(y=0.25)
    rows[-1].set_xlim(0.5, len(entries) + 0.5)
    rows[-1].xaxis.set_major_locator(MaxNLocator(integer=True))
    rows[-1].set_xlabel("run")
    return inline_picture(figure, "Cut, balance, migration, size and time from run to run")


def _table(entries: Sequence[Entry]) -> str:
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
