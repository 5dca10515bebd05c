"""Figures of the expected traffic, as ``training`` in ``quality/report.json`` has them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from partition_ops.traffic.model import Traffic

ROWS, SHARES = 1, 6  # decimal places


def training_figures(traffic: Traffic, row_bytes: Sequence[int]) -> dict[str, Any]:
    """Return the figures of each trainer and of all of them, as JSON.

    The mean is that of the trainers with train nodes. The slowest trainer is the one that reads most rows a
    batch; the first one of these if several read as many. Without train nodes there is none.

    Args:
        traffic: Of the trainer of each partition.
        row_bytes: By node type ID, the bytes of the features of a node.
    """
    costs = np.asarray(row_bytes, np.float64)
    batches = np.maximum(traffic.batches, 1)
    rows, sizes = traffic.remote_rows / batches, traffic.remote_cost(costs) / batches
    neighbours = traffic.neighbours.sum(axis=1)
    shares = traffic.neighbours[:, 1] / np.maximum(neighbours, 1e-300)
    served, served_bytes = traffic.served_rows, traffic.served_cost(costs)
    partitions = [
        {
            "part": part,
            "seeds": int(traffic.seeds[part]),
            "batches": int(traffic.batches[part]),
            "remote_rows_per_batch": round(float(rows[part]), ROWS),
            "remote_bytes_per_batch": round(float(sizes[part])),
            "remote_neighbour_share": round(float(shares[part]), SHARES),
            "served_rows": round(float(served[part])),
            "served_bytes": round(float(served_bytes[part])),
        }
        for part in range(len(rows))
    ]
    working = traffic.batches > 0
    total = {
        "seeds": int(traffic.seeds.sum()),
        "batches": int(traffic.batches.sum()),
        "remote_rows_per_batch": round(_mean(rows[working]), ROWS),
        "remote_bytes_per_batch": round(_mean(sizes[working])),
        "remote_neighbour_share": round(_share(traffic.neighbours[:, 1].sum(), neighbours.sum()), SHARES),
    }
    return {"partitions": partitions, "total": total, "slowest": _slowest(partitions, total)}


def _slowest(partitions: Sequence[Mapping[str, Any]], total: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the slowest trainer; None without train nodes."""
    working = [one for one in partitions if one["batches"]]
    if not working:
        return None
    found = max(working, key=lambda one: one["remote_rows_per_batch"])
    rows, mean = found["remote_rows_per_batch"], total["remote_rows_per_batch"]
    ratio = max(round(rows / mean, SHARES), 1.0) if mean else 1.0
    kept = ("part", "remote_rows_per_batch", "remote_bytes_per_batch")
    return {**{name: found[name] for name in kept}, "ratio": ratio}


def _mean(values: Any) -> float:
    return float(values.mean()) if len(values) else 0.0


def _share(part: float, whole: float) -> float:
    return float(part / whole) if whole else 0.0
