"""Engine ``metis``: the METIS library that pymetis brings, called with several balance constraints.

pymetis itself passes one weight a node; the shared object behind it exports METIS's C functions with
64-bit integers. Source: METIS manual 5.1, section 5.4, ``METIS_PartGraphKway``.
"""

from __future__ import annotations

import ctypes
import mmap
from functools import cache, partial
from typing import Any

import numpy as np
import numpy.typing as npt

from partition_ops.artifacts.parhip import ParhipGraph
from partition_ops.errors import EngineError
from partition_ops.stages.partition.engines.child import call_in_child
from partition_ops.stages.partition.engines.random import partition_random
from partition_ops.stages.partition.options import PartitionConfig
from partition_ops.stages.partition.problem import Parts, Problem
from partition_ops.stages.partition.weights import Weights, shares, tolerances

METIS_OK = 1
LEAST_STATUS = 4  # below 0
NUM_OPTIONS = 40
OBJECTIVES = {"cut": 0, "vol": 1}
DEFAULT_TOLERANCE = 1.03
MESSAGES = {
    -2: "it refused the graph or an option",
    -3: "there was not enough memory",
    -4: "an error that it does not explain",
}


def partition_metis(problem: Problem) -> Parts:
    """Cut few edges with multilevel k-way METIS, every column of the weights balanced.

    Graphs on which there is nothing to cut (no edges, or fewer nodes than partitions) are dealt out
    at random instead: METIS fails on several of them.

    Returns:
        (nodes,) int32, partition by homogeneous ID.

    Raises:
        EngineError: METIS failed.

    Peak memory: METIS's own, about 130 bytes a half-edge, and 8 bytes a node and constraint.
    """
    config, graph = problem.config, problem.graph
    if problem.num_parts == 1:
        return np.zeros(graph.num_nodes, np.int32)
    if graph.num_half_edges == 0 or graph.num_nodes <= problem.num_parts:
        return partition_random(problem)
    return cut_graph(config, graph, problem.weights)


def cut_graph(
    config: PartitionConfig, graph: ParhipGraph, weights: Weights, edge_weights: Weights | None = None
) -> Parts:
    """Call METIS on a graph in memory that has more nodes than partitions, and edges.

    Args:
        config: Partitions, their shares, tolerance, objective, seed.
        graph: Symmetric, without duplicates and self-loops; int64.
        weights: (nodes, constraints) int64, no column of zeros.
        edge_weights: (half-edges,) int64, or None where every edge weighs 1.

    Returns:
        (nodes,) int32.

    Raises:
        EngineError: METIS failed.
    """
    parts = np.frombuffer(mmap.mmap(-1, 8 * graph.num_nodes), np.int64)  # shared with the child
    allowed = tolerances(config, weights.max(axis=0), weights.sum(axis=0), DEFAULT_TOLERANCE)
    fractions = shares(config)
    call = partial(
        _library().METIS_PartGraphKway,
        _number(graph.num_nodes),
        _number(weights.shape[1]),
        _array(graph.offsets),
        _array(graph.neighbours),
        _array(weights),
        None,  # sizes of the nodes, for the communication volume
        None if edge_weights is None else _array(edge_weights),
        _number(len(fractions)),
        _array(np.repeat(fractions, weights.shape[1]).astype(np.float32)),
        _array(allowed.astype(np.float32)),
        _array(_options(config)),
        _number(0),
        _array(parts),
    )
    status = call_in_child("METIS", lambda: call() + LEAST_STATUS) - LEAST_STATUS  # it catches SIGTERM
    if status != METIS_OK:
        raise EngineError(
            f"METIS could not partition the graph: {MESSAGES.get(status, f'status {status}')}",
            found=f"{graph.num_nodes} nodes, {graph.num_half_edges} half-edges, {weights.shape[1]} weights",
            remedy="Use a machine with more memory, another --balance, or --engine random.",
        )
    return parts.astype(np.int32)


@cache
def _library() -> Any:
    import pymetis._internal

    library = ctypes.CDLL(pymetis._internal.__file__)
    library.METIS_PartGraphKway.restype = ctypes.c_int
    return library


def _options(config: PartitionConfig) -> npt.NDArray[np.int64]:
    import pymetis._internal

    indices: Any = pymetis._internal.options_indices  # type: ignore[attr-defined]  # differ by version

    options = np.full(NUM_OPTIONS, -1, np.int64)  # -1 asks for METIS's default
    options[int(indices.SEED)] = config.seed
    options[int(indices.OBJTYPE)] = OBJECTIVES[config.objective]
    options[int(indices.NUMBERING)] = 0
    return options


def _number(value: int) -> Any:
    return ctypes.byref(ctypes.c_int64(value))


def _array(array: npt.NDArray[Any]) -> Any:
    return array.ctypes.data_as(ctypes.c_void_p)
