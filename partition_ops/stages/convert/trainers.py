"""The trainer of every node and edge, for machines with several trainers.

``dgl.distributed.partition_graph`` 1.1.3 stores them as the features ``trainer_id``; those of partition p are
k * p to k * p + k - 1 with k trainers on a machine, and an edge has the trainer of its destination. DGL's
``node_split`` and ``edge_split`` read them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts import layout
from partition_ops.chunked.feature_formats import HEADER_LOCK
from partition_ops.chunked.feature_reader import TRAINER, check_no_trainers
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Column
from partition_ops.stages.convert.context import Conversion
from partition_ops.stages.convert.partition_graph import PartitionGraph
from partition_ops.storage import Store

Ids = npt.NDArray[np.int64]


def trainer_features(
    conversion: Conversion, graph: PartitionGraph, part: int
) -> tuple[dict[str, Column], dict[str, Column]]:
    """Return ``trainer_id`` of nodes and of edges by feature key, int64; none with one trainer a machine.

    Raises:
        InvalidInputError: The graph has a feature of that name, or the trainers are not of this assignment.

    Peak memory: 8 bytes an inner node.
    """
    trainers = conversion.trainers_per_machine
    if trainers == 1:
        return {}, {}
    metadata = conversion.metadata
    check_no_trainers(metadata)
    by_type = {
        node_type: _load(conversion.destination, node_type, ids)
        for node_type, ids in graph.nodes.inner_ids_by_type(metadata).items()
    }
    local = np.concatenate(list(by_type.values()))
    if (local // trainers != part).any():
        raise InvalidInputError(
            "The trainers in assignment/trainers/ are not those of the assignment",
            remedy="Run partition again.",
        )

    def of_type(type_id: int) -> Column:
        def blocks() -> Iterator[Ids]:
            for destinations in graph.destinations(type_id):
                yield local[destinations]

        return Column(np.dtype(np.int64), (int(graph.edge_counts[type_id]),), blocks)

    of_edges = {f"{name}/{TRAINER}": of_type(type_id) for type_id, name in enumerate(metadata.edge_types)}
    return {f"{name}/{TRAINER}": Column.of(found) for name, found in by_type.items()}, of_edges


def read_trainers(conversion: Conversion, ids: Mapping[str, Ids]) -> list[Ids]:
    """Return (n,) int64 trainers of some nodes of each type; nothing with one trainer a machine.

    Args:
        conversion: The conversion.
        ids: By node type, (n,) int64 type-wise IDs of the input.
    """
    if conversion.trainers_per_machine == 1:
        return []
    return [_load(conversion.destination, node_type, mine) for node_type, mine in ids.items()]


def _load(destination: Store, node_type: str, ids: Ids) -> Ids:
    key = f"{layout.ASSIGNMENT}/{layout.assignment_trainers(node_type)}"
    path = destination.local_copy(key)
    with HEADER_LOCK:
        trainers = np.load(path, mmap_mode="r", allow_pickle=False)
    found: Ids = trainers[ids].astype(np.int64)
    return found
