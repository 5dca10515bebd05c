"""Training on one machine straight from a finished output, without loading the graph.

DGL's data loaders and samplers take a `PartitionedGraph` as their graph. It needs dgl and torch, whose import
takes seconds; so the names of this package are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from partition_ops.system.extras import check_installed

if TYPE_CHECKING:
    from partition_ops.train.graph_data import AsyncMemmapStorage, MemmapStorage
    from partition_ops.train.partitioned_graph import PartitionedGraph

__all__ = ["AsyncMemmapStorage", "MemmapStorage", "PartitionedGraph"]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module = "partitioned_graph" if name == "PartitionedGraph" else "graph_data"
    check_installed(f"partition_ops.train.{name}", "dgl", "torch", extra="dgl")
    return getattr(import_module(f"{__name__}.{module}"), name)
