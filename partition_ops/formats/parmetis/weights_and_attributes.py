"""Values beside the IDs in a row of ParMETIS's text: the weights of a node, and features as attributes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.edges import EdgeReader
from partition_ops.chunked.feature_reader import FeatureReader, feature_readers, types_with_feature
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import InvalidInputError, UsageError
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]
Weights = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
ALL = "all"


class Attributes:
    """The chosen features of the nodes, or of the edges: the same columns in every row of the file.

    A feature has as many columns as its widest type has values in a row. A type with fewer values, or
    without the feature, has zeros in the other columns.

    Args:
        names: Of features, in the order of their columns.
        types: Names of all node types, or edge types, by type ID.
        readers: Feature readers by ``type/name``.
    """

    def __init__(
        self, names: Sequence[str], types: Sequence[str], readers: Mapping[str, FeatureReader]
    ) -> None:
        self._readers = [
            {
                type_id: readers[f"{kind}/{name}"]
                for type_id, kind in enumerate(types)
                if f"{kind}/{name}" in readers
            }
            for name in names
        ]
        self._widths = [
            max(  # a type without rows has none: its files may not tell
                reader.rows and int(np.prod(reader.layout.shape, dtype=np.int64))
                for reader in of_name.values()
            )
            for of_name in self._readers
        ]

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(self._widths)

    def of_type(self, type_id: int) -> _Rows:
        """Return the attributes of one type, to be read in the order of its IDs."""
        return _Rows([readers.get(type_id) for readers in self._readers], self._widths)


class _Rows:
    """Attributes of ascending type-wise IDs of one type, block after block."""

    def __init__(self, readers: Sequence[FeatureReader | None], widths: Sequence[int]) -> None:
        self._widths = widths
        self._wanted = np.empty(0, np.int64)
        self._dtypes = [reader.layout.dtype if reader else np.dtype(np.uint8) for reader in readers]
        self._streams = [reader.stream(self._feed()) if reader else None for reader in readers]

    def take(self, ids: Ids) -> list[Values]:
        """Return (n, columns) for each feature. Peak memory: these, and what `FeatureReader.stream` takes.

        Raises:
            InvalidInputError: A feature's file cannot be read.
        """
        self._wanted = ids
        rows = [
            np.zeros((len(ids), width), dtype)
            for width, dtype in zip(self._widths, self._dtypes, strict=True)
        ]
        for stream, block in zip(self._streams, rows, strict=True):
            if stream is not None:
                _fill(block, stream)
        return rows

    def _feed(self) -> Iterator[Ids]:
        while True:
            yield self._wanted


def _fill(block: Values, stream: Iterator[Values]) -> None:
    """Enter the next rows of a stream, whose pieces end at the end of the block."""
    done = 0
    while done < len(block):
        values = next(stream)
        flat = values.reshape(len(values), -1)
        block[done : done + len(flat), : flat.shape[1]] = flat
        done += len(flat)


def chosen_attributes(
    names: Sequence[str], metadata: GraphMetadata, source: Store
) -> tuple[Attributes, Attributes]:
    """Return the attributes of the nodes and those of the edges.

    Args:
        names: Of features, or ``all``.
        metadata: The graph's metadata.
        source: Root of the input graph.

    Raises:
        UsageError: There is no such feature.
    """
    readers = feature_readers(source, metadata)
    known = [
        list(dict.fromkeys(feature.name for feature in features))
        for features in (metadata.node_features, metadata.edge_features)
    ]
    for name in names:
        if name != ALL and not any(name in of_kind for of_kind in known):
            raise UsageError(
                f"No type has a feature {name!r} for --attributes",
                expected=", ".join([ALL, *dict.fromkeys(known[0] + known[1])]),
            )
    picked = [
        list(dict.fromkeys(found for name in names for found in of_kind if name in (ALL, found)))
        for of_kind in known
    ]
    edge_types = list(map(str, metadata.edge_types))
    return Attributes(picked[0], metadata.node_types, readers), Attributes(picked[1], edge_types, readers)


class NodeWeights:
    """One row of weights for each node, by homogeneous ID.

    Args:
        kind: ``node-types`` (one column a type, 1 for a node's own), ``one``, ``degree`` (edges at a node,
            in and out, without self-loops), ``column=NAME`` (a feature of whole numbers; 1 for types without
            it) or ``mask=NAME`` (two columns: inside, where the feature is not 0, and outside).
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
        """Return (end - begin,) int64 for each weight, of some nodes of one type, by homogeneous ID."""
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
