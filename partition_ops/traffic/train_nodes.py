"""The train nodes of a graph: those that batches are drawn from."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence, Set
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.chunked.feature_reader import FeatureReader, feature_readers
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.chunked.names import TRAIN_MASK
from partition_ops.errors import UsageError, one_of
from partition_ops.storage import Store

LABEL = "label"
BLOCK = 1 << 20  # rows that are read at a time
Mask = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class TrainType:
    """A node type with train nodes."""

    node_type: str
    # name of the feature that is not 0 for train nodes; None if all nodes of the type are
    mask: str | None = None

    def __str__(self) -> str:
        return self.node_type if self.mask is None else f"{self.node_type}:{self.mask}"


def train_types(metadata: GraphMetadata, wanted: Sequence[str] = ()) -> list[TrainType]:
    """Return the node types with train nodes, in the order of the type IDs.

    Args:
        metadata: The graph's metadata.
        wanted: ``TYPE`` or ``TYPE:MASK`` for each; a type without a mask has its ``train_mask``, or all
            nodes if it has none. If it is empty: the types with a feature ``train_mask``, otherwise all nodes
            of those with a feature ``label``, otherwise all nodes of those with in-edges.

    Raises:
        UsageError: There is no such node type or feature, or a type is named twice.
    """
    features = {(one.type_name, one.name) for one in metadata.node_features}
    counts = zip(metadata.edge_types, metadata.num_edges, strict=True)
    return choose_train_types(
        metadata.node_types, features, [one.dst for one, count in counts if count], wanted
    )


def choose_train_types(
    node_types: Sequence[str], features: Set[tuple[str, str]], ends: Collection[str], wanted: Sequence[str]
) -> list[TrainType]:
    """Return the node types with train nodes, in the order of the type IDs; see `train_types`.

    Args:
        node_types: All node types, by type ID.
        features: Node type and name of each feature.
        ends: Node types that have in-edges.
        wanted: As for `train_types`.

    Raises:
        UsageError: As of `train_types`.
    """

    def masked(node_type: str) -> TrainType:
        return TrainType(node_type, TRAIN_MASK if (node_type, TRAIN_MASK) in features else None)

    if wanted:
        named = [_named(node_types, text, features) or masked(text) for text in wanted]
        return _in_order(node_types, named)
    for name in (TRAIN_MASK, LABEL):
        having = [node_type for node_type in node_types if (node_type, name) in features]
        if having:
            return [masked(node_type) for node_type in having]
    return [TrainType(node_type) for node_type in node_types if node_type in (ends or node_types)]


def _named(node_types: Sequence[str], text: str, features: Set[tuple[str, str]]) -> TrainType | None:
    """Return the type of ``TYPE:MASK``; None for ``TYPE``."""
    node_type, colon, mask = text.partition(":")
    if node_type not in node_types:
        raise UsageError(f"There is no node type {node_type!r}", expected=one_of(node_types))
    if not colon:
        return None
    if (node_type, mask) not in features:
        known = [name for owner, name in sorted(features) if owner == node_type]
        raise UsageError(
            f"The node type {node_type!r} has no feature {mask!r}",
            expected=one_of(known) if known else "no mask: it has no features",
        )
    return TrainType(node_type, mask)


def _in_order(node_types: Sequence[str], named: list[TrainType]) -> list[TrainType]:
    by_type = {one.node_type: one for one in named}
    if len(by_type) < len(named):
        raise UsageError("A node type has train nodes twice", found=", ".join(map(str, named)))
    return [by_type[node_type] for node_type in node_types if node_type in by_type]


def check_train_nodes(source: Store, metadata: GraphMetadata, wanted: Sequence[str]) -> None:
    """Check the names of train nodes before any work; only headers of files are read.

    Args:
        source: The graph's root.
        metadata: Its metadata.
        wanted: As for `train_types`.

    Raises:
        UsageError: As of `train_types`, or a mask is not one number a node.
        InvalidInputError: A mask cannot be read.
    """
    types = train_types(metadata, wanted) if wanted else []
    readers = feature_readers(source, metadata) if any(one.mask for one in types) else {}
    for one in types:
        header = readers[f"{one.node_type}/{one.mask}"].header() if one.mask else None
        if header is not None:
            check_mask(f"{one.node_type}/{one.mask}", *header)


def read_train_nodes(source: Store, metadata: GraphMetadata, types: Sequence[TrainType]) -> Mask:
    """Return (nodes,) bool by homogeneous ID of the input: whether each node is a train node.

    Args:
        source: The graph's root.
        metadata: Its metadata.
        types: The types, of `train_types`.

    Raises:
        InvalidInputError: A mask cannot be read.
        UsageError: A mask is not one number a node.

    Peak memory: a byte a node, and 16 MiB.
    """
    offsets = metadata.node_offsets
    found = np.zeros(offsets[-1], np.bool_)
    readers = feature_readers(source, metadata) if any(one.mask for one in types) else {}
    for one in types:
        type_id = metadata.node_type_id(one.node_type)
        mine = found[offsets[type_id] : offsets[type_id + 1]]
        if one.mask is None:
            mine[:] = True
        else:
            _read_mask(readers[f"{one.node_type}/{one.mask}"], f"{one.node_type}/{one.mask}", mine)
    return found


def _read_mask(reader: FeatureReader, key: str, mask: Mask) -> None:
    check_mask(key, reader.layout.dtype, reader.layout.shape)
    ranges = (np.arange(at, min(at + BLOCK, len(mask))) for at in range(0, len(mask), BLOCK))
    at = 0
    for values in reader.stream(ranges):
        mask[at : at + len(values)] = values.reshape(len(values)) != 0
        at += len(values)


def check_mask(key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Check that a feature with rows of a dtype and a shape is a mask.

    Raises:
        UsageError: It is not one number a node.
    """
    if math.prod(shape) != 1:
        raise UsageError(
            f"The feature {key!r} is not a mask",
            found=f"{dtype} rows of shape {shape}",
            expected="one boolean or number a node",
            remedy="Name another mask with --train-nodes TYPE:MASK, or write this one with one value a node.",
        )
