"""Weights of the nodes in ParMETIS's text: what every partition gets the same share of."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.feature_names import types_with_feature
from partition_ops.chunked.feature_reader import feature_readers
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError
from partition_ops.storage import Store

Weights = npt.NDArray[np.int64]


class NodeWeights:
    """One row of weights for each node, by homogeneous ID.

    Args:
        kind: ``node-types`` (one column a type, 1 for a node's own), ``one``, ``degree`` (edges at a node,
            in and out, without self-loops), ``column=NAME`` (a feature of whole numbers; 1 where a type has
            none) or ``mask=NAME`` (two columns: inside, where the feature is not 0, and outside).
        metadata: The graph's metadata.
        source: Root of the input graph.
        reader: Its edges; read once for ``degree``.

    Raises:
        UsageError: No node type has the feature.
        InvalidInputError: The feature is not one whole number of at least 0 a node.

    Peak memory: nothing for ``node-types`` and ``one``, else 24 bytes a node.
    """

    def __init__(self, kind: str, metadata: GraphMetadata, source: Store, reader: EdgeReader) -> None:
        self._types = len(metadata.node_types)
        self._kind, _, name = kind.partition("=")
        self._values: Weights | None = None
        if self._kind == "degree":
            self._values = _degrees(metadata, reader)
        elif name:
            self._values = _feature(name, metadata, source, missing=int(self._kind == "column"))

    @property
    def count(self) -> int:
        """Number of weights of a node."""
        return {"node-types": self._types, "mask": 2}.get(self._kind, 1)

    def columns(self, type_id: int, begin: int, end: int) -> list[Weights]:
        """(end - begin,) int64 for each weight, of some nodes of one type, by homogeneous ID."""
        if self._kind == "node-types":
            return [np.full(end - begin, int(other == type_id)) for other in range(self._types)]
        if self._values is None:
            return [np.ones(end - begin, np.int64)]
        values = self._values[begin:end]
        if self._kind == "mask":
            inside = (values != 0).astype(np.int64)
            return [inside, 1 - inside]
        return [values]


def _degrees(metadata: GraphMetadata, reader: EdgeReader) -> Weights:
    offsets = metadata.node_offsets
    degrees = np.zeros(offsets[-1], np.int64)
    for chunk in reader.chunks():
        edge_type = metadata.edge_types[chunk.edge_type_id]
        ends = [metadata.node_type_id(name) for name in (edge_type.src, edge_type.dst)]
        for block in reader.blocks(chunk):
            pairs = [block.src + offsets[ends[0]], block.dst + offsets[ends[1]]]
            joined = pairs[0] != pairs[1]
            for ids in pairs:
                first = int(ids.min(initial=offsets[-1]))
                counts = np.bincount(ids[joined] - first)
                degrees[first : first + len(counts)] += counts
    return degrees


def _feature(name: str, metadata: GraphMetadata, source: Store, *, missing: int) -> Weights:
    offsets = metadata.node_offsets
    values = np.full(offsets[-1], missing, np.int64)
    readers = feature_readers(source, metadata)
    found = types_with_feature(metadata, name, "for the weights")
    for node_type in found:
        type_id = metadata.node_type_id(node_type)
        rows = readers[f"{node_type}/{name}"].take(np.arange(metadata.num_nodes[type_id]))
        flat = rows.reshape(len(rows), -1) if len(rows) else np.zeros((0, 1), np.int64)
        if flat.shape[1] != 1 or flat.dtype.kind not in "biu" or flat.min(initial=0) < 0:
            raise InvalidInputError(
                f"The feature {node_type}/{name} cannot be weights",
                found=f"{flat.dtype} rows of {flat.shape[1]} values, the least {flat.min(initial=0)}",
                expected="one whole number of at least 0 a node",
            )
        values[offsets[type_id] : offsets[type_id + 1]] = flat[:, 0]
    return values
