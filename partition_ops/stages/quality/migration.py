"""The section of the quality page about what an incremental run moved."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import Any

from partition_ops.stages.quality.drawing import table

MIB = 1 << 20
LEFT_OUT = ("version", "previous")  # of the report, what is no figure


def migration_figures(migration: Mapping[str, Any]) -> dict[str, Any]:
    """What ``quality/report.json`` has of ``assignment/migration.json``."""
    return {name: value for name, value in migration.items() if name not in LEFT_OUT}


def migration_section(report: Mapping[str, Any]) -> str:
    """What moved, or nothing where the run has followed no other.

    Args:
        report: As it is in ``quality/report.json``.
    """
    if "migration" not in report:
        return ""
    found = report["migration"]
    types = found["node_types"].values()
    old, moved, new = (sum(one[kind] for one in types) for kind in ("old", "moved", "new"))
    return f"""<h2>Since the run before</h2>
<p class="soft">{escape(_how(found))}</p>
<div class="figures">
<div class="figure"><b>{moved:,}</b>old nodes moved, {_share(moved, old)}</div>
<div class="figure"><b>{new:,}</b>new nodes</div>
<div class="figure"><b>{found["bytes_to_fetch"] / MIB:,.1f} MiB</b>of features to fetch anew</div>
</div>
<div class="wide">{_type_table(found)}</div>
<div class="wide">{_cut_table(found["edge_cut"])}</div>"""


def _how(found: Mapping[str, Any]) -> str:
    if found["mode"] == "full":
        return f"Partitioned anew: {found['reason']}."
    kept = "Old nodes kept their partition unless moving paid"
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
        "before": "the run before",
        "now": "now",
        "last_full": "the last full run",
        "full": "a full run now",
    }
    rows = [[name, f"{cuts[key]:.2%}"] for key, name in names.items() if cuts[key] is not None]
    return table(["pairs of neighbours cut", "share"], rows) if rows else ""
