"""The section of the quality page about what trainers fetch from other partitions."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from matplotlib.figure import Figure

from partition_ops.stages.quality.drawing import picture, table

MIB = 1 << 20


def probe_section(report: Mapping[str, Any], speeds: str) -> str:
    """What ``probe`` has found, or nothing where it has not been done.

    Args:
        report: As it is in ``quality/report.json``.
        speeds: Where the picture of `speed_chart` is, relative to the page.
    """
    if "probe" not in report:
        return ""
    probe = report["probe"]
    total = probe["total"]
    return f"""<h2>What trainers fetch from other partitions</h2>
<p class="soft">By sampling as the trainer of each partition: {_sampled(probe["options"])}.</p>
<div class="figures">
<div class="figure"><b>{total["remote_neighbour_share"]:.2%}</b>remote neighbours</div>
<div class="figure"><b>{total["remote_bytes_per_batch"] / MIB:,.2f} MiB</b>fetched remotely a batch</div>
</div>
<div class="wide">{_table(probe["partitions"])}</div>
<p class="soft">Batches a second of one sampling thread, on the machine that probed.</p>
<img src="{speeds}" alt="The picture of it is not beside this page: {speeds}">"""


def speed_chart(speeds: Mapping[str, float]) -> str:
    """Batches a second by partition, as a picture of its own (SVG)."""
    figure = Figure(figsize=(9, 0.7 + 0.3 * len(speeds)), layout="constrained")
    axes = figure.subplots()
    bars = axes.barh([f"part {part}" for part in speeds], list(speeds.values()), color="#1f6f8b")
    axes.bar_label(bars, fmt="%.1f", padding=3)
    axes.invert_yaxis()
    axes.margins(x=0.12)
    axes.set_xlabel("batches a second")
    return picture(figure, "Batches a second by partition")


def _sampled(options: Mapping[str, Any]) -> str:
    fanouts = " and ".join("all" if fanout < 0 else str(fanout) for fanout in options["fanouts"])
    names = ", ".join(f"{ntype}/{name}" for ntype, found in options["features"].items() for name in found)
    fetched = f"the features {names}" if names else "no feature"
    return escape(
        f"up to {options['batches']:,} batches of {options['batch_size']:,} nodes of type"
        f" {options['node_type']}, {fanouts} neighbours of each edge type by layer, and of every input node"
        f" {fetched}"
    )


def _table(partitions: list[dict[str, Any]]) -> str:
    head = ["partition", "seeds", "batches", "neighbours", "remote", "remote MiB a batch"]
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
