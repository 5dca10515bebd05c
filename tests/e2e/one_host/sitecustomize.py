"""Several machines of DGL's distributed training on one host; first on the path of their processes.

A machine runs one server and its trainers, which share memory by the names of what is in it. DGL knows a
machine by its address. Here all have the same one, so each gets its number from ``MACHINE``, and names of
its own. Everything else is DGL's own, over sockets on 127.0.0.1.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any


def be_machine(number: int) -> None:
    import dgl  # noqa: F401
    from dgl.distributed import dist_graph, graph_partition_book, kvstore, rpc_client

    rpc_client.get_local_machine_id = lambda namebook: number
    for owner, name in (
        (kvstore, "empty_shared_mem"),
        (dist_graph, "_copy_graph_to_shared_mem"),
        (dist_graph, "_get_graph_from_shared_mem"),
        (dist_graph, "get_shared_mem_partition_book"),
        (graph_partition_book.RangePartitionBook, "shared_memory"),
    ):
        setattr(owner, name, _renaming(getattr(owner, name), f"machine{number}-{os.environ['CLUSTER']}"))


def _renaming(function: Callable[..., Any], prefix: str) -> Callable[..., Any]:
    """The name is the first or the second argument, and the only string among the two."""

    def call(*arguments: Any, **options: Any) -> Any:
        head = [f"{prefix}-{value}" if isinstance(value, str) else value for value in arguments[:2]]
        return function(*head, *arguments[2:], **options)

    return call


if os.environ.get("DGL_DIST_MODE") == "distributed" and "CLUSTER" in os.environ:
    be_machine(int(os.environ["MACHINE"]))
