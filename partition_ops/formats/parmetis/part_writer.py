"""The folder of one partition, from ParMETIS's output."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.formats.dgl.partition_files import local_columns, write_graph, write_tensors
from partition_ops.formats.parmetis.edge_rows import EdgeLoader, EdgeRows
from partition_ops.formats.parmetis.local_graph import LocalGraph, build_local_graph
from partition_ops.formats.parmetis.node_order import GivenOrder, read_node_attributes
from partition_ops.formats.parmetis.output_files import ParmetisFiles, common_width

ATTRIBUTE = "attr"
Ids = npt.NDArray[np.int64]
Values = npt.NDArray[Any]


class PartWriter:
    """Writes the five files of each partition.

    Args:
        metadata: Metadata of the input graph.
        order: New IDs of all nodes.
        files: ParMETIS's output.
        task: Collects what is written.

    Attributes:
        loader: Reads the edges; knows which are missing when all partitions have been written.

    Peak memory: see `EdgeLoader` and `build_local_graph`.
    """

    def __init__(
        self, metadata: GraphMetadata, order: GivenOrder, files: ParmetisFiles, task: ArtifactWriter
    ) -> None:
        self._metadata = metadata
        self._order = order
        self._task = task
        self._nodes = files.node_tables(attributes=True)
        self._edges = files.part_edge_tables(attributes=True)
        removed = files.removed_edges_table(attributes=True)
        self._node_width = common_width(self._nodes)
        edge_width = common_width([*self._edges, *([removed] if removed else [])])
        self.loader = EdgeLoader(metadata, order, width=edge_width, removed=removed)

    def load(self, part: int) -> EdgeRows:
        """The edges of a partition; from any thread.

        Raises:
            InvalidInputError: Its edge file is malformed, or does not fit the schema or the node files.
        """
        return self.loader.load(part, self._edges[part])

    def write(self, part: int, edges: EdgeRows, *, first_edge_id: int) -> Ids:
        """Write one partition.

        Args:
            part: Which.
            edges: What `load` gave.
            first_edge_id: New ID of its first edge.

        Returns:
            (edge types,) int64, the number of edges of each type in it.

        Raises:
            InvalidInputError: Its node file has attributes that are none.
        """
        starts = edges.starts(len(self._metadata.edge_types))
        local = build_local_graph(self._metadata, self._order, part, edges.rows[:3], starts)
        graph = local_columns(self._metadata, local, first_edge_id=first_edge_id)
        write_graph(self._task, _key(part, "graph.dgl"), graph)
        node_ids, edge_ids = local.inner_ids_by_type(self._metadata), local.edge_ids_by_type(self._metadata)
        for name, arrays in (
            ("orig_nids.dgl", node_ids),
            ("orig_eids.dgl", edge_ids),
            ("node_feat.dgl", _features(self._node_attributes(part, local), node_ids)),
            ("edge_feat.dgl", _features(edges.attributes, edge_ids)),
        ):
            write_tensors(self._task, _key(part, name), arrays)
        return np.diff(local.edge_type_starts)

    def _node_attributes(self, part: int, local: LocalGraph) -> Values:
        """(inner nodes, attributes), by new ID."""
        if self._node_width == 0:
            return np.empty((local.num_inner, 0))
        first = int(self._order.starts[part])
        return read_node_attributes(self._nodes[part], first, local.num_inner, self._node_width)


def _features(attributes: Values, ids: Mapping[str, Ids]) -> dict[str, Values]:
    """Attributes by feature key, cut by type; none where there are no attributes."""
    if attributes.shape[1] == 0:
        return {}
    ends = np.cumsum([0, *map(len, ids.values())]).tolist()
    return {
        f"{name}/{ATTRIBUTE}": attributes[begin:end]
        for name, (begin, end) in zip(ids, pairwise(ends), strict=True)
    }


def _key(part: int, name: str) -> str:
    return f"part{part}/{name}"
