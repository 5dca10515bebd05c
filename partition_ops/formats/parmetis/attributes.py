"""Features as the trailing attributes of ParMETIS's text."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.feature_reader import FeatureReader, feature_readers
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.errors import UsageError
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]
Values = npt.NDArray[Any]
ALL = "all"


class Attributes:
    """The chosen features of the nodes, or of the edges: the same columns in every row of the file.

    A feature has as many columns as its widest type has values in a row. A type that has fewer, or has no
    such feature, has zeros behind its own.

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
        self._widths = [max(map(_width, of_name.values())) for of_name in self._readers]

    @property
    def width(self) -> int:
        """Number of columns."""
        return sum(self._widths)

    def of_type(self, type_id: int) -> _Rows:
        """The attributes of one type, to be taken in the order of its IDs."""
        return _Rows([readers.get(type_id) for readers in self._readers], self._widths)


class _Rows:
    """Attributes of ascending type-wise IDs of one type, block after block."""

    def __init__(self, readers: Sequence[FeatureReader | None], widths: Sequence[int]) -> None:
        self._widths = widths
        self._wanted = np.empty(0, np.int64)
        self._dtypes = [reader.layout.dtype if reader else np.dtype(np.uint8) for reader in readers]
        self._streams = [reader.stream(self._feed()) if reader else None for reader in readers]

    def take(self, ids: Ids) -> list[Values]:
        """(n, columns) for each feature. Peak memory: these, and what `FeatureReader.stream` takes.

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
    """Enter the next rows of a stream, whose pieces end where the block does."""
    done = 0
    while done < len(block):
        values = next(stream)
        flat = values.reshape(len(values), -1)
        block[done : done + len(flat), : flat.shape[1]] = flat
        done += len(flat)


def chosen_attributes(
    names: Sequence[str], metadata: GraphMetadata, source: Store
) -> tuple[Attributes, Attributes]:
    """Those of the nodes and those of the edges.

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


def _width(reader: FeatureReader) -> int:
    """Values in a row; none for a type without rows, whose files may not tell."""
    return reader.rows and int(np.prod(reader.layout.shape, dtype=np.int64))
