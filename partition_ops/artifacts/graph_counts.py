"""Numbers of nodes and edges of a graph, now or when it was partitioned, and whether its node IDs hold."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import accumulate, pairwise

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.documents import read_document
from partition_ops.artifacts.manifest import read_manifest
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.storage import Store


@dataclass(frozen=True)
class GraphCounts:
    """Numbers of nodes and edges by type, in the order of the types."""

    nodes: Mapping[str, int]
    edges: Mapping[str, int]

    @classmethod
    def of_run(cls, run: Store) -> GraphCounts:
        """Return the counts of the input of a finished run.

        Raises:
            InvalidInputError: The run is not finished, or its schema is broken.
        """
        schema = read_document(run, layout.schema_file(read_manifest(run)["graph_name"]), "schema")
        nodes, edges = (
            {name: end - begin for name, (begin, end) in schema[kind].items()} for kind in ("nid", "eid")
        )
        return cls(nodes, edges)

    @classmethod
    def of_graph(cls, metadata: GraphMetadata) -> GraphCounts:
        """Return the counts of an input graph."""
        edge_types = map(str, metadata.edge_types)
        return cls(
            dict(zip(metadata.node_types, metadata.num_nodes, strict=True)),
            dict(zip(edge_types, metadata.num_edges, strict=True)),
        )


def find_id_change(before: GraphCounts, now: GraphCounts) -> str | None:
    """Return why old nodes no longer have their type-wise IDs, as a clause, or None if they have.

    New node types may stand anywhere among the old ones. Edges and edge types may be added and removed.
    """
    for name, count in before.nodes.items():
        if name not in now.nodes:
            return f"the node type {name!r} is gone"
        if now.nodes[name] < count:
            return f"the node type {name!r} has shrunk from {count} to {now.nodes[name]} nodes"
    kept = [name for name in now.nodes if name in before.nodes]
    if kept != list(before.nodes):
        return f"the order of the node types has changed from {_listed(before.nodes)} to {_listed(kept)}"
    return None


def spread_old_values(
    before: GraphCounts, now: GraphCounts, values: npt.NDArray[np.int32], missing: int
) -> npt.NDArray[np.int32]:
    """Return values of the old nodes as values of all nodes.

    Args:
        before: The old graph.
        now: The grown graph.
        values: (old nodes,) by homogeneous ID of the old graph.
        missing: Value of the new nodes.

    Returns:
        (nodes,) int32, by homogeneous ID.
    """
    result = np.full(sum(now.nodes.values()), missing, np.int32)
    begins = dict(zip(now.nodes, accumulate(now.nodes.values(), initial=0), strict=False))
    ends = accumulate(before.nodes.values(), initial=0)
    for name, (begin, end) in zip(before.nodes, pairwise(ends), strict=True):
        result[begins[name] : begins[name] + end - begin] = values[begin:end]
    return result


def _listed(names: Mapping[str, int] | list[str]) -> str:
    return ", ".join(map(repr, names))
