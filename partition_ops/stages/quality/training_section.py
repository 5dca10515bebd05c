"""Sections of the quality page about training: what trainers are expected to fetch, and what was sampled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from partition_ops.stages.quality.charts import bar_chart, column_chart, picture
from partition_ops.stages.quality.tables import MIB, TABULATED, left_out, table


def training_section(report: Mapping[str, Any]) -> str:
    """Return the section about the expected traffic; nothing for reports without it.

    Args:
        report: As it is in ``quality/report.json``.
    """
    if "training" not in report:
        return ""
    found = report["training"]
    return f"<h2>Training</h2>\n{_expected(found)}"


def _expected(found: Mapping[str, Any]) -> str:
    if "left_out" in found:
        return f'<p class="soft">There are no figures: {escape(found["left_out"])}.</p>'
    slowest, total = found["slowest"], found["total"]
    if slowest is None:
        names = escape(", ".join(found["options"]["train_nodes"])) or "none"
        return f'<p class="soft">There are no figures, because there are no train nodes: {names}.</p>'
    rows = {"rows from other partitions": [one["remote_rows_per_batch"] for one in found["partitions"]]}
    label = "Rows a batch that each trainer fetches from other partitions; see the table below"
    return f"""<p class="soft">Expected, not measured. The trainer of each partition draws batches of
{escape(_drawn(found["options"]))}.
It fetches all features of the sampled nodes, from another partition if the node
belongs to one. In every step, all trainers wait for the slowest.</p>
<div class="figures">
<div class="figure"><b>{slowest["remote_rows_per_batch"]:,.0f}</b>remote rows a batch, slowest trainer</div>
<div class="figure"><b>{slowest["remote_bytes_per_batch"] / MIB:,.2f} MiB</b>of remote features, slowest
trainer</div>
<div class="figure"><b>{slowest["ratio"]:.3f}</b>slowest trainer over the mean</div>
<div class="figure"><b>{total["remote_neighbour_share"]:.2%}</b>remote neighbours</div>
</div>
<div class="wide">{column_chart(rows, "{:,.0f}".format, "trainer", label)}</div>
<div class="wide">{_trainer_table(found)}</div>{_cache_curve(found)}"""


def _cache_curve(found: Mapping[str, Any]) -> str:
    """Return what caches of several shares save; nothing for reports without it."""
    curve: Sequence[Mapping[str, Any]] = found.get("cache", ())
    if not any(one["slowest"] for one in curve):
        return ""
    bars = {f"{one['share']:g}": one["slowest"] for one in curve}
    axis, label = (
        "rows a batch, slowest trainer",
        "Remote rows a batch of the slowest trainer by --cache-share",
    )
    head = ["cached share", "remote rows a batch, mean", "slowest trainer"]
    keys = "remote_rows_per_batch", "slowest"
    rows = [[f"{one['share']:g}", *(f"{one[key]:,.1f}" for key in keys)] for one in curve]
    return f"""
<p class="soft">With the option --cache-share, each partition gets the features of the remote nodes that its
trainer reads most. Rows that trainers then still fetch, by the cached rows as a share of the partition's
own:</p>
<div class="wide">{bar_chart(bars, "{:,.0f}".format, axis, label)}</div>
<div class="wide">{table(head, rows)}</div>"""


def _drawn(options: Mapping[str, Any]) -> str:
    names = " and ".join(options["train_nodes"])
    fanouts = " and ".join("all" if fanout < 0 else str(fanout) for fanout in options["fanouts"])
    sampled = f"{fanouts} neighbours of each edge type by layer"
    return f"{options['batch_size']:,} train nodes ({names}), with {sampled}"


def _trainer_table(found: Mapping[str, Any]) -> str:
    head = ["trainer", "train nodes", "batches", "remote rows a batch", "MiB a batch", "remote neighbours"]
    served = ["rows served in an epoch", "MiB served"]
    partitions: Sequence[Mapping[str, Any]] = found["partitions"]
    rows = [
        [
            str(one["part"]),
            f"{one['seeds']:,}",
            f"{one['batches']:,}",
            f"{one['remote_rows_per_batch']:,.1f}",
            f"{one['remote_bytes_per_batch'] / MIB:,.2f}",
            f"{one['remote_neighbour_share']:.2%}",
            f"{one['served_rows']:,}",
            f"{one['served_bytes'] / MIB:,.1f}",
        ]
        for one in partitions[:TABULATED]
    ]
    return table([*head, *served], rows) + left_out(len(partitions))


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
    names = ", ".join(f"{ntype}/{name}" for ntype, found in options["features"].items() for name in found)
    fetched = f"the features {names}" if names else "no feature"
    return escape(
        f"up to {options['batches']:,} batches of {_drawn(options)}, and for every input node {fetched}"
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
