"""Checks of GraphBolt's files for ``verify``, which share no code with what writes the files.

DGL 2 is not needed. The classes of GraphBolt become plain objects, and any other class in a file is an error.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from partition_ops.artifacts.book import Book
from partition_ops.errors import InvalidInputError
from partition_ops.formats.columns import Array
from partition_ops.formats.dgl.checks import config_values
from partition_ops.formats.findings import Findings
from partition_ops.formats.torch_files import check_torch_file
from partition_ops.formats.torch_reader import read_torch_file
from partition_ops.storage import Store

CHECKS = {"graphbolt-graph": "the tensors of GraphBolt's graphs have the names, dtypes and order of DGL 2.1"}
CLASSES = {
    ("dgl.graphbolt.impl.fused_csc_sampling_graph", "FusedCSCSamplingGraph"),
    ("torch", "ScriptObject"),
}
SCRIPT = "__torch__.torch.classes.graphbolt.FusedCSCSamplingGraph"
FILES = {
    "node_feats": "node_feat.dgl",
    "edge_feats": "edge_feat.dgl",
    "part_graph_graphbolt": "fused_csc_sampling_graph.pt",
}
VERSION = 6199
Tensors = dict[str, Any]
State = Mapping[str, Tensors]
Shapes = dict[str, tuple[str, tuple[int, ...]]]  # dtypes and shapes by name


def read_state(output: Store, key: str) -> State:
    """Load the tensors of a graph by group and name, without GraphBolt.

    Raises:
        InvalidInputError: It is no graph of GraphBolt, or is damaged.

    Peak memory: the file.
    """
    where, path = output.uri_of(key), output.local_copy(key)
    check_torch_file(path, path.stat().st_mtime_ns)
    try:
        graph = read_torch_file(path, CLASSES)
        state, name = vars(graph)["_c_csc_graph"].state
    except (KeyError, AttributeError, TypeError, ValueError) as error:
        raise InvalidInputError(
            f"{where} is not a graph of GraphBolt: {error}",
            expected="a file that DGL 2.1 or the stage 'convert' wrote",
            remedy="Fetch or convert the partition again.",
        ) from error
    if name != SCRIPT:
        raise InvalidInputError(f"{where} has an object of another class", found=name, expected=SCRIPT)
    found: State = state
    return found


def load_graph(output: Store, key: str) -> dict[str, Array]:
    """Return the columns of a partition's nodes and edges that GraphBolt's graph has; see `Format.load`.

    The edges are by destination. Peak memory: 40 bytes an edge.
    """
    state = read_state(output, key)
    tensors, nodes, edges = (state[k] for k in ("independent_tensors", "node_attributes", "edge_attributes"))
    indptr = tensors["indptr"]
    found = {
        "nodes/new_id": nodes["_ID"],
        "edges/src": tensors["indices"].astype(np.int64),
        "edges/dst": np.repeat(np.arange(len(indptr) - 1), np.diff(indptr)),
    }
    if "type_per_edge" in tensors:
        found["edges/type_id"] = tensors["type_per_edge"].astype(np.int32)
    for name, attributes, attribute in (
        ("edges/new_id", edges, "_ID"),
        ("nodes/inner", nodes, "inner_node"),
        ("edges/inner", edges, "inner_edge"),
    ):
        if attribute in attributes:
            found[name] = attributes[attribute]
    return found


def check_config(findings: Findings, output: Store, key: str, expected: Book) -> None:
    """Check the partition config."""
    with findings.check("configuration"):
        config = output.read_json(key)
        values = {
            **config_values(expected),
            "node_map": expected.node_ranges(),
            "edge_map": expected.edge_ranges(),
            "node_map_dtype": "int64",
            "edge_map_dtype": "int64",
        }
        for part in range(expected.num_parts):
            values[f"part-{part}"] = {name: f"part{part}/{file}" for name, file in FILES.items()}
        for name, value in values.items():
            findings.same("configuration", f"graphbolt: {name}", config.get(name), value)
        findings.same(
            "configuration", "graphbolt: the list of keys", sorted(config), sorted([*values, "part_method"])
        )


def check_graph(
    findings: Findings, output: Store, key: str, part: int, expected: Book, options: Mapping[str, Any]
) -> None:
    """Check names, dtypes, shapes and order of the tensors of a graph.

    Peak memory: 16 bytes an edge.
    """
    check = "graphbolt-graph"
    with findings.check(check):
        state = read_state(output, key)
        tensors = state["independent_tensors"]
        nodes, edges = len(tensors["indptr"]) - 1, len(tensors["indices"])
        shapes = {
            group: {name: (str(tensor.dtype), tuple(tensor.shape)) for name, tensor in state[group].items()}
            for group in state
            if not group.endswith("_to_id")
        }
        wanted = _expected(nodes, edges, expected, options["graphbolt_attributes"])
        for group in sorted({*shapes, *wanted}):
            findings.same(check, f"{key}: {group}", shapes.get(group), wanted.get(group))
        findings.same(check, f"{key}: version_number", tensors["version_number"].tolist(), [VERSION])
        for group, names in _types(expected).items():
            found = {name: int(value) for name, value in state.get(group, {}).items()}
            findings.same(check, f"{key}: {group}", found, {name: n for n, name in enumerate(names)})
        num_inner = sum(counts[part] for counts in expected.node_counts.values())
        _check_order(findings, check, key, tensors, num_inner)


def _check_order(findings: Findings, check: str, key: str, tensors: Tensors, num_inner: int) -> None:
    """Check that the matrix is one, and that the edges of an inner node are by type, as GraphBolt expects."""
    indptr, indices = tensors["indptr"].astype(np.int64), tensors["indices"]
    ends = (int(indptr[0]), int(indptr[-1]), int(np.diff(indptr).min(initial=0)))
    findings.same(check, f"{key}: first, last and least step of indptr", ends, (0, len(indices), 0))
    outside = (indices < 0) | (indices >= len(indptr) - 1)
    findings.same(check, f"{key}: sources that are no node", int(np.count_nonzero(outside)), 0)
    if "type_per_edge" in tensors:
        types = tensors["type_per_edge"][: indptr[num_inner]].astype(np.int64)
        fewer = np.flatnonzero(np.diff(types) < 0) + 1
        wrong = np.setdiff1d(fewer, indptr)
        findings.same(check, f"{key}: edges before edges of a smaller type", len(wrong), 0)


def _expected(nodes: int, edges: int, book: Book, attributes: list[str]) -> dict[str, Shapes]:
    """Return dtype and shape of each tensor, as ``dgl_partition_to_graphbolt`` makes them."""
    narrow = [np.dtype(np.int32 if count < np.iinfo(np.int32).max else np.int64) for count in (edges, nodes)]
    tensors: Shapes = {
        "version_number": ("int64", (1,)),
        "indptr": (str(narrow[0]), (nodes + 1,)),
        "indices": (str(narrow[1]), (edges,)),
    }
    if _types(book):
        small = len(book.edge_types) < np.iinfo(np.int8).max
        tensors["type_per_edge"] = ("int8" if small else "int16", (edges,))
    of_nodes: Shapes = {"_ID": ("int64", (nodes,))}
    of_edges: Shapes = {"_ID": ("int64", (edges,))} if "eids" in attributes else {}
    if "inner_node" in attributes:
        of_nodes["inner_node"] = ("uint8", (nodes,))
    if "inner_edge" in attributes:
        of_edges["inner_edge"] = ("uint8", (edges,))
    return {"independent_tensors": tensors, "node_attributes": of_nodes, "edge_attributes": of_edges}


def _types(book: Book) -> dict[str, list[str]]:
    if book.is_homogeneous:
        return {}
    return {"node_type_to_id": book.node_types, "edge_type_to_id": book.edge_types}
