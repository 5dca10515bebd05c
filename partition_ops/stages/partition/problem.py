"""The problem that an engine solves: a graph, options, and weights that every partition gets its share of."""

from __future__ import annotations

import logging
import math
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.artifacts.parhip import ParhipGraph, open_parhip
from partition_ops.chunked.feature_reader import FeatureReader, feature_readers, types_with_feature
from partition_ops.chunked.metadata import GraphMetadata
from partition_ops.chunked.names import MASKS
from partition_ops.errors import PartitionOpsError, UsageError
from partition_ops.stages.partition.multilevel.tuning import LIGHT, MOST_OF_SHARE, TUNINGS, Tuning
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.storage import Store
from partition_ops.system.memory import drop_pages
from partition_ops.system.progress import NoProgress, Progress

if TYPE_CHECKING:
    from partition_ops.traffic.model import TrafficModel

Parts = npt.NDArray[np.int32]
logger = logging.getLogger("partition_ops")
Classes = npt.NDArray[np.int32]
Weights = npt.NDArray[np.int64]
NO_WEIGHTS: Weights = np.zeros(0, np.int64)
MOST_CLASSES = 64
CACHED_ARRAYS = ("graph", "in_degrees", "classes")  # attributes that `Problem.forget` frees
BLOCK = 1 << 18  # values; copies of so many in 64 bits fit the third-level cache
FEW_VALUES = 1 << 16  # from the least to the most: they are counted instead of sorted


@dataclass(frozen=True)
class Problem:
    """A graph, and how to partition it."""

    config: PartitionConfig  # number of partitions, balance, seed
    metadata: GraphMetadata  # the graph's metadata
    artifacts: Store  # root of the run, with the graph that ``prepare`` wrote
    source: Store | None = None  # root of the input graph, for the features to balance by
    notes: dict[str, Any] = field(default_factory=dict)  # figures that the engine adds to the result
    # shows how many partitions of several have been made
    progress: Progress = field(default_factory=NoProgress)
    # (half-edges,) int64, what cutting each edge costs, the same in both directions; empty if every edge
    # costs 1. Eight times their sum at any node must be below 2**31
    edge_weights: Weights = field(default_factory=lambda: NO_WEIGHTS)
    # model of the traffic of training, for the objective ``train``; None for the others
    traffic: TrafficModel | None = None
    uneven: bool = False  # whether training reads some edges much more than others
    row_weight: float = 1.0  # weight of an edge over which a row an epoch is read; 1 without weights
    preset: Tuning | None = None  # constants to use instead of those of the effort

    @property
    def tuning(self) -> Tuning:
        """The constants that decide quality and time."""
        return self.preset or TUNINGS[self.config.effort]

    @cached_property
    def graph(self) -> ParhipGraph:
        """The symmetric homogeneous graph; its neighbours are mapped, not read."""
        return open_parhip(self.graph_file)

    @property
    def graph_file(self) -> Path:
        """The ParHIP file of `graph` on this machine."""
        return self.artifacts.local_copy(layout.PREPARED_GRAPH)

    @cached_property
    def in_degrees(self) -> npt.NDArray[np.int64]:
        """(nodes,) int64, in-degree by homogeneous ID; edges that validation hides do not count."""
        degrees: npt.NDArray[np.int64] = np.load(self.artifacts.local_copy(layout.PREPARED_IN_DEGREES))
        return degrees

    @cached_property
    def limits_in_edges(self) -> bool:
        """Whether the in-edges of all classes together have a limit, see `most_in_edges`."""
        balanced = self.config.balance == "edges"  # in each class, and so in all
        if balanced or self.config.most_of_in_edges is None or self.num_parts == 1:
            return False
        return bool(self.in_degrees.any())

    @cached_property
    def features(self) -> tuple[str, ...]:
        """The features to balance by, see `balance_features`."""
        return balance_features(self.config, self.metadata, self.source) if self.source else ()

    @cached_property
    def classes(self) -> Classes:
        """(nodes,) int32, the class of each node; every partition gets its share of each class."""
        if self.features and self.source is not None:
            return feature_classes(self.config, self.metadata, self.source, self.features)
        offsets = self.metadata.node_offsets
        return type_classes(self.config, offsets, 0, offsets[-1])

    @cached_property
    def price(self) -> float:
        """What a node must save to leave its old partition, in the unit of the weights of edges."""
        return self.config.migration_price * self.row_weight

    def but(self, **changes: Any) -> Problem:
        """Return the problem with other values, on which its arrays must not depend: it keeps them."""
        other = replace(self, **changes)
        vars(other).update({name: read for name, read in vars(self).items() if name in CACHED_ARRAYS})
        return other

    def forget(self) -> None:
        """Free the arrays with an entry a node, and pages of the graph; they are read again when used."""
        graph = vars(self).get("graph")
        if graph is not None:
            drop_pages(graph.neighbours)
        for name in CACHED_ARRAYS:
            vars(self).pop(name, None)

    @property
    def num_parts(self) -> int:
        """See `PartitionConfig.all_parts`."""
        return self.config.all_parts


def type_classes(config: PartitionConfig, offsets: tuple[int, ...], begin: int, end: int) -> Classes:
    """Return (end - begin,) int32, the class of some consecutive nodes: their type, or 0 for ``none``.

    Classes count from 0 over the types that have nodes.
    """
    if config.balance == "none":
        return np.zeros(end - begin, np.int32)
    starts = np.unique(offsets[:-1])  # a type without nodes begins where the next one begins
    starts = starts[starts < offsets[-1]]
    bounds = np.append(starts, offsets[-1]).clip(begin, end)
    return np.repeat(np.arange(len(starts), dtype=np.int32), np.diff(bounds))


def balance_features(config: PartitionConfig, metadata: GraphMetadata, source: Store) -> tuple[str, ...]:
    """Return the features to balance by: those of the options, or else the masks of training.

    Without options, these are those of `MASKS` that have one integer or boolean a node in every type that has
    them, unless they make too many classes.
    """
    if config.balance_ntypes is not None:
        return config.balance_features
    having = {name: [one.key for one in metadata.node_features if one.name == name] for name in MASKS}
    if not any(having.values()):
        return ()
    readers = feature_readers(source, metadata)
    found = tuple(
        name for name, keys in having.items() if keys and all(_is_mask(readers[key]) for key in keys)
    )
    types = len({one.type_name for one in metadata.node_features if one.name in found})
    classes = len(metadata.node_types) + types * (2 ** len(found) - 1)
    return found if classes <= MOST_CLASSES else found[:1]


def _is_mask(reader: FeatureReader) -> bool:
    with suppress(PartitionOpsError):  # validation reports broken files
        header = reader.header()
        return header is not None and header[0].kind in "biu" and math.prod(header[1]) == 1
    return False


def feature_classes(
    config: PartitionConfig, metadata: GraphMetadata, source: Store, features: tuple[str, ...]
) -> Classes:
    """Return (nodes,) int32, classes by the values of features, inside those of `type_classes`.

    With several features, each combination of their values is a class. A node type without a feature counts
    as having the value 0 everywhere, so that one without any of the features is a class of its own.

    Raises:
        UsageError: No node type has such a feature, its values are not one integer a node, or too many.

    Peak memory: 12 bytes a node, and twice those of a value of a feature, or three times if it is unsigned;
        40 bytes more with values that are far apart.
    """
    readers = feature_readers(source, metadata)
    offsets = metadata.node_offsets
    dense: npt.NDArray[Any] = type_classes(config, offsets, 0, offsets[-1])
    found: npt.NDArray[Any] = dense[:0]
    for name in features:
        own = []
        for node_type in types_with_feature(metadata, name, "to balance by"):
            begin, end = (offsets[metadata.node_type_id(node_type) + i] for i in (0, 1))
            key = f"{node_type}/{name}"
            own.append((begin, _integers(readers[key], key, end - begin)))
        values = np.zeros(offsets[-1], np.result_type(np.int8, *(integers.dtype for _, integers in own)))
        for begin, integers in own:
            values[begin : begin + len(integers)] = integers
        del own
        distinct, numbers = _numbered(values)
        del values
        most = (int(dense.max(initial=0)) + 1) * len(distinct)
        dense = dense.astype(np.result_type(dense, numbers, np.min_scalar_type(-most)), copy=False)
        dense *= len(distinct)
        dense += numbers
        del numbers
        found, dense = _numbered(dense)
    names = " and ".join(map(repr, features))
    one = len(features) == 1
    if len(found) > MOST_CLASSES:
        raise UsageError(
            f"The feature {names} has too many values to balance by"
            if one
            else f"The features {names} have too many combinations of values to balance by",
            found=f"{len(found)} with the node types",
            expected=f"at most {MOST_CLASSES}",
            remedy="Name another feature, or none, with --balance-ntypes.",
        )
    sizes = np.zeros(len(found), np.int64)
    for begin in range(0, len(dense), BLOCK):
        sizes += np.bincount(dense[begin : begin + BLOCK], minlength=len(found))
    few = sizes < config.all_parts
    if few.any():
        logger.warning(
            "%s: %d of the %d classes by the feature%s %s have fewer nodes than there are %s:"
            " some get no node of such a class",
            source.uri,
            np.count_nonzero(few),
            len(found),
            "" if one else "s",
            names,
            "partitions" if config.num_trainers_per_machine == 1 else "trainers",
        )
    result: Classes = dense.astype(np.int32, copy=False)
    return result


def _numbered(values: npt.NDArray[Any]) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
    """Return the distinct values, ascending, and for each value its number among them.

    Masks have few: counting them takes a quarter of the time of sorting them. Copies in 64 bits, which would
    take most of the time and of the memory, are made of a block at a time.
    """
    least, most = int(values.min(initial=0)), int(values.max(initial=0))
    if most - least >= FEW_VALUES:
        return np.unique(values, return_inverse=True)
    blocks = [slice(begin, begin + BLOCK) for begin in range(0, len(values), BLOCK)]
    used = np.zeros(most - least + 1, np.bool_)
    for block in blocks:
        used[values[block].astype(np.int64) - least] = True
    numbers, found = np.cumsum(used, dtype=np.int32) - 1, np.empty(len(values), np.int32)
    for block in blocks:
        found[block] = numbers[values[block].astype(np.int64) - least]
    return np.flatnonzero(used) + least, found


def _integers(reader: FeatureReader, key: str, rows: int) -> npt.NDArray[Any]:
    values: npt.NDArray[Any] = reader.take(np.arange(rows))
    values = values.reshape(rows, -1) if rows else np.zeros((0, 1), np.int8)
    check_classes(key, values.dtype, values.shape[1:])
    narrow = values.dtype.itemsize < 8  # unsigned numbers of 64 bits have no common dtype with signed ones
    return values[:, 0] if narrow else values[:, 0].astype(np.int64)


def check_classes(key: str, dtype: np.dtype[Any], shape: tuple[int, ...]) -> None:
    """Raise `UsageError` if a feature of such a dtype and shape does not give each node one class."""
    if dtype.kind not in "biu" or math.prod(shape) != 1:
        raise UsageError(
            f"The feature {key!r} cannot be balanced by",
            found=f"{dtype} rows of {math.prod(shape)} values",
            expected="one integer or boolean a node",
            remedy="Use another feature, or write this one as integers.",
        )


def class_weights(
    classes: npt.NDArray[Any], in_degrees: npt.NDArray[Any], degree_columns: npt.NDArray[Any], count: int
) -> Weights:
    """Return (nodes, count) int64: a one in the column of each node's class, and its in-degree in another.

    The arguments are attributes of `Constraints`. ``dgl.distributed.partition_graph`` builds the same from
    ``balance_ntypes`` and ``balance_edges``.
    """
    rows = np.arange(len(classes))
    columns = np.zeros((len(classes), count), np.int64)
    columns[rows, classes] = 1
    if len(in_degrees):
        columns[rows, degree_columns[classes]] = in_degrees
    return columns


def tolerances(
    config: PartitionConfig, heaviest: Weights, sums: Weights, default: float
) -> npt.NDArray[np.float64]:
    """Return (constraints,) the largest weight of a partition over its share.

    It is the tolerance of the options, or else ``default``, or more if a single node weighs more: METIS takes
    the worst constraint as the measure of all, so five nodes of a small type, which two partitions cannot
    share evenly, would let it leave every other type as uneven. ``heaviest`` and ``sums`` are of the nodes,
    by constraint; no sum is 0.
    """
    result: npt.NDArray[np.float64] = np.maximum(
        config.tolerance or default, 1 + heaviest / (sums * shares(config).min())
    )
    return result


def most_in_edges(config: PartitionConfig, in_degrees: Weights) -> Weights:
    """Return (parts,) int64, the in-edges that each partition may have.

    It is the share times ``edge_tolerance``, or what the heaviest nodes force: the most that a partition has
    if each of them, the heaviest first, goes where most of the share is left.
    """
    ideal = shares(config) * in_degrees.sum()
    heavy = np.sort(in_degrees[in_degrees > LIGHT * ideal.min()])[::-1]
    loads = np.zeros(len(ideal))
    for degree in heavy.tolist():
        loads[np.argmin((loads + degree) / ideal)] += degree
    forced = float((loads / ideal).max(initial=0))
    tolerance = max(config.most_of_in_edges or 0.0, forced + LIGHT)
    found: Weights = np.floor(ideal * tolerance).astype(np.int64)
    return found


def shares(config: PartitionConfig) -> npt.NDArray[np.float64]:
    """Return (parts,) the share of every partition, or of every trainer if machines have several; sum 1."""
    wanted = np.array(config.target_shares or [1.0] * config.num_parts)
    trainers = config.num_trainers_per_machine
    return np.repeat(wanted / wanted.sum() / trainers, trainers)


def can_be_shared(config: PartitionConfig, heaviest: Weights, sums: Weights) -> npt.NDArray[np.bool_]:
    """Return (constraints,) bool, the constraints that ParMETIS gets; arguments are as for `tolerances`.

    Five nodes of a small type, which four partitions cannot share evenly, make it leave every other type as
    uneven, whatever the tolerance of the small one is. Such columns are left out, unless there are no others.
    """
    fits = heaviest * MOST_OF_SHARE <= sums * shares(config).min()
    chosen: npt.NDArray[np.bool_] = (sums > 0) & fits
    return chosen if chosen.any() else sums > 0
