"""The output format ``graphbolt``: partitions that DistGraph's servers of DGL 2.1 load for GraphBolt.

The files are those that ``dgl.distributed.dgl_partition_to_graphbolt`` of DGL 2.1 makes of the format
``dgl``: ``fused_csc_sampling_graph.pt`` with the graph of a partition as CSC matrix, and a partition config
that names it. They are written without DGL 2. Features and original IDs are in the files of the format
``dgl``, which the two formats share.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from functools import partial
from typing import Any, BinaryIO

import numpy as np

from partition_ops.artifacts.book import Book
from partition_ops.formats.columns import Array, Column, StoredArray
from partition_ops.formats.dgl.dgl_format import (
    partition_config,
    tensor_arrays,
    tensor_files,
)
from partition_ops.formats.dgl.loaded_files import load_tensor_files
from partition_ops.formats.findings import Findings
from partition_ops.formats.format import GROUPS, FileWriter, Format, PartitionSize
from partition_ops.formats.graphbolt.checks import CHECKS, check_config, check_graph, load_graph
from partition_ops.formats.neutral_partition import GRAPH_GROUPS, Partition
from partition_ops.formats.torch_files import Instance, write_torch_file
from partition_ops.storage import Store
from partition_ops.storage.store import json_bytes

GRAPH = "fused_csc_sampling_graph.pt"
VERSION_NUMBER = 6199  # of the state of GraphBolt's C++ class
PYTHON_CLASS = ("dgl.graphbolt.impl.fused_csc_sampling_graph", "FusedCSCSamplingGraph")
SCRIPT_CLASS = "__torch__.torch.classes.graphbolt.FusedCSCSamplingGraph"
SMALL_TYPES, NARROW = 127, 2**31 - 1  # DGL takes a narrower dtype for fewer types, nodes or edges than this


class GraphBolt(Format):
    """See `Format`; the folder is ``formats/graphbolt/``."""

    name = "graphbolt"
    checks = CHECKS
    feature_files = "dgl"
    not_stored = ("nodes/orig_id", "nodes/part_id", "edges/orig_id", "edges/new_id")
    has_graph = False
    needs_rows = True

    def partition_files(self, partition: Partition) -> Mapping[str, FileWriter]:
        """Do what `Format.partition_files` describes.

        Peak memory of writing: 16 bytes a node, and 8 bytes an edge of the partition.
        """
        attributes = list(partition.options["graphbolt_attributes"])
        graph = FileWriter(
            GRAPH_GROUPS, partial(_write_graph, partition, attributes), options=f"GraphBolt: {attributes}"
        )
        return {GRAPH: graph, **tensor_files(partition)}

    def memory(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        return 16 * size.nodes + (8 if "eids" in options["graphbolt_attributes"] else 4) * size.edges

    def disk(self, size: PartitionSize, options: Mapping[str, Any]) -> int:
        attributes = options["graphbolt_attributes"]
        edges = 4 + size.typed + 8 * ("eids" in attributes) + ("inner_edge" in attributes)
        return 8192 + edges * size.edges + (12 + ("inner_node" in attributes)) * size.nodes

    def config_files(self, book: Book) -> Mapping[str, bytes]:
        return {f"{book.graph_name}.json": json_bytes(graphbolt_config(book))}

    def arrays(self, output: Store, part: int, *, group: str = "") -> Mapping[str, StoredArray]:
        """Find features and original IDs; see `Format.arrays`."""
        return tensor_arrays(output, self.part_folder(part), group)

    def load(self, output: Store, part: int, groups: Collection[str] = GROUPS) -> dict[str, Array]:
        """Do what `Format.load` describes: the features with DGL's own loader if DGL is installed."""
        found: dict[str, Array] = {}
        if not {*groups}.isdisjoint(GRAPH_GROUPS):
            found |= load_graph(output, f"{self.part_folder(part)}/{GRAPH}")
        return {**found, **load_tensor_files(output, self.part_folder(part), groups)}

    def check_config(self, findings: Findings, output: Store, expected: Book) -> None:
        """Check the partition config."""
        check_config(findings, output, f"{self.folder}/{expected.graph_name}.json", expected)

    def check_partition(
        self, findings: Findings, output: Store, part: int, expected: Book, options: Mapping[str, Any]
    ) -> None:
        """Check names, dtypes and order of the tensors of the graph."""
        check_graph(findings, output, f"{self.part_folder(part)}/{GRAPH}", part, expected, options)


def graphbolt_config(book: Book) -> dict[str, Any]:
    """Return the partition config: that of the format ``dgl``, with GraphBolt's graph instead of DGL's."""
    document = partition_config(book)
    for part in range(book.num_parts):
        files = document[f"part-{part}"]
        del files["part_graph"]
        files["part_graph_graphbolt"] = f"part{part}/{GRAPH}"
    return {**document, "node_map_dtype": "int64", "edge_map_dtype": "int64"}


def _write_graph(partition: Partition, attributes: Collection[str], stream: BinaryIO) -> None:
    from partition_ops.formats.edge_order import EdgeOrder  # brings numba

    columns = partition.columns
    order = EdgeOrder(columns["edges/dst"], partition.num_nodes)
    indptr = Column.of(order.indptr.astype(_narrow(partition.num_edges), copy=False))
    tensors = {"indptr": indptr, "indices": order.arrange(columns["edges/src"], _narrow(partition.num_nodes))}
    types: dict[str, Any] = {}
    if not partition.is_homogeneous:
        dtype = np.int8 if len(partition.edge_types) < SMALL_TYPES else np.int16
        tensors["type_per_edge"] = order.arrange(columns["edges/type_id"], dtype)
        types = {
            "node_type_to_id": numbered(partition.node_types),
            "edge_type_to_id": numbered(partition.edge_types),
        }
    node_attributes = {"_ID": columns["nodes/new_id"]}
    if "inner_node" in attributes:
        node_attributes["inner_node"] = Column.ones_first(partition.num_inner, partition.num_nodes)
    edge_attributes = {}
    if "eids" in attributes:
        edge_attributes["_ID"] = order.arrange(columns["edges/new_id"], np.int64)
    if "inner_edge" in attributes:
        inner = Column.ones_first(partition.num_own_edges, partition.num_edges)
        edge_attributes["inner_edge"] = order.arrange(inner, np.uint8)
    write_sampling_graph(
        stream,
        {
            "independent_tensors": tensors,
            **types,
            "node_attributes": node_attributes,
            "edge_attributes": edge_attributes,
        },
    )


def write_sampling_graph(stream: BinaryIO, state: Mapping[str, Mapping[str, Column]]) -> None:
    """Write the file that ``torch.save`` of DGL 2.1's ``FusedCSCSamplingGraph`` makes.

    Args:
        stream: Where to; it can seek.
        state: The state of GraphBolt's C++ class: tensors by group and name.

    Peak memory: that of the columns.
    """
    version = Column.of(np.array([VERSION_NUMBER], np.int64))
    tensors = {"version_number": version, **state["independent_tensors"]}
    script = Instance("torch", "ScriptObject", ({**state, "independent_tensors": tensors}, SCRIPT_CLASS))
    write_torch_file(stream, Instance(*PYTHON_CLASS, {"_c_csc_graph": script}))


def numbered(names: Iterable[str]) -> dict[str, Column]:
    """Return the ID of each type as GraphBolt stores it: a tensor without dimensions."""
    return {name: _scalar(type_id) for type_id, name in enumerate(names)}


def _scalar(value: int) -> Column:
    return Column(np.dtype(np.int64), (), lambda: iter([np.array(value, np.int64)]))


def _narrow(count: int) -> type[np.signedinteger[Any]]:
    return np.int32 if count < NARROW else np.int64
