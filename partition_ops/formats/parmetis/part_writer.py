"""The folder of one partition, from ParMETIS's output."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.tasks import ArtifactWriter
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.formats.columns import Column
from partition_ops.formats.format import get_format
from partition_ops.formats.parmetis.edge_rows import EdgeLoader, EdgeRows
from partition_ops.formats.parmetis.local_graph import LocalGraph, build_local_graph
from partition_ops.formats.parmetis.node_order import GivenOrder, read_node_attributes
from partition_ops.formats.parmetis.output_files import ParmetisFiles, common_width
from partition_ops.formats.partition import Partition

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
        node_attributes = self._node_attributes(part, local)
        partition = self._partition(part, local, first_edge_id, node_attributes, edges.attributes)
        for name, file in get_format("dgl").partition_files(partition).items():
            key = f"part{part}/{name}"
            with self._task.destination.create(key) as new, new.path.open("wb") as stream:
                file.write(stream)
            self._task.wrote(new.published())
        return np.diff(local.edge_type_starts)

    def _partition(
        self,
        part: int,
        local: LocalGraph,
        first_edge_id: int,
        node_attributes: Values,
        edge_attributes: Values,
    ) -> Partition:
        """The partition as columns, for the format that writes it."""
        metadata, nodes, edges = self._metadata, len(local.node_ids), len(local.src)
        node_ids, edge_ids = local.inner_ids_by_type(metadata), local.edge_ids_by_type(metadata)
        sizes = np.diff(local.edge_type_starts)
        arrays: dict[str, Values] = {
            "nodes/new_id": local.node_ids,
            "nodes/orig_id": local.node_orig_ids,
            "nodes/type_id": local.node_type_ids,
            "nodes/part_id": local.node_parts,
            "edges/src": local.src,
            "edges/dst": local.dst,
            "edges/orig_id": local.edge_orig_ids,
            "edges/type_id": np.repeat(np.arange(len(sizes), dtype=np.int32), sizes),
            **_features("node_features", node_attributes, node_ids),
            **_features("edge_features", edge_attributes, edge_ids),
            **{f"node_orig_ids/{name}": ids for name, ids in node_ids.items()},
            **{f"edge_orig_ids/{name}": ids for name, ids in edge_ids.items()},
        }
        return Partition(
            part=part,
            node_types=tuple(metadata.node_types),
            edge_types=tuple(map(str, metadata.edge_types)),
            num_inner=local.num_inner,
            num_nodes=nodes,
            num_own_edges=edges,
            num_edges=edges,
            columns={
                "edges/new_id": Column.count(first_edge_id, edges),
                **{name: Column.of(array) for name, array in arrays.items()},
            },
        )

    def _node_attributes(self, part: int, local: LocalGraph) -> Values:
        """(inner nodes, attributes), by new ID."""
        if self._node_width == 0:
            return np.empty((local.num_inner, 0))
        first = int(self._order.starts[part])
        return read_node_attributes(self._nodes[part], first, local.num_inner, self._node_width)


def _features(group: str, attributes: Values, ids: Mapping[str, Ids]) -> dict[str, Values]:
    """Attributes by column name, cut by type; none if there are no attributes."""
    if attributes.shape[1] == 0:
        return {}
    ends = np.cumsum([0, *map(len, ids.values())]).tolist()
    return {
        f"{group}/{name}/{ATTRIBUTE}": attributes[begin:end]
        for name, (begin, end) in zip(ids, pairwise(ends), strict=True)
    }
