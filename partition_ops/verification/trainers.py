"""The trainer of every node and edge of a partition, if a machine has several."""

from __future__ import annotations

import numpy as np

from partition_ops.artifacts import layout
from partition_ops.system.json_documents import check_document
from partition_ops.verification.input import Ids
from partition_ops.verification.output import Output
from partition_ops.verification.truth import Truth


def expected_trainers(output: Output, truth: Truth, part: int) -> tuple[dict[str, Ids], dict[str, Ids]]:
    """Return ``trainer_id`` of nodes and edges by feature key, int64; empty with one trainer a machine.

    Derived from ``assignment/trainers/`` as ``dgl.distributed.partition_graph`` does: an edge has the trainer
    of its destination.
    """
    if _per_machine(output) == 1:
        return {}, {}
    metadata = truth.metadata
    trainers = {name: _trainers(output, name) for name in metadata.node_types}
    nodes = {
        f"{name}/trainer_id": trainers[name][truth.nodes_of(part, type_id)]
        for type_id, name in enumerate(metadata.node_types)
    }
    edges = {
        f"{edge_type}/trainer_id": trainers[edge_type.dst][
            truth.edges[type_id][1][truth.edges_of(part, type_id)]
        ]
        for type_id, edge_type in enumerate(metadata.edge_types)
    }
    return nodes, edges


def trainers_fit(output: Output, truth: Truth) -> str | None:
    """Return a message about a node whose trainer is in another partition; None if there is none."""
    count = _per_machine(output)
    for type_id, name in enumerate(truth.metadata.node_types if count > 1 else ()):
        wrong = np.flatnonzero(_trainers(output, name) // count != truth.parts[type_id])
        if len(wrong):
            return f"node {wrong[0]} of type {name!r} has a trainer of another partition"
    return None


def _per_machine(output: Output) -> int:
    key = f"{layout.ASSIGNMENT}/{layout.ASSIGNMENT_SIDECAR}"
    if not output.store.exists(key):
        return 1
    sidecar = output.store.read_json(key)
    check_document(sidecar, "assignment", where=output.store.uri_of(key))
    return int(sidecar["made_by"].get("num_trainers_per_machine", 1))


def _trainers(output: Output, node_type: str) -> Ids:
    key = f"{layout.ASSIGNMENT}/{layout.assignment_trainers(node_type)}"
    trainers: Ids = np.load(output.store.local_copy(key), allow_pickle=False).astype(np.int64)
    return trainers
